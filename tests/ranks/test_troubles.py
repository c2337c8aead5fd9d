"""A rank that sees less, stops, fails, hangs or dies: its numbers are missing and named, and nobody waits."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from depthscope.store import open_run
from tests.ranks.expected import compare, row_of
from tests.ranks.launching import launch_without_watch, left_by
from tests.ranks.models import ROWS, batch_of, together, trained
from tests.recording.loops import TIME

TOKENS = ROWS * TIME
FORWARD = (
    "write_rms",
    "state_rms",
    "read_rms",
    "write_ratio",
    "abs_max",
    "grad_write_rms",
    "grad_read_rms",
    "loss",
)


def alone(place: int) -> dict[str, Any]:
    """What one rank of the prenorm decoder sees on a batch by itself."""
    return row_of(trained("prenorm"), *batch_of(place))


def only_rank_zero(row: dict[str, Any], place: int) -> None:
    wanted = alone(place)
    compare(row, {name: wanted[name] for name in FORWARD})
    assert row["loss_tokens"] == TOKENS


def both_ranks(row: dict[str, Any], place: int) -> None:
    wanted = row_of(trained("prenorm"), *together([batch_of(place), batch_of(place + 1)]))
    compare(row, {name: wanted[name] for name in (*FORWARD, "param_grad_norm", "grad_norm")})
    assert row["loss_tokens"] == 2 * TOKENS


def test_a_site_that_one_rank_leaves_out_counts_with_the_tokens_of_the_other(troubled: Path) -> None:
    row = left_by(troubled, "unused/foreign/ddp")["rows"]["fast"][0]
    whole, without = trained("foreign"), trained("foreign")
    del without.tower[2]
    first, second = row_of(whole, *batch_of(0)), row_of(without, *batch_of(1))
    skipped, kept = [4, 5], [0, 1, 2, 6, 7]  # the fourth state is seen where the third stage reads it
    for name in ("write_rms", "write_logrms", "write_ratio"):
        np.testing.assert_allclose(row[name][skipped], first[name][skipped], rtol=1e-5, err_msg=name)
    for name in ("write_rms", "state_rms", "grad_write_rms"):
        both = np.sqrt((first[name][kept] ** 2 + np.delete(second[name], 3) ** 2) / 2)
        np.testing.assert_allclose(row[name][kept], both, rtol=1e-5, err_msg=name)
    # DDP divides by the ranks, whoever brings a gradient.
    np.testing.assert_allclose(
        row["param_grad_norm"][skipped], first["param_grad_norm"][skipped] / 2, rtol=1e-5
    )


def test_a_rank_that_stops_one_step_early_is_left_out_from_there(troubled: Path) -> None:
    left = left_by(troubled, "early/prenorm/ddp")
    rows = left["rows"]["fast"]
    assert sorted(rows) == [0, 1, 2]
    both_ranks(rows[0], 0)
    both_ranks(rows[1], 10)
    only_rank_zero(rows[2], 20)
    assert left["missing"]["rank 1"].startswith("ended its recording before row 2")
    assert (left["accepted"], left_by(troubled, "early/prenorm/ddp", 1)["accepted"]) == (2, 1)


def test_a_recording_that_fails_on_one_rank_goes_on_without_it(troubled: Path) -> None:
    left = left_by(troubled, "failed/prenorm/ddp")
    rows = left["rows"]["fast"]
    both_ranks(rows[0], 0)
    only_rank_zero(rows[1], 10)
    only_rank_zero(rows[2], 20)
    assert "ZeroDivisionError" in left["missing"]["rank 1"]
    other = left_by(troubled, "failed/prenorm/ddp", 1)
    assert len(other["losses"]) == 3
    assert len(other["warnings"]) == 1


def test_a_row_that_one_rank_drops_holds_the_others(troubled: Path) -> None:
    left = left_by(troubled, "dropped/prenorm/ddp")
    rows = left["rows"]["fast"]
    both_ranks(rows[0], 0)
    only_rank_zero(rows[1], 10)
    both_ranks(rows[2], 20)
    assert "dropped 1 rows, which lack its numbers, row 1 last" in left["missing"]["rank 1"]


def test_closing_does_not_wait_for_a_rank_that_hangs(troubled: Path) -> None:
    left = left_by(troubled, "stuck/prenorm/none")
    assert sorted(left["rows"]["fast"]) == [0, 1, 2]
    only_rank_zero(left["rows"]["fast"][2], 20)
    assert left["seconds"] < 60
    assert len(left["warnings"]) == 1
    assert "rank 1 was lost before row 0 came" in left["warnings"][0]


def test_a_killed_rank_ends_its_part_with_one_warning(killed: tuple[Path, list[int]]) -> None:
    folder, codes = killed
    left = left_by(folder, "killed/prenorm/none")
    assert codes == [0, -signal.SIGKILL]
    rows = left["rows"]["fast"]
    assert sorted(rows) == [0, 1, 2, 3, 4]
    wanted = row_of(trained("prenorm"), *together([batch_of(10), batch_of(11)]))
    compare(rows[1], {name: wanted[name] for name in FORWARD})
    only_rank_zero(rows[4], 40)
    assert left["missing"]["rank 1"].startswith("was lost before row 2 came: ")
    assert len(left["losses"]) == 5
    assert len(left["warnings"]) == 1
    assert left["seconds"] < 60


def test_an_error_on_one_rank_ends_it_with_its_own_exit_code(tmp_path: Path) -> None:
    codes = launch_without_watch(2, "raised/prenorm/none", tmp_path)
    assert codes == [1, 0]
    run = open_run(tmp_path / "raised-prenorm-none")
    assert run["loss_tokens"].values.tolist() == [2 * TOKENS, 2 * TOKENS]
    assert run.notes["stopped"] == "KeyError"


def test_rows_survive_a_process_group_destroyed_before_the_recorder_closes(troubled: Path) -> None:
    left = left_by(troubled, "destroyed/prenorm/ddp")
    for place in range(3):
        both_ranks(left["rows"]["fast"][place], 10 * place)
    assert "rank 1" not in left["missing"]


@pytest.mark.parametrize(
    ("what", "on_first", "on_second"),
    [
        ("every", "rank 1 differs from rank 0 in every: {'fast': 2", "rank 1 differs from rank 0 in every"),
        ("anatomy", "rank 1 differs from rank 0 in its design: prenorm, and", "in its design"),
        ("path", "FileExistsError", "rank 0 could not attach: FileExistsError"),
    ],
)
def test_what_the_ranks_disagree_on_is_an_error_on_all(
    what: str, on_first: str, on_second: str, troubled: Path
) -> None:
    first, second = (left_by(troubled, "disagreeing/foreign/none", rank) for rank in range(2))
    assert on_first in first[what]
    assert on_second in second[what]


def test_other_ways_to_shard_are_refused_by_name(troubled: Path) -> None:
    said = left_by(troubled, "refused/foreign/none")
    assert said["tensor"].startswith(
        "tower.1.beta.0.weight is sharded as (Shard(dim=0),), not by fully_shard"
    )
    assert "shard it with torch.distributed.fsdp.fully_shard" in said["flat"]


def test_a_recorder_on_one_rank_alone_is_an_error_that_names_the_others(troubled: Path) -> None:
    said = left_by(troubled, "alone/prenorm/none")["said"]
    assert said.startswith("rank 1 made no Recorder within")
    assert "make it on every rank" in said


def test_ranks_that_come_after_the_recorder_are_noticed(troubled: Path) -> None:
    first, second = (left_by(troubled, "late/foreign/none", rank) for rank in range(2))
    for left in (first, second):
        assert len(left["warnings"]) == 1
        assert "make the recorder after init_process_group" in left["warnings"][0]
        assert any("holds one process's tokens" in note for note in left["notes"])
        assert left["rows"]["fast"][0]["loss_tokens"] == TOKENS
    assert "is being written by process" in second["said"]
