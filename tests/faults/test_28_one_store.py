"""Fault 28: only rank 0 creates the store; what the others see goes into it."""

from __future__ import annotations

from pathlib import Path

from depthscope.store import open_run
from tests.ranks.conftest import TWO
from tests.ranks.expected import TOKENS
from tests.ranks.launching import left_by


def test_only_rank_zero_writes_and_the_others_say_so(two_ranks: Path) -> None:
    first, second = (left_by(two_ranks, "one_step/prenorm/ddp", rank) for rank in range(2))
    assert second["rows"] == {}
    assert (first["accepted"], second["accepted"]) == (0, 0)
    assert "rank 0 writes" in second["report"]
    assert "rank 0 writes" not in first["report"]
    assert left_by(two_ranks, "inner/foreign/ddp", 1)["path"] == "inner-foreign-ddp0"
    assert not (two_ranks / "inner-foreign-ddp1").exists()


def test_there_is_one_folder_a_recording_and_it_holds_both_ranks_tokens(two_ranks: Path) -> None:
    labels = {each.replace("/", "-") for each in TWO if not each.startswith("probed_before")}  # no recorder
    folders = {path.name for path in two_ranks.iterdir() if path.is_dir()}
    assert folders == (labels - {"inner-foreign-ddp"}) | {"inner-foreign-ddp0"}
    for folder in folders:
        asked_for_two_more = folder.startswith("apart-")  # with per_rank=True
        assert len(list((two_ranks / folder).rglob("run.json"))) == (3 if asked_for_two_more else 1)
    run = open_run(two_ranks / "one_step-prenorm-ddp")
    assert (run.status, run["loss_tokens"].values.tolist()) == ("finished", [2 * TOKENS])
