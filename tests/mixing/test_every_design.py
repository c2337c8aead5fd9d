"""Every design: its reads are the sum of what its origins contribute, however that is taken."""

from __future__ import annotations

from contextlib import nullcontext

import numpy as np
import pytest
import torch

from depthscope.marks import Tape
from depthscope.mixing import FunctionTape, MixingError, measure_mixing, shares_by_pullback, shares_by_replay
from tests.mixing.models import TOKENS, moved, network_of, relative
from tests.models.every import every_design


@every_design
@pytest.mark.parametrize("tape_type", [Tape, FunctionTape])
def test_the_contributions_of_all_origins_sum_to_every_read(design, tape_type):
    """One replay for each origin, added up here: nothing of the record-time check is used."""
    with network_of(moved(design)) as network:
        tape = tape_type()
        network.run(network.values, tape)
        zeros = [torch.zeros_like(value) for value in network.values]
        constant = network.run(zeros, tape)
        summed = list(constant)
        for origin, value in enumerate(network.values):
            alone = network.run([*zeros[:origin], value, *zeros[origin + 1 :]], tape)
            parts = [one - none for one, none in zip(alone, constant, strict=True)]
            # Nothing is read before it is written.
            assert all(not part.any() for part in parts[:origin])
            summed = [total + part for total, part in zip(summed, parts, strict=True)]
        assert len(summed) == 9
        for total, read in zip(summed, network.reads, strict=True):
            assert relative(total - read, read) < 1e-5


@every_design
def test_the_fast_way_agrees_with_one_replay_an_origin(design):
    with network_of(moved(design)) as network:
        tape = Tape()
        network.run(network.values, tape)
        nothing = network.run([torch.zeros_like(value) for value in network.values], tape)
        fast, slow = shares_by_pullback(network, tape, nothing), shares_by_replay(network, tape, nothing)
    for (share, coefficient, parallel), reference in zip(fast, slow, strict=True):
        torch.testing.assert_close(share, reference[0], atol=2e-5, rtol=1e-4)
        assert torch.equal(parallel, reference[2])
        torch.testing.assert_close(
            torch.where(parallel > 0, coefficient, 0),
            torch.where(parallel > 0, reference[1], 0),
            atol=1e-5,
            rtol=1e-4,
        )


@every_design
def test_rows_sum_to_one_and_both_tapes_agree_bitwise(design):
    model = moved(design)
    marked, caught = (measure_mixing(model, TOKENS, way=way) for way in ("coefficient", "functions"))
    rows = marked["mixing_contribution"].sum("origin")
    np.testing.assert_allclose(rows, 1.0, atol=1e-5)
    assert float(marked["mixing_gap"].max()) < 1e-5
    for name in marked.data_vars:
        np.testing.assert_array_equal(marked[name], caught[name], err_msg=str(name))


UNFROZEN = ["full-attnres", "block-attnres:S=3", "hc:n=4,dynamic=yes", "mhc:n=4", "vwn:m=2,n=3,dynamic=yes"]


@pytest.mark.parametrize("design", UNFROZEN)
def test_an_unfrozen_replay_is_incomplete_where_its_derivative_looks_complete(design):
    """Euler's theorem: the derivative of a map that only directions change sums to its value, frozen or not."""
    with network_of(moved(design)) as network:
        free = nullcontext()
        nothing = network.run([torch.zeros_like(value) for value in network.values], free)
        by_derivative = shares_by_pullback(network, free, nothing)
        by_replay = shares_by_replay(network, free, nothing)
    assert max(float((share.sum(0).mean() - 1).abs()) for share, *_ in by_derivative) < 1e-3
    assert max(float((share.sum(0).mean() - 1).abs()) for share, *_ in by_replay) > 0.1


def test_the_check_of_a_measurement_refuses_what_is_not_frozen(monkeypatch):
    """The two halves that are replayed tell, without one replay for each origin."""
    monkeypatch.setattr(Tape, "take", lambda tape, function, *arguments: function(*arguments))
    with pytest.raises(MixingError, match=r"do not sum to the read: relative gap .*tolerance 1e-05"):
        measure_mixing(moved("mhc:n=4"), TOKENS, way="coefficient")
