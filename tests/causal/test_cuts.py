"""Cutting a source equals a forward written by hand without it, in every design that has sources."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from depthscope.causal import CausalError, Mode, Subject, depth_sources, losses_under
from tests.causal.models import (
    attnres_by_hand,
    batch,
    hires_by_hand,
    losses,
    rms_norm,
    sum_of,
    tokens,
    trained,
    whole,
)

ATTNRES = ("full-attnres", "block-attnres:S=2", "block-attnres:S=3", "two-phase-attnres:S=2")
MODES: tuple[Mode, ...] = ("renormalise", "zero", "mean", "resample")


@pytest.mark.parametrize("design", ATTNRES)
@pytest.mark.parametrize("mode", MODES)
def test_a_cut_source_of_a_depth_mixer_equals_a_forward_by_hand(design: str, mode: Mode) -> None:
    model, given, other = trained(design), batch(0), batch(5)
    subject = Subject.of(model, given.args)
    sources = depth_sources(subject, given)
    base = losses(attnres_by_hand(model, given), given)
    theirs: dict[int, list[Tensor]] = {}

    def remember(row: int, alpha: Tensor, values: list[Tensor]) -> Tensor:
        theirs[row] = values
        return whole(row, alpha, values)

    attnres_by_hand(model, other, remember)
    for target in range(1, 5):
        donor = subject.look(other.args, other.kwargs, sources.source_ports(target))[1]
        for place, column in enumerate(sources.readable(target)):

            def without(
                row: int, alpha: Tensor, values: list[Tensor], place: int = place, cut: int = target
            ) -> Tensor:
                if row != cut:
                    return whole(row, alpha, values)
                instead = {
                    "renormalise": 0 * values[place],
                    "zero": 0 * values[place],
                    "mean": values[place].mean((0, 1)).expand_as(values[place]),
                    "resample": theirs[row][place],
                }[mode]
                read = whole(row, alpha, [*values[:place], instead, *values[place + 1 :]])
                return read / (1 - alpha[place, ..., None]) if mode == "renormalise" else read

            expected = losses(attnres_by_hand(model, given, without), given)
            (found,) = losses_under(subject, given, [sources.cut(target, [column], mode, donor)])
            torch.testing.assert_close(found, expected, rtol=0, atol=1e-9)
            # Else a cut that does nothing would pass; a norm behind the mix takes a mere rescaling away.
            assert len(sources.readable(target)) == 1 or (expected - base).abs().max() > 1e-6


@pytest.mark.parametrize("design", ["hires:B=2,n=2", "hires:n=1.5,boundaries=1+3+4"])
@pytest.mark.parametrize("mode", ["zero", "mean"])
def test_a_cut_write_of_an_outer_state_equals_a_forward_by_hand(design: str, mode: Mode) -> None:
    model, given = trained(design), batch()
    subject = Subject.of(model, given.args)
    sources = depth_sources(subject, given)
    norms, eps = model.residual.norms, model.config.norm_eps
    for target in range(len(norms) + 1):
        for column in sources.readable(target):

            def without(
                reader: int, state: Tensor, parts: list[Tensor], cut: int = target, gone: int = column
            ) -> Tensor:
                if reader != cut:
                    return state
                mean = parts[gone].mean((0, 1)).expand_as(parts[gone])
                kept = [*parts[:gone], mean if mode == "mean" else 0 * mean, *parts[gone + 1 :]]
                state = kept[0]
                for norm, part in zip(norms, kept[1:], strict=False):
                    state = rms_norm(state + part, norm.weight, eps)
                return state

            expected = losses(hires_by_hand(model, given, without), given)
            (found,) = losses_under(subject, given, [sources.cut(target, [column], mode)])
            torch.testing.assert_close(found, expected, rtol=0, atol=1e-9)
            assert (expected - losses(hires_by_hand(model, given), given)).abs().max() > 1e-6


def test_a_cut_write_of_a_plain_stream_is_missing_from_one_read_and_no_other() -> None:
    model, given = trained("prenorm"), batch()
    subject = Subject.of(model, given.args)
    sources = depth_sources(subject, given)
    for target in range(5):
        for column in sources.readable(target):
            with torch.no_grad():
                parts = [model.embedding(given.args[0])]
                for index, layer in enumerate(model.layers):
                    cut = parts[column] if index == target else 0
                    parts.append(layer.sublayer(layer.norm(sum_of(parts) - cut)))
                cut = parts[column] if target == 4 else 0
                expected = losses(model.head(model.norm(sum_of(parts) - cut)), given)
            (found,) = losses_under(subject, given, [sources.cut(target, [column])])
            torch.testing.assert_close(found, expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("design", ["block-attnres:S=2", "two-phase-attnres:S=2", "full-attnres"])
def test_zero_and_renormalise_agree_where_a_mix_feeds_only_an_rms_norm(design: str) -> None:
    model, given = trained(design), batch()
    for module in model.modules():
        if hasattr(module, "eps"):
            module.eps = 0.0  # the one thing that lets an RMSNorm tell a read from its multiple
    subject = Subject.of(model, given.args)
    sources = depth_sources(subject, given)
    for target in range(1, 5):
        for column in sources.readable(target):
            pair = [sources.cut(target, [column], "zero")]
            if len(sources.readable(target)) > 1:
                pair.append(sources.cut(target, [column], "renormalise"))
                zero, renormalised = losses_under(subject, given, pair)
                torch.testing.assert_close(zero, renormalised, rtol=0, atol=1e-10)


def test_interventions_side_by_side_equal_each_alone() -> None:
    model, given = trained("block-attnres:S=2"), batch()
    subject = Subject.of(model, given.args)
    sources = depth_sources(subject, given)
    cuts = [sources.cut(target, [column]) for target in (1, 3, 4) for column in sources.readable(target)]
    together = losses_under(subject, given, cuts)
    alone = torch.cat([losses_under(subject, given, [cut]) for cut in cuts])
    torch.testing.assert_close(together, alone, rtol=0, atol=1e-12)


def test_families_are_the_embedding_the_own_block_and_all_older_sources() -> None:
    given = batch()
    block = depth_sources(Subject.of(trained("block-attnres:S=1"), given.args), given)
    assert block.families(3) == {"embedding": (0,), "older": (1, 2, 3)}  # S = 1: no sum is unfinished
    block = depth_sources(Subject.of(trained("block-attnres:S=2"), given.args), given)
    assert block.families(3) == {"embedding": (0,), "current block": (2,), "older": (1,)}
    assert block.families(4) == {"embedding": (0,), "older": (1, 2)}
    full = depth_sources(Subject.of(trained("full-attnres"), given.args), given)
    assert full.families(3) == {"embedding": (0,), "current block": (3,), "older": (1, 2)}
    stream = depth_sources(Subject.of(trained("prenorm"), given.args), given)
    assert stream.families(3) == {"embedding": (0,), "current block": (3,), "older": (1, 2)}


def test_on_a_linear_network_the_effects_of_a_targets_sources_add_up() -> None:
    model = trained("prenorm")
    width = model.config.width
    for layer in model.layers:
        layer.norm, layer.sublayer = torch.nn.Identity(), torch.nn.Linear(width, width, bias=False).double()
    model.norm = torch.nn.Identity()
    given = batch()
    subject = Subject.of(model, given.args)
    sources = depth_sources(subject, given)

    def change(columns: list[int]) -> Tensor:
        cut, _ = subject.look(given.args, {}, (), sources.cut(target, columns))
        plain, _ = subject.look(given.args, {})
        return cut - plain

    for target in range(5):
        every = list(sources.readable(target))
        added = sum_of([change([column]) for column in every])
        torch.testing.assert_close(added, change(every), rtol=0, atol=1e-12)
        assert change(every).abs().max() > 1e-3


def test_what_cannot_be_cut_is_refused_with_what_can() -> None:
    given = batch()
    sources = depth_sources(Subject.of(trained("block-attnres:S=2"), given.args), given)
    with pytest.raises(CausalError, match=r"2 MLP reads embedding, block 1; found columns \[2\]"):
        sources.cut(1, [2])
    with pytest.raises(CausalError, match="no weight is left"):
        sources.cut(0, [0], "renormalise")
    with pytest.raises(CausalError, match="give donor"):
        sources.cut(1, [0], "resample")
    stream = depth_sources(Subject.of(trained("prenorm"), given.args), given)
    with pytest.raises(CausalError, match="it has zero, mean, resample"):
        stream.cut(1, [0], "renormalise")
    with pytest.raises(CausalError, match="is not simply added"):
        depth_sources(Subject.of(trained("postnorm"), given.args), given)
    with pytest.raises(CausalError, match="differs from the sum of its sources"):
        depth_sources(Subject.of(trained("hires:B=2,outer=no"), given.args), given)


def test_a_sequence_is_measured_as_it_is_whatever_stands_beside_it() -> None:
    subject = Subject.of(trained("full-attnres"), batch().args)
    sources = depth_sources(subject, batch())
    cut = sources.cut(3, [1])
    both = losses_under(subject, batch(sequences=3), [cut])[0]
    alone = losses_under(subject, type(batch())((tokens()[:1, :-1],), {}, tokens()[:1, 1:]), [cut])[0]
    torch.testing.assert_close(both[:1], alone, rtol=0, atol=1e-12)
