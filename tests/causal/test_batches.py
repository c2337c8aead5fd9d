"""What a sweep is measured on: what is taken, and that anything else is refused in words."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from depthscope.causal import (
    Batch,
    BatchError,
    ablate_sources,
    batch_of,
    batches_of,
    knock_out,
    measure_lenses,
)
from tests.causal.models import tokens, trained

DESIGN = "block-attnres:S=2"


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (None, "the batches are None; expected a list of batches"),
        (7, "the batches are a int"),
        ("text", "the batches are a str"),
        (tokens(), r"the batches are a tensor of shape \[3, 7\], int64"),
        ({"labels": tokens()}, r"the batches are a mapping of 'labels': a tensor of shape \[3, 7\]"),
        ([None], "a batch is None"),
        ([tokens()[:, :1]], r"a batch is a tensor of shape \[3, 1\], int64; .*time >= 1"),
        ([tokens()[0]], r"a batch is a tensor of shape \[7\], int64"),
        ([tokens().double()], r"a batch is a tensor of shape \[3, 7\], float64; .*int64 or int32"),
        ([(tokens(), None)], r"a batch is a tuple of a tensor of shape \[3, 7\], int64 and None"),
        ([(tokens(), tokens().double())], "float64; expected"),
        ([{"input_ids": tokens(), "labels": [1]}], "a batch is a mapping of .*'labels': a list"),
        ([], "there is no batch"),
    ],
)
def test_what_is_no_list_of_batches_is_named_with_what_is_expected(given: Any, told: str) -> None:
    with pytest.raises(BatchError, match=told):
        batches_of(given)
    with pytest.raises(BatchError, match=told):
        ablate_sources(trained(DESIGN), given)


def test_a_batch_without_a_target_that_counts_is_refused() -> None:
    masked = torch.full((3, 6), -100)
    told = r"no target of a batch counts: all of a tensor of shape \[3, 6\], int64 are -100"
    for given in ((tokens()[:, 1:], masked), {"input_ids": masked, "labels": masked}, Batch((), {}, masked)):
        with pytest.raises(BatchError, match=told):
            batch_of(given)
    one = masked.clone()
    one[2, 5] = 4
    assert batch_of((tokens()[:, 1:], one)).targets is one
    # The first label has nothing before it that could predict it.
    with pytest.raises(BatchError, match="no target"):
        batch_of({"input_ids": tokens(), "labels": torch.where(torch.arange(7) == 0, 5, -100).repeat(3, 1)})


@pytest.mark.parametrize("place", [0, 1])
@pytest.mark.parametrize("wrong", [29, -1])
def test_a_token_beyond_the_vocabulary_of_29_is_refused_in_any_batch(place: int, wrong: int) -> None:
    batches = [tokens(0), tokens(1)]
    batches[place][1, 2] = wrong
    for measure in (knock_out, measure_lenses):
        with pytest.raises(BatchError, match=f"a token is {wrong}; expected token ids from 0 to 28"):
            measure(trained(DESIGN), batches)


def test_a_target_beyond_the_vocabulary_or_of_another_shape_is_refused() -> None:
    inputs, targets = tokens()[:, :-1], tokens()[:, 1:].clone()
    with pytest.raises(
        BatchError, match=r"the targets are a tensor of shape \[3, 5\], int64; expected \[3, 6\]"
    ):
        knock_out(trained("prenorm"), [(inputs, targets[:, 1:])])
    targets[0, 0] = 29
    with pytest.raises(BatchError, match="a target is 29; expected token ids from 0 to 28"):
        knock_out(trained("prenorm"), [(inputs, targets)])


def test_ids_of_32_bits_give_what_those_of_64_give() -> None:
    model = trained("prenorm")
    wide, narrow = (knock_out(model, [tokens().to(kind)]) for kind in (torch.int64, torch.int32))
    assert wide["loss_change"].equals(narrow["loss_change"])


def test_a_forward_that_raises_is_told_with_what_it_was_given() -> None:
    with pytest.raises(
        BatchError, match=r"forward of Decoder raised .* given a tensor of shape \[3, 6\], float32"
    ):
        knock_out(trained("prenorm"), [(torch.zeros(3, 6), tokens()[:, 1:])])
