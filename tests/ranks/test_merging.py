"""The rules by which rows of several ranks become one, on numbers small enough to do by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from depthscope.recording.merge import MergedMoment
from depthscope.recording.rank_rows import MergedRow, combine
from depthscope.recording.shards import put_together, root_sum_square

NAN, INF = np.nan, np.inf


def row(rule: str, values: list[float], visited: list[bool], **known: float) -> MergedRow:
    moment = MergedMoment(values=np.array(values), visited=np.array(visited), rule=rule, kind="state")
    return MergedRow(
        step=0,
        moments={(0, "moment"): moment},
        tokens=[{"state": np.array([2.0, 0.0])}],
        widths=[{"state": np.array([8.0, NAN])}],
        known={"loss_tokens": 2.0, "tokens": 10.0} | known,
        low_precision=False,
    )


@pytest.mark.parametrize(
    ("rule", "one", "other", "merged"),
    [
        ("sum", 2.0, 3.0, 5.0),
        ("max", 2.0, 3.0, 3.0),
        ("min", 2.0, 3.0, 2.0),
        ("max", 2.0, NAN, NAN),  # measured: it must not be lost, as it is in gloo's MAX
        ("max", NAN, 2.0, NAN),
        ("min", NAN, 2.0, NAN),
        ("sum", INF, 2.0, INF),
    ],
)
def test_values_merge_by_their_rule(rule: str, one: float, other: float, merged: float) -> None:
    whole = combine({0: row(rule, [one], [True]), 1: row(rule, [other], [True])}, {})
    np.testing.assert_equal(whole.moments[0, "moment"].values, [merged])


@pytest.mark.parametrize("rule", ["sum", "max", "min"])
def test_what_a_rank_did_not_visit_is_neutral(rule: str) -> None:
    seen, unseen = row(rule, [2.0, NAN], [True, False]), row(rule, [NAN, NAN], [False, False])
    for rows in ({0: seen, 1: unseen}, {0: unseen, 1: seen}):
        whole = combine(rows, {}).moments[0, "moment"]
        np.testing.assert_equal(whole.values, [2.0, NAN])
        assert whole.visited.tolist() == [True, False]


def test_a_moment_that_rank_zero_lacks_is_taken_from_another() -> None:
    whole = combine({0: replace(row("sum", [1.0], [True]), moments={}), 2: row("sum", [4.0], [True])}, {})
    assert whole.moments[0, "moment"].values.tolist() == [4.0]
    assert whole.ranks == 2


def test_tokens_add_up_and_the_loss_is_the_mean_of_those_given() -> None:
    rows = {0: row("sum", [1.0], [True], loss=2.0, learning_rate=0.1), 1: row("sum", [1.0], [True], loss=4.0)}
    rows[2] = row("sum", [1.0], [True], learning_rate=9.0)
    whole = combine(rows, {})
    assert whole.known == {"loss": 3.0, "learning_rate": 0.1, "loss_tokens": 6.0, "tokens": 30.0}
    np.testing.assert_equal(whole.tokens[0]["state"], [6.0, 0.0])
    np.testing.assert_equal(whole.widths[0]["state"], [8.0, NAN])


@pytest.mark.parametrize("odd", [{"withhold_gradients": 1.0}, {"loss_scale": 512.0}])
def test_gradients_are_withheld_when_one_rank_can_not_answer_for_its_own(odd: dict[str, float]) -> None:
    whole = combine({0: row("sum", [1.0], [True]), 1: row("sum", [1.0], [True], **odd)}, {})
    assert whole.known["withhold_gradients"] == 1.0


@pytest.mark.parametrize(
    ("keys", "values", "norm"),
    [
        ([0, 0], [5.0, 5.0], 5.0),  # replicated: once
        ([0, 0], [-1.0, 5.0], 5.0),  # rank 0 has no gradient
        ([0, 1], [3.0, 4.0], 5.0),  # two shards
        ([0, 1, -1], [3.0, 4.0, 0.0], 5.0),  # the third is empty
        ([0, 1, -1], [3.0, 4.0, -1.0], 5.0),  # and its rank may be missing
        ([0, 0, 1, 1], [3.0, 3.0, 4.0, 4.0], 5.0),  # HSDP: two replicas of two shards
        ([0, 0, 1, 1], [-1.0, 3.0, 4.0, -1.0], 5.0),
        ([0, 1], [3.0, -1.0], NAN),  # a shard did not come: the norm is not known
        ([0, 1], [-1.0, -1.0], -1.0),  # no gradient anywhere
        ([0, 1], [3.0, NAN], NAN),  # measured
    ],
)
def test_norms_of_shards(keys: list[int], values: list[float], norm: float) -> None:
    columns = np.array(keys)[:, None]
    np.testing.assert_equal(root_sum_square(np.array(values)[:, None], columns), [norm])


@pytest.mark.parametrize(
    ("parts", "shares", "order", "norm"),
    [
        ({0: 3.0, 1: 4.0}, 2, 2.0, 5.0),
        ({0: 3.0, 1: 4.0}, 2, 1.0, 7.0),
        ({0: 3.0, 1: 4.0}, 2, INF, 4.0),
        ({0: 3.0}, 1, 2.0, 3.0),
        ({0: 3.0}, 2, 2.0, NAN),
    ],
)
def test_a_norm_in_parts(parts: dict[float, float], shares: int, order: float, norm: float) -> None:
    np.testing.assert_equal(put_together(parts, shares, order), norm)
