"""The likely cause of a site's silence, as far as the model tells."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from torch import nn

from depthscope.anatomy import parameter_groups
from depthscope.marks import DepthAxis, Port
from depthscope.recording.group_reasons import tied_groups
from depthscope.recording.sites import Place, Sites

NO_GRADIENTS = (
    "no parameter had a gradient when they were read: give the recorder the optimizer, or call zero_grad after "
    "recorder.step()"
)
COMPILED = (
    "never fired: its compiled code ran before the recorder was attached, for this model or for another of its class; "
    "attach first, or call torch.compiler.reset() after attaching"
)
REPLACED = "never fired: its module was replaced after the recorder was attached; make the recorder last"
BYPASSED = (
    "never fired, though its parameters get gradients: the parent bypasses its forward (calls .forward() itself, or "
    "reads its weights)"
)
UNUSED = "never fired, and its parameters get no gradient: unused (a branch not taken, a layer that is always dropped)"
NEVER_CALLED = (
    "never fired: its module is never called in training (unused, or the parent bypasses its forward)"
)


class Causes:
    """Knows the modules as they were when the recorder was attached."""

    def __init__(self, axis: DepthAxis, model: nn.Module, parameters: Mapping[str, Any]) -> None:
        self._model, self._parameters = model, parameters
        self._groups = parameter_groups(axis, model)
        self._tied = tied_groups(axis, model)
        self._ports = dict(_ports(axis))
        self._modules = {port.module: model.get_submodule(port.module) for port in self._ports.values()}

    def __call__(self, place: Place, sites: Sites) -> str:
        """Return why nothing came from a place."""
        kind, position = place
        if kind.endswith("parameters"):
            return self._ungraded(_group(kind, position), sites)
        port = self._ports.get(place)
        if port is None:
            return NEVER_CALLED
        if self._now(port.module) is not self._modules[port.module]:
            return REPLACED
        if sites.blind or self._compiled(port.module, sites):
            return COMPILED
        if kind not in ("write", "read", "state") or not sites.graded:
            return NEVER_CALLED
        if sites.fired("sublayer parameters", position):
            return BYPASSED
        return NEVER_CALLED if self._frozen(self._groups.get(f"layer/{position + 1}", [])) else UNUSED

    def _ungraded(self, group: str, sites: Sites) -> str:
        held = [names for key, names in self._groups.items() if key == group or key.startswith(f"{group}/")]
        members = [name for names in held for name in names]
        if not members:
            return self._tied.get(group, "the model has no such parameters")
        if self._frozen(members):
            return "frozen: none of its parameters requires a gradient"
        if not sites.graded:
            return NO_GRADIENTS
        return "no gradient came to its parameters: they are not used in the loss, or no optimizer given has them"

    def _frozen(self, names: Iterable[str]) -> bool:
        held = [self._parameters[name] for name in names if name in self._parameters]
        # A sharded parameter stands behind what reads its local part.
        return bool(held) and not any(getattr(each, "parameter", each).requires_grad for each in held)

    def _compiled(self, path: str, sites: Sites) -> bool:
        """Whether a module around this one runs compiled code in which no site fires."""
        parts = path.split(".") if path else []
        for end in range(len(parts) + 1):
            around = ".".join(parts[:end])
            module = self._now(around)
            if module is None or getattr(module, "_compiled_call_impl", None) is None:
                continue
            within = f"{around}." if around else ""
            inside = [place for place, port in self._ports.items() if f"{port.module}.".startswith(within)]
            return not any(sites.fired(*place) for place in inside if place[0] in sites.quantities)
        return False

    def _now(self, path: str) -> nn.Module | None:
        try:
            return self._model.get_submodule(path)
        except AttributeError:
            return None


def _ports(axis: DepthAxis) -> Iterable[tuple[Place, Port]]:
    found: list[tuple[Place, Port | None]] = [(("embedding", 0), axis.embedding)]
    for sublayer in axis.sublayers:
        position = sublayer.index - 1
        found += [
            (("write", position), sublayer.write),
            (("read", position), sublayer.read),
            (("state", position), sublayer.state),
            (("output", position), sublayer.output),
            (("state before its norm", position), sublayer.state_prenorm),
        ]
    found += [(("streams", mixing.layer - 1), mixing.weights) for mixing in axis.streams]
    found += [(("mixer", mixer.target - 1), mixer.weights) for mixer in axis.mixers]
    found += [(("outer state", block.index - 1), block.boundary) for block in axis.outer]
    found.append((("final read", 0), axis.final_read))
    return [(place, port) for place, port in found if port is not None]


def _group(kind: str, position: int) -> str:
    """Return the beginning of the names of the parameter groups behind a place."""
    match kind:
        case "sublayer parameters":
            return f"layer/{position + 1}"
        case "mixer parameters":
            return f"mixer/{position + 1}"
        case "interface parameters":
            return f"interface/{position + 1}"
        case _:
            return kind.removesuffix(" parameters").replace(" ", "_")
