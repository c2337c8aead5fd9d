"""Fault 27: a rank with an unused part, or with one step fewer, holds nobody up, and no number is half of one."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tests.ranks.expected import both_ranks, only_rank_zero, row_of
from tests.ranks.launching import left_by
from tests.ranks.models import batch_of, trained


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


def test_the_whole_row_of_a_rank_without_a_part_goes_into_the_other_numbers(troubled: Path) -> None:
    row = left_by(troubled, "unused/foreign/ddp")["rows"]["fast"][0]
    without = trained("foreign")
    del without.tower[2]
    first = row_of(trained("foreign"), *batch_of(0))
    second = row_of(without, *batch_of(1))
    np.testing.assert_allclose(row["loss"], (first["loss"] + second["loss"]) / 2, rtol=1e-5)
    assert row["loss_tokens"] == first["loss_tokens"] + second["loss_tokens"]
