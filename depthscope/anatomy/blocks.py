"""Finding the list of transformer blocks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from torch import nn

from depthscope.anatomy.children import is_inside, parameter_count
from depthscope.anatomy.error import AnatomyError

_CLOSE = 0.9
"""Two lists whose parameter counts differ by less than this ratio can't be told apart by size."""

_LAYER_COUNTS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers")


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A container of modules that could be the list of transformer blocks."""

    path: str
    container: str
    """Class of the container."""
    item: str
    """Class of its items."""
    items: int
    parameters: int
    chosen: bool = False

    def __str__(self) -> str:
        return f"{self.path}: {self.container} of {self.items} {self.item}, {self.parameters:,} parameters"


def find_blocks(
    model: nn.Module, blocks: str | nn.Module | Sequence[str | nn.Module] | None
) -> tuple[tuple[str, ...], tuple[Candidate, ...]]:
    """Return the module paths of the transformer blocks in order, and every candidate list.

    `blocks` wins where given: the path of a container, or the blocks themselves (paths or modules). Otherwise
    the list with ``config.num_hidden_layers`` items, else the one with the most parameters.

    Raises:
        AnatomyError: no list, several that can't be told apart, or a name that the model does not have.
    """
    candidates = _candidates(model)
    if blocks is not None:
        return _explicit(model, blocks, candidates), candidates
    chosen = _choose(model, candidates)
    container = model.get_submodule(chosen.path)
    paths = tuple(f"{chosen.path}.{name}" for name, _ in container.named_children())
    marked = (replace(candidate, chosen=candidate is chosen) for candidate in candidates)
    return paths, tuple(sorted(marked, key=lambda c: (not c.chosen, -c.parameters)))


def _candidates(model: nn.Module) -> tuple[Candidate, ...]:
    found = []
    for path, module in model.named_modules():
        items = list(module.children())
        if not path or not isinstance(module, nn.ModuleList | nn.ModuleDict | nn.Sequential) or not items:
            continue
        same_class = len({type(item) for item in items}) == 1
        # A Sequential is often one MLP, and a ModuleDict one block: only equal items make them a list.
        alike = isinstance(module, nn.ModuleList) or (same_class and len(items) > 1)
        composed = any(next(item.children(), None) is not None for item in items)
        if alike and composed and parameter_count(module):
            found.append(
                Candidate(
                    path=path,
                    container=type(module).__name__,
                    item=" | ".join(sorted({type(item).__name__ for item in items})),
                    items=len(items),
                    parameters=parameter_count(module),
                )
            )
    return tuple(sorted(found, key=lambda candidate: -candidate.parameters))


def _choose(model: nn.Module, candidates: Sequence[Candidate]) -> Candidate:
    if not candidates:
        children = ", ".join(f"{name} ({type(child).__name__})" for name, child in model.named_children())
        raise AnatomyError(
            f"no list of transformer blocks in {type(model).__name__}: found {children or 'no children'}, "
            "expected an nn.ModuleList (or nn.Sequential) of blocks; name them, e.g. "
            'inspect_model(model, example, blocks=["first", "second"]) with the paths of the blocks in order'
        )
    count = _layer_count(model)
    fitting = [candidate for candidate in candidates if candidate.items == count] or list(candidates)
    first = fitting[0]
    rivals = [
        other
        for other in fitting[1:]
        if other.parameters >= _CLOSE * first.parameters and not _nested(first.path, other.path)
    ]
    if rivals:
        listed = "".join(f"\n  {candidate}" for candidate in (first, *rivals))
        raise AnatomyError(
            f"several lists of {type(model).__name__} could be the transformer blocks:{listed}\n"
            f'choose one, e.g. inspect_model(model, example, blocks="{first.path}")'
        )
    return first


def _explicit(
    model: nn.Module, blocks: str | nn.Module | Sequence[str | nn.Module], candidates: Sequence[Candidate]
) -> tuple[str, ...]:
    names = {id(module): path for path, module in model.named_modules()}
    if isinstance(blocks, str | nn.Module):
        container = blocks if isinstance(blocks, nn.Module) else _submodule(model, blocks, candidates)
        listed = isinstance(container, nn.ModuleList | nn.ModuleDict | nn.Sequential)
        modules = list(container.children()) if listed else [container]
    else:
        modules = [_submodule(model, b, candidates) if isinstance(b, str) else b for b in blocks]
    if not modules:
        raise AnatomyError("blocks= is empty: expected the paths of the transformer blocks, in order")
    unknown = [type(module).__name__ for module in modules if id(module) not in names]
    if unknown:
        raise AnatomyError(f"blocks= holds {', '.join(unknown)}, not a part of {type(model).__name__}")
    return tuple(names[id(module)] for module in modules)


def _submodule(model: nn.Module, path: str, candidates: Sequence[Candidate]) -> nn.Module:
    try:
        return model.get_submodule(path)
    except AttributeError:
        listed = "".join(f"\n  {candidate}" for candidate in candidates) or " none"
        raise AnatomyError(
            f"blocks={path!r}: {type(model).__name__} has no module of that path; lists that it has:{listed}"
        ) from None


def _layer_count(model: nn.Module) -> int | None:
    config: Any = getattr(model, "config", None)
    for name in _LAYER_COUNTS:
        value = config.get(name) if isinstance(config, dict) else getattr(config, name, None)
        if isinstance(value, int):
            return value
    return None


def _nested(first: str, second: str) -> bool:
    return is_inside(first, second) or is_inside(second, first)
