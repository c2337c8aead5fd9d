"""Which places a forward passes exactly once, and in which order: what nnsight's labels are held to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from depthscope.anatomy import floating, port_value
from depthscope.causal.error import CausalError
from depthscope.causal.values import Values
from depthscope.causal.visits import Place
from depthscope.marks import DepthAxis, Port


class Passed:
    """What ordinary hooks see in one forward of a model that nnsight has not wrapped."""

    def __init__(self, model: nn.Module, ports: Sequence[Port], values: Values) -> None:
        self._model, self._ports, self._values = model, ports, values
        self._passed: list[Place] = []
        self.tensors: dict[str, tuple[tuple[int | str, ...], ...]] = {}
        """By module path, where the floating tensors of its output are inside it."""
        self.largest = 0
        """Bytes of the largest output of a module."""
        self.skippable: set[str] = set()
        """Modules that give one tensor of the shape of their first."""

    def run(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Run the forward without gradients and return its output."""
        handles = []
        for path, module in self._model.named_modules():
            before, after = self._before(path), self._after(path)
            handles += [
                module.register_forward_pre_hook(before, with_kwargs=True),
                module.register_forward_hook(after, with_kwargs=True),
            ]
        try:
            with torch.no_grad():
                return self._model(*args, **kwargs)
        finally:
            for handle in handles:
                handle.remove()

    @property
    def order(self) -> dict[Place, int]:
        """The places passed exactly once, numbered in the order of the forward; ``skip`` where a module can be skipped."""
        once = {
            (path, side)
            for (path, side), times in Counter(self._passed).items()
            if times == 1 and (side != "skip" or path in self.skippable)
        }
        return {place: number for number, place in enumerate(self._passed) if place in once}

    def _before(self, path: str) -> Any:
        def hook(module: nn.Module, args: Any, kwargs: Any) -> None:
            self._passed += [(path, "input"), (path, "skip")]
            self._keep(path, "input", args, kwargs, None)

        return hook

    def _after(self, path: str) -> Any:
        def hook(module: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
            self._passed.append((path, "output"))
            found = list(floating(output))
            self.tensors[path] = tuple(where for where, _ in found)
            self.largest = max(
                [self.largest, *(tensor.numel() * tensor.element_size() for _, tensor in found)]
            )
            taken = next((tensor for _, tensor in floating((args, kwargs))), None)
            if isinstance(output, Tensor) and taken is not None and output.shape == taken.shape:
                self.skippable.add(path)
            self._keep(path, "output", args, kwargs, output)

        return hook

    def _keep(self, path: str, side: str, args: Any, kwargs: Any, output: Any) -> None:
        for port in self._ports:
            if (port.module, port.side) == (path, side):
                value = port_value(port, args, kwargs, output)
                if value is not None:
                    self._values.put(port, value.clone())


def axis_ports(axis: DepthAxis) -> tuple[Port, ...]:
    """Return every port of an axis, each once."""
    ports = [axis.embedding, axis.final_read, axis.outer_end]
    for sublayer in axis.sublayers:
        ports += [sublayer.read, sublayer.write, sublayer.state]
    for mixer in axis.mixers:
        ports += [
            mixer.weights,
            *mixer_sources(mixer.module, len(mixer.sources)),
            Port(module=mixer.module, side="output"),
        ]
    for block in axis.outer:
        ports += [block.carry, block.read, block.write, block.boundary, block.state]
    return tuple(dict.fromkeys(port for port in ports if port is not None))


def mixer_sources(module: str, count: int) -> tuple[Port, ...]:
    """Return where each source of a mixer passes, in the order the mixer takes them."""
    return tuple(Port(module=module, side="input", path=(0, place)) for place in range(count))


def compare(seen: Values, hooked: Values, ports: Sequence[Port]) -> None:
    """Raise CausalError where a label showed something else than a hook on the module it stands for."""
    for port in ports:
        if port not in hooked:
            raise CausalError(f"a forward shows no floating tensor at {port}, which the depth axis names")
        if port not in seen or not torch.equal(seen[port], hooked[port]):
            raise CausalError(
                f"{port}: nnsight shows another tensor than an ordinary hook; interventions there would not be what "
                "they say. Is another version installed than depthscope[causal] asks for?"
            )
