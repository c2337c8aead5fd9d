"""Whether a model is the one that a run recorded, by what both know of their depth."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from depthscope.anatomy import FOUND_DESIGN, layout_of
from depthscope.causal.error import CausalError
from depthscope.causal.subject import Subject
from depthscope.quantities import DepthLayout
from depthscope.store import open_run, sweep_folder


def refuse_other_run(path: Path | None, subject: Subject) -> None:
    """Raise CausalError where `path` is a store beside a run that recorded another model.

    A path beside no run, or None, is refused nothing.
    """
    if path is None or path.parent != sweep_folder(path.parent.parent):
        return
    run = path.parent.parent
    if not (run / "run.json").is_file():
        return
    recorded, given = open_run(run).layout, layout_of(subject.axis, subject.model)
    other = list(_differences(recorded, given))
    if other:
        raise CausalError(
            f"the model is not the one that {run} recorded ({'; '.join(other)}): give the run that the checkpoint "
            "belongs to, or a checkpoint of this run"
        )


def _differences(recorded: DepthLayout, given: DepthLayout) -> Iterator[str]:
    if FOUND_DESIGN not in (recorded.design, given.design) and recorded.design != given.design:
        yield f"design: the run {recorded.design}, the model {given.design}"
    if recorded.layers != given.layers:
        yield f"sublayers: the run {recorded.layers}, the model {given.layers}"
    # 0 is no difference: blocks and mixers may have been named to the recorder alone.
    for what, before, now in (
        ("depth sources", len(recorded.source_names), len(given.source_names)),
        ("depth mixers", _mixers(recorded), _mixers(given)),
        ("residual blocks", _residual_blocks(recorded), _residual_blocks(given)),
        ("outer blocks", recorded.outer_blocks, given.outer_blocks),
        ("outer width", recorded.outer_width, given.outer_width),
    ):
        if before and now and before != now:
            yield f"{what}: the run {before}, the model {now}"


def _mixers(layout: DepthLayout) -> int:
    return sum(bool(columns) for columns in layout.sources)


def _residual_blocks(layout: DepthLayout) -> int:
    return max(layout.residual_block, default=0)
