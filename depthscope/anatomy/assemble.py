"""From what was seen in each block to the depth axis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from torch import nn

from depthscope.anatomy.finding import BlockFinding, Check, FoundSublayer
from depthscope.anatomy.forward import Observation
from depthscope.anatomy.plan import Plan
from depthscope.marks import DepthAxis, Port, Sublayer

FOUND_DESIGN = "additive"
"""What the design of a model is called that writes all its sublayers to one stream."""


@dataclass(frozen=True, kw_only=True)
class Settled:
    """The outcome of a settling."""

    axis: DepthAxis | None
    checks: tuple[Check, ...]
    notes: tuple[str, ...]


def assemble(model: nn.Module, plan: Plan, seen: Observation) -> Settled:
    """Number the sublayers in the order they were called, and link the blocks where the stream is one.

    What failed is left out, with its reason in the notes. The axis is None where no sublayer is left.
    """
    notes = _Notes()
    findings = seen.findings
    for path in plan.blocks:
        if all(finding.path != path for finding in findings):
            container = isinstance(model.get_submodule(path), nn.ModuleList | nn.ModuleDict)
            why = (
                "is a container that is never called itself"
                if container
                else "was not called in this forward"
            )
            notes.add(path, f"no record: it {why}")
    for finding in findings:
        _withdraw_repeated(finding, model, seen)
        if finding.reason:
            notes.add(finding.path, f"no record: {finding.reason}")
        for note in finding.notes if not finding.reason else ():
            notes.add(finding.path, note)
    sublayers: list[Sublayer] = []
    for place, finding in enumerate(findings):
        if not finding.reason:
            following = findings[place + 1] if place + 1 < len(findings) else None
            sublayers += _sublayers(finding, following, place + 1, seen, notes)
    checks = tuple(check for finding in findings for check in finding.checks)
    if not sublayers:
        return Settled(axis=None, checks=checks, notes=notes.lines())
    numbered = tuple(
        replace(sublayer, index=index, residual_block=plan.residual_block(index, len(sublayers)))
        for index, sublayer in enumerate(sublayers, start=1)
    )
    embedding, norm, head = seen.surroundings.sort(model)
    axis = DepthAxis(
        design=FOUND_DESIGN,
        embedding=findings[0].entry,
        final_read=seen.final_read or findings[-1].leave,
        sublayers=numbered,
        source_names=_source_names(plan, numbered),
        mixers=plan.mixers,
        embedding_parameters=embedding,
        head_parameters=head,
        final_norm_parameters=norm,
    )
    return Settled(axis=axis, checks=checks, notes=notes.lines())


def _withdraw_repeated(finding: BlockFinding, model: nn.Module, seen: Observation) -> None:
    """Withdraw what passes a module that is called more than once: a hook can't tell the calls apart."""
    if finding.reason:
        return

    def calls(port: Port | None) -> int:
        return 0 if port is None else seen.calls[model.get_submodule(port.module)]

    if calls(finding.leave) > 1:
        finding.reason = f"the block is called {calls(finding.leave)} times in one forward"
    kept = []
    for sublayer in finding.sublayers:
        if calls(sublayer.write) > 1:
            told = f"{sublayer.write.module} is called {calls(sublayer.write)} times in one forward"
            finding.reason = finding.reason or told
        if sublayer.read is not None and calls(sublayer.read) > 1:
            finding.notes.append(
                f"{sublayer.read.module} is called more than once: the read there is missing"
            )
            sublayer = replace(sublayer, read=None)
        if calls(sublayer.state) > 1:
            sublayer = replace(sublayer, state=None)
        kept.append(sublayer)
    finding.sublayers = tuple(kept)


def _sublayers(
    finding: BlockFinding, following: BlockFinding | None, block: int, seen: Observation, notes: _Notes
) -> list[Sublayer]:
    found = finding.sublayers
    linked, state = _link(finding, following, seen)
    if following is not None and not finding.continues(following.entering, seen.tolerance):
        notes.add(
            finding.path,
            "the next block takes something else than this block's output: the stream is changed between",
        )
    made = []
    for place, sublayer in enumerate(found):
        last = place + 1 == len(found)
        goes_on = linked if last else found[place + 1].writes_before == place + 1
        seen_at = state if last else sublayer.state
        additive = sublayer.writes_before == place
        # The share is taken with h + f for the next read: both must be seen, and nothing else added between.
        fresh = goes_on and additive and sublayer.read is not None
        made.append(
            Sublayer(
                index=0,
                name=sublayer.name,
                kind=sublayer.kind,
                transformer_block=block,
                residual_block=0,
                read=sublayer.read,
                write=sublayer.write,
                state=seen_at,
                additive=additive,
                fresh="state" if fresh else None,
                parameters=sublayer.parameters,
            )
        )
        if seen_at is None:
            notes.add(
                finding.path,
                f"the stream after {_short(sublayer, finding)} passes no module: its state is missing",
            )
    return made


def _link(
    finding: BlockFinding, following: BlockFinding | None, seen: Observation
) -> tuple[bool, Port | None]:
    """Return whether the next read is this block's output as it is, and where that is seen."""
    if following is None:
        return True, finding.leave
    if following.reason or not finding.continues(following.entering, seen.tolerance):
        return False, finding.leave
    first = following.sublayers[0]
    if first.writes_before != 0:
        return False, finding.leave
    return True, first.read or finding.leave


def _short(sublayer: FoundSublayer, finding: BlockFinding) -> str:
    return sublayer.name.removeprefix(f"{finding.path}.")


def _source_names(plan: Plan, sublayers: Sequence[Sublayer]) -> tuple[str, ...]:
    if not plan.mixers:
        return ()
    columns = 1 + max(column for mixer in plan.mixers for column in mixer.sources)
    word = "block" if plan.block_size is not None else "sublayer"
    return ("embedding", *(f"{word} {column}" for column in range(1, columns)))


class _Notes:
    """Notes about blocks; what is said of several is said once."""

    def __init__(self) -> None:
        self._paths: dict[str, list[str]] = {}

    def add(self, path: str, text: str) -> None:
        paths = self._paths.setdefault(text, [])
        if path not in paths:
            paths.append(path)

    def lines(self) -> tuple[str, ...]:
        return tuple(f"{_listed(paths)}: {text}" for text, paths in self._paths.items())


def _listed(paths: Sequence[str]) -> str:
    return ", ".join(paths) if len(paths) <= 3 else f"{paths[0]} ... {paths[-1]} ({len(paths)} blocks)"
