"""Modules and parameters that came into the model after the recorder was attached: no hook is on them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from torch import nn

from depthscope.marks import DepthAxis, Sublayer


@dataclass(frozen=True, kw_only=True)
class Change:
    """One place in the model that is no longer what the recorder was attached to."""

    path: str
    what: str
    """What happened: replaced, created or removed."""
    sites: tuple[int, ...] = ()
    """Layers, from 1, one of whose ports was there."""
    norms: tuple[int, ...]
    """Layers whose parameters may have changed; empty where what changed belongs to no layer."""

    @property
    def reason(self) -> str:
        return (
            f"{self.path} was {self.what} after the recorder was attached, so what belongs to it is no longer "
            "recorded: close the recorder and make another"
        )


class Wiring:
    """The modules of a model as they were; compared on the drain thread with what they are."""

    def __init__(self, model: nn.Module, axis: DepthAxis, parameters: Mapping[str, nn.Parameter]) -> None:
        """`parameters` are those that are known."""
        self._model, self._axis = model, axis
        self._children = [
            (path, module, dict(module._modules)) for path, module in model.named_modules() if module._modules
        ]
        self._known = {*map(id, parameters.values()), *map(id, model.parameters())}
        self.strangers: Collection[int] = ()
        """Ids of parameters that an optimizer holds and the model had not: it may have them by now."""
        self._looked_for: frozenset[int] = frozenset()
        self._told: set[str] = set()

    def changes(self) -> list[Change]:
        """Return what has changed and was not told of yet; a place that changes with every step is told of once."""
        found = []
        for path, module, before in self._children:
            now = dict(list(module._modules.items()))  # the training thread may be at it
            if now == before:
                continue
            for name in dict.fromkeys((*before, *now)):
                old, new = before.pop(name, None), now.get(name)
                if old is not new and not self._wraps(new, old):
                    found.append(self._of_module(_join(path, name), old, new))
            before.update(now)
        unseen = frozenset(self.strangers) - self._looked_for
        if unseen:
            self._looked_for |= unseen
            found += self._of_parameters(unseen, {change.path for change in found} | self._told)
        found = [change for change in found if change.path not in self._told]
        self._told |= {change.path for change in found}
        return found

    def _wraps(self, new: nn.Module | None, old: nn.Module | None) -> bool:
        """Whether `new` only holds `old`, as torch.compile and checkpointing do; a LoRA layer has parameters."""
        if new is None or any(id(parameter) not in self._known for parameter in new.parameters()):
            return False
        return old is None or any(module is old for module in new.modules())

    def _of_module(self, path: str, old: nn.Module | None, new: nn.Module | None) -> Change:
        sites = tuple(
            sublayer.index
            for sublayer in self._axis.sublayers
            if any(_within(module, path) for module in _ports(sublayer))
        )
        what = "removed" if new is None else "created" if old is None else "replaced"
        return Change(path=path, what=what, sites=sites, norms=self._owners(path))

    def _of_parameters(self, strangers: frozenset[int], told: set[str]) -> Iterator[Change]:
        """Yield those strangers that are in the model by now, and in no module that was told of already."""
        for name, parameter in self._model.named_parameters():
            if id(parameter) in strangers and not any(_within(name, path) for path in told):
                yield Change(path=name, what="created", norms=self._owners(name))

    def _owners(self, path: str) -> tuple[int, ...]:
        return tuple(
            sublayer.index
            for sublayer in self._axis.sublayers
            if any(_within(path, part) or _within(part, path) for part in sublayer.parameters)
        )


def _ports(sublayer: Sublayer) -> Iterator[str]:
    for port in (sublayer.read, sublayer.write, sublayer.state):
        if port is not None:
            yield port.module


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _within(path: str, parent: str) -> bool:
    return path == parent or path.startswith(f"{parent}.")
