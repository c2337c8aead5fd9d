"""Fault 30: torch.distributed is not there, not initialised, or initialised after attach: recorded alone, and said."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch.distributed as dist

from depthscope.recording import Recorder
from tests.faults.truth import ALL, one_step, same, truth, without_updates
from tests.ranks.expected import TOKENS, compare, row_of
from tests.ranks.launching import left_by
from tests.ranks.models import batch_of
from tests.ranks.models import trained as trained_as_on_ranks
from tests.recording.loops import build
from tests.recording.rows import spy_on_rows, trained


def refuse(*_: Any, **__: Any) -> Any:
    raise RuntimeError("torch.distributed package is not available")


@pytest.mark.parametrize("built", [True, False])
def test_one_process_needs_no_process_group(
    built: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`built`: torch may come without it, and then every other call fails."""
    assert not dist.is_initialized()
    if not built:
        monkeypatch.setattr(dist, "is_available", lambda: False)
        for name in ("is_initialized", "get_rank", "get_world_size", "new_group"):
            monkeypatch.setattr(dist, name, refuse)
    rows = spy_on_rows(monkeypatch)
    model, inputs, targets = trained(build("prenorm"))
    expected = truth(model, inputs, targets)
    optimizer = without_updates(model)
    with Recorder(model, tmp_path / "run", optimizer=optimizer) as recorder:
        one_step(model, optimizer, recorder, inputs, targets)
    same(rows["fast"][0], expected, *ALL, "loss")


def test_a_group_of_one_is_one_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As torchrun --nproc-per-node=1 makes it."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        rows = spy_on_rows(monkeypatch)
        model, inputs, targets = trained(build("prenorm"))
        expected = truth(model, inputs, targets)
        optimizer = without_updates(model)
        with Recorder(model, tmp_path / "run", optimizer=optimizer) as recorder:
            one_step(model, optimizer, recorder, inputs, targets)
        same(rows["fast"][0], expected, *ALL, "loss")
        assert "rank" not in str(recorder.report())
    finally:
        dist.destroy_process_group()


def test_ranks_that_come_after_the_recorder_are_noticed(troubled: Path) -> None:
    first, second = (left_by(troubled, "late/foreign/none", rank) for rank in range(2))
    for left in (first, second):
        assert len(left["warnings"]) == 1
        assert "make the recorder after init_process_group" in left["warnings"][0]
        assert any("holds one process's tokens" in note for note in left["notes"])
        assert left["rows"]["fast"][0]["loss_tokens"] == TOKENS
    assert "is being written by process" in second["said"]


def test_until_then_each_rank_records_its_own_batch(troubled: Path) -> None:
    for rank in range(2):
        row = left_by(troubled, "late/foreign/none", rank)["rows"]["fast"][0]
        expected = row_of(trained_as_on_ranks("foreign"), *batch_of(rank))
        names = ("write_rms", "state_rms", "grad_write_rms", "param_grad_norm", "loss")
        compare(row, {name: expected[name] for name in names})
