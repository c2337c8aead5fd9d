"""Which modules and parameters of a block belong to which of its sublayers."""

from __future__ import annotations

from collections.abc import Sequence

from torch import nn

from depthscope.anatomy.children import direct_children, is_inside, is_norm, join
from depthscope.anatomy.reads import origins
from depthscope.anatomy.solve import Write
from depthscope.anatomy.trace import Trace


def members(
    block: nn.Module, trace: Trace, writes: Sequence[Write], tolerance: float
) -> tuple[list[list[str]], list[str]]:
    """Share a block's modules and own parameters between its writes.

    What a write is computed from belongs to it; the rest goes to the next write that comes after it.
    Returns module paths (or parameter names) for each write, relative to the block, and the parameters that
    were never used where it could be seen, which belong to none.
    """
    chains = [{call.module for call in (*origins(trace, w.call, tolerance), w.call)} for w in writes]
    shares: list[list[str]] = [[] for _ in writes]
    nobody: list[str] = []
    _share(block, "", trace, writes, chains, shares, nobody)
    return shares, nobody


def main_module(block: nn.Module, share: Sequence[str], write: str) -> str:
    """Return the path that names a sublayer: its one module with matrices, else the module that writes."""
    candidates = []
    for path in share:
        if path in block._parameters:
            continue
        module = block.get_submodule(path)
        if not is_norm(module) and any(parameter.ndim >= 2 for parameter in module.parameters()):
            candidates.append(path)
    return candidates[0] if len(candidates) == 1 else write


def _share(
    module: nn.Module,
    path: str,
    trace: Trace,
    writes: Sequence[Write],
    chains: Sequence[set[str]],
    shares: list[list[str]],
    nobody: list[str],
) -> None:
    for name, _ in module.named_parameters(recurse=False):
        full = join(path, name)
        used = trace.used.get(full)
        owner = None if used is None else _next_write(used, writes)
        (nobody if owner is None else shares[owner]).append(full)
    for name, child in direct_children(module):
        full = join(path, name)
        if next(child.parameters(), None) is None:
            continue
        inside = [place for place, write in enumerate(writes) if is_inside(write.call.module, full)]
        if len(inside) > 1 and len({writes[place].call.module for place in inside}) > 1:
            _share(child, full, trace, writes, chains, shares, nobody)
            continue
        owner = inside[0] if inside else _owner(full, trace, writes, chains)
        (nobody if owner is None else shares[owner]).append(full)


def _owner(path: str, trace: Trace, writes: Sequence[Write], chains: Sequence[set[str]]) -> int | None:
    for place, chain in enumerate(chains):
        if path in chain:
            return place
    first = next((call.enter for call in trace.calls if is_inside(call.module, path)), None)
    return None if first is None else _next_write(first, writes)


def _next_write(time: int, writes: Sequence[Write]) -> int:
    return next((place for place, write in enumerate(writes) if write.call.exit > time), len(writes) - 1)
