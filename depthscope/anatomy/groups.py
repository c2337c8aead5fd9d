"""Which parameter belongs where, for the norms of their gradients."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from torch import nn

from depthscope.marks import DepthAxis

REST = "rest"


def parameter_groups(axis: DepthAxis, model: nn.Module) -> dict[str, list[str]]:
    """Share all parameters of `model` (unwrapped) between the parts of its depth axis.

    Keys are ``layer/<l>`` for each sublayer, ``mixer/<target>``, ``interface/<block>/read``, ``write`` and
    ``gate``, ``embedding``, ``head``, ``final_norm`` and ``rest``; values are names as ``named_parameters()``
    gives them. Every one of these is in exactly one group, so that the squares of the groups' norms sum to
    the global norm squared. Tied weights are one parameter: it counts with the embedding, or with the first
    group that has it.
    """
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    everywhere = {name: id(p) for name, p in model.named_parameters(remove_duplicate=False)}
    left = dict(names)
    groups: dict[str, list[str]] = {}
    for group, members in _members(axis):
        held = groups.setdefault(group, [])
        for name, identity in everywhere.items():
            if identity in left and _within(name, members):
                held.append(left.pop(identity))
    groups.setdefault(REST, []).extend(left.values())
    return groups


def tied_parameters(model: nn.Module) -> dict[str, str]:
    """Return the further names of parameters that have several, each with the one ``named_parameters()`` gives."""
    first = {id(parameter): name for name, parameter in model.named_parameters()}
    everywhere = model.named_parameters(remove_duplicate=False)
    return {name: first[id(parameter)] for name, parameter in everywhere if name != first[id(parameter)]}


def tied_names(axis: DepthAxis, model: nn.Module) -> dict[str, dict[str, str]]:
    """Return, by group as `parameter_groups` has them, the further names of tied parameters that are used there."""
    tied = tied_parameters(model)
    used = {
        group: {name: first for name, first in tied.items() if _within(name, members)}
        for group, members in _members(axis)
    }
    # Seen from its weights alone, a head that is tied to the embedding is another name of that.
    return used if axis.head_parameters else {**used, "head": used["embedding"]}


def _within(name: str, members: Sequence[str]) -> bool:
    return any(name == member or name.startswith(f"{member}.") or not member for member in members)


def _members(axis: DepthAxis) -> Iterator[tuple[str, Sequence[str]]]:
    yield "embedding", axis.embedding_parameters
    for mixer in axis.mixers:
        yield f"mixer/{mixer.target}", mixer.parameters
    for block in axis.outer:
        # A gate may lie inside the module whose matrix it weighs, so gates go first.
        gates = [name for name in (block.read_gate, block.write_gate) if name is not None]
        yield f"interface/{block.index}/gate", gates
        yield f"interface/{block.index}/read", block.read_parameters
        yield f"interface/{block.index}/write", block.write_parameters
    for sublayer in axis.sublayers:
        yield f"layer/{sublayer.index}", sublayer.parameters
    yield "final_norm", axis.final_norm_parameters
    yield "head", axis.head_parameters
