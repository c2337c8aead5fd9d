"""A rank that sees less, stops, fails, hangs or dies: its numbers are missing and named, and nobody waits."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from depthscope.store import open_run
from tests.ranks.expected import FORWARD, TOKENS, both_ranks, compare, only_rank_zero, row_of
from tests.ranks.launching import launch_without_watch, left_by
from tests.ranks.models import batch_of, together, trained


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


@pytest.mark.parametrize(
    ("rank", "others"),
    [
        (0, "rank 1, which has not closed its recorder: every rank calls recorder.close()"),
        (1, "rank 0, which takes this rank's rows as its own steps end"),
    ],
)
def test_closing_alone_says_soon_for_whom_it_waits(rank: int, others: str, troubled: Path) -> None:
    left = left_by(troubled, f"closed_alone/prenorm/{rank}", rank)
    (when, said), (_, at_last) = left["printed"]
    assert said.startswith(f"depthscope: close() waits, 4 s at most, for {others}")
    assert when < 2
    assert left["seconds"] >= 4
    assert at_last.startswith(f"depthscope: close() goes on after 4 s, still without {others}")
    assert left_by(troubled, f"closed_alone/prenorm/{rank}", 1 - rank)["printed"] == []


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


def test_a_row_that_lacks_a_rank_is_never_read_as_whole(tmp_path: Path) -> None:
    """Not even when rank 0 is killed the moment the row is in its log."""
    codes = launch_without_watch(2, "cut_off/prenorm/none", tmp_path)
    assert codes == [-signal.SIGKILL, 3]
    run = open_run(tmp_path / "cut_off-prenorm-none")
    assert run["loss_tokens"].values.tolist() == [2 * TOKENS, 2 * TOKENS, TOKENS]
    assert run.missing["rank 1"].startswith("was lost before row 2 came: ")
    assert "rows from there on hold the other ranks' numbers" in run.missing["rank 1"]


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
