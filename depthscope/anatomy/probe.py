"""Looking into one block: its writes, reads, states, kinds and parameters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from torch import nn

from depthscope.anatomy.behaviour import BlockAlone
from depthscope.anatomy.block_solve import Solved, Streams, Unsolved, solve_block, streams
from depthscope.anatomy.children import is_inside, join, kind_by_shape
from depthscope.anatomy.finding import BlockFinding, Check, FoundSublayer
from depthscope.anatomy.membership import main_module, members
from depthscope.anatomy.reads import Read, find_reads, find_states, origins
from depthscope.anatomy.shaken import shaken
from depthscope.anatomy.words import Kind
from depthscope.marks import Port


@dataclass(frozen=True, kw_only=True)
class Told:
    """What the caller said about the sublayers of a block: module paths relative to the block."""

    attention: str | None = None
    mlp: str | None = None

    def items(self) -> Iterator[tuple[Kind, str]]:
        if self.attention is not None:
            yield "attention", self.attention
        if self.mlp is not None:
            yield "mlp", self.mlp


def probe_block(
    block: nn.Module,
    path: str,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    output: Any,
    *,
    flags: Mapping[nn.Module, bool],
    told: Told,
) -> BlockFinding:
    """Run one block alone, on the arguments of the model's own forward, and return what it holds.

    The runs that decide are in training mode (`flags`), with shaken parameters and marked outputs: what holds
    there holds throughout training. A block that can't be understood comes back with its reason.
    """
    probe = _Probe(block, path, args, kwargs, flags, told)
    finding = BlockFinding(path=path)
    try:
        for where in streams(args, kwargs, output):
            try:
                return probe.find(where)
            except Unsolved as unsolved:
                # The hidden state is the first that fits: its reason is the one to tell.
                if not finding.reason:
                    finding.reason = str(unsolved)
                    finding.entry, finding.leave = probe.ports(where)
                    if unsolved.error is not None:
                        finding.checks = [probe.check(unsolved.error, unsolved.tolerance, passed=False)]
    except Exception as error:  # noqa: BLE001 - code of the user's, which may raise anything
        finding.reason = f"the block could not be run alone ({type(error).__name__}: {error})"
    finding.reason = finding.reason or "no argument is shaped like the output: no stream passes through"
    return finding


class _Probe:
    def __init__(
        self,
        block: nn.Module,
        path: str,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        flags: Mapping[nn.Module, bool],
        told: Told,
    ) -> None:
        self.block, self.path, self.args, self.kwargs = block, path, args, kwargs
        self.flags = {module: flags[module] for module in block.modules()}
        paths = {name for name, _ in block.named_modules()}
        self.told = [(kind, name) for kind, name in told.items() if name in paths]

    def find(self, where: Streams) -> BlockFinding:
        entry, leave = self.ports(where)
        finding = BlockFinding(path=self.path, entry=entry, leave=leave)
        named = frozenset(name for _, name in self.told) if len(self.told) > 1 else frozenset[str]()
        with shaken(self.block.modules(), seed=1):
            solved = solve_block(self.block, self.args, self.kwargs, where, flags=self.flags, told=named)
            reads = self._reads(solved, where)
            kinds, reads = self._behaviour(solved, where, reads)
        error = max(write.error for write in solved.writes)
        finding.checks = [self.check(error, solved.tolerance, passed=error <= solved.tolerance)]
        self._describe(finding, solved, reads, kinds)
        return finding

    def ports(self, where: Streams) -> tuple[Port, Port]:
        """Return where the stream goes into the block and comes out."""
        return (
            Port(module=self.path, side="input", path=where.entry),
            Port(module=self.path, side="output", path=where.leave),
        )

    def check(self, error: float, tolerance: float, *, passed: bool) -> Check:
        """Return the check that the sum of the writes is what the block adds."""
        name = "output - input - sum of writes"
        return Check(name=name, block=self.path, value=error, tolerance=tolerance, passed=passed)

    def _reads(self, solved: Solved, where: Streams) -> tuple[Read, ...]:
        entry = Port(module="", side="input", path=where.entry)
        return find_reads(solved.trace, solved.writes, entry, solved.tolerance)

    def _behaviour(
        self, solved: Solved, where: Streams, reads: tuple[Read, ...]
    ) -> tuple[list[Kind | None], tuple[Read, ...]]:
        kinds: list[Kind | None] = [None] * len(reads)
        try:
            alone = BlockAlone(self.block, self.args, self.kwargs, where.entry, solved.writes)
            kinds = alone.kinds()
            reads = tuple(
                replace(read, writes_before=place)
                if read.writes_before is None and alone.depends(place)
                else read
                for place, read in enumerate(reads)
            )
        except Exception:  # noqa: BLE001 - some blocks can't be run on other inputs; shapes have to do
            return kinds, reads
        return kinds, reads

    def _describe(
        self, finding: BlockFinding, solved: Solved, reads: Sequence[Read], kinds: Sequence[Kind | None]
    ) -> None:
        shares, nobody = members(self.block, solved.trace, solved.writes, solved.tolerance)
        states = (*find_states(solved.trace, solved.writes, reads, solved.tolerance), None)
        if nobody:
            finding.notes.append(f"used by no sublayer that could be told: {', '.join(nobody)}")
        found = []
        for place, (write, read) in enumerate(zip(solved.writes, reads, strict=True)):
            chain = [*origins(solved.trace, write.call, solved.tolerance), write.call]
            main = main_module(self.block, shares[place], write.call.module)
            told = next((k for k, name in self.told if any(is_inside(c.module, name) for c in chain)), None)
            guess = kind_by_shape(
                [self.block.get_submodule(p) for p in shares[place] if p not in self.block._parameters]
            )
            if read.port is None:
                finding.notes.append(f"what {main} reads passes no module alone: its read is missing")
            found.append(
                FoundSublayer(
                    name=join(self.path, main),
                    kind=told or kinds[place] or guess,
                    read=self._absolute(read.port),
                    write=Port(module=join(self.path, write.call.module), side=write.side, path=write.path),
                    state=self._absolute(states[place]),
                    writes_before=read.writes_before,
                    parameters=tuple(join(self.path, name) for name in shares[place]),
                )
            )
        finding.sublayers = tuple(found)
        self._note_told(finding, solved)

    def _note_told(self, finding: BlockFinding, solved: Solved) -> None:
        chains = [
            call.module
            for write in solved.writes
            for call in (*origins(solved.trace, write.call, solved.tolerance), write.call)
        ]
        for kind, name in self.told:
            if not any(is_inside(module, name) or is_inside(name, module) for module in chains):
                written = ", ".join(write.call.module for write in solved.writes)
                finding.notes.append(f"{kind}={name!r} adds nothing to the stream; the writes are {written}")

    def _absolute(self, port: Port | None) -> Port | None:
        return None if port is None else replace(port, module=join(self.path, port.module))
