"""Knocked-out sublayers, outer states, residual-block resets and patched states against ordinary hooks."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from depthscope.causal import (
    CausalError,
    Subject,
    boundaries,
    carry_across,
    cut_outer_extra,
    cut_outer_read,
    cut_outer_write,
    losses_under,
    patch_state,
    replace_write,
    skip_sublayer,
)
from tests.causal.models import batch, hooked, losses, trained

EVERY = (
    "prenorm",
    "postnorm",
    "full-attnres",
    "block-attnres:S=2",
    "two-phase-attnres:S=2",
    "hires:B=2,n=2",
    "hc:n=2",
)


@pytest.mark.parametrize("design", EVERY)
def test_a_knock_out_equals_a_zeroed_write_and_so_does_a_skipped_sublayer(design: str) -> None:
    model, given = trained(design), batch()
    subject = Subject.of(model, given.args)
    for layer in range(1, 5):
        path = subject.axis.sublayers[layer - 1].write.module
        expected = losses(hooked(model, given, path, torch.zeros_like), given)
        (found,) = losses_under(subject, given, [replace_write(subject.axis, layer)])
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)
        if path != f"layers.{layer - 1}.sublayer":
            with pytest.raises(CausalError, match="knock it out instead"):
                losses_under(subject, given, [skip_sublayer(subject.axis, layer)])
            continue
        (skipped,) = losses_under(subject, given, [skip_sublayer(subject.axis, layer)])
        assert torch.equal(skipped, found)


def test_a_write_may_become_its_mean_or_that_of_another_batch() -> None:
    model, given, other = trained("block-attnres:S=2"), batch(0), batch(5)
    subject = Subject.of(model, given.args)
    theirs: list[Tensor] = []
    hooked(model, other, "layers.1.sublayer", lambda output: theirs.append(output) or output)
    donor = subject.look(other.args, {}, [subject.axis.sublayers[1].write])[1]
    mean, resampled = losses_under(
        subject,
        given,
        [replace_write(subject.axis, 2, "mean"), replace_write(subject.axis, 2, "resample", donor)],
    )
    at_mean = hooked(model, given, "layers.1.sublayer", lambda output: output.mean((0, 1)).expand_as(output))
    torch.testing.assert_close(mean, losses(at_mean, given), rtol=0, atol=1e-12)
    at_theirs = hooked(model, given, "layers.1.sublayer", lambda output: theirs[0])
    torch.testing.assert_close(resampled, losses(at_theirs, given), rtol=0, atol=1e-12)


def test_reads_writes_and_extra_features_of_an_outer_state() -> None:
    model, given = trained("hires:B=2,n=2"), batch()
    subject = Subject.of(model, given.args)
    width = model.config.width
    assert subject.width == width

    def narrow(state: Tensor) -> Tensor:
        return torch.cat((state[..., :width], 0 * state[..., width:]), -1)

    cases = [
        (cut_outer_read(subject.axis, 2), "residual.R.1", torch.zeros_like),
        (cut_outer_write(subject.axis, 1), "residual.W.0", torch.zeros_like),
        (cut_outer_extra(subject.axis, 1, width), "residual.norms.0", narrow),
    ]
    base = losses(hooked(model, given, "head", lambda output: output), given)
    for intervention, path, change in cases:
        (found,) = losses_under(subject, given, [intervention])
        expected = losses(hooked(model, given, path, change), given)
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)
        assert (expected - base).abs().max() > 1e-4


@pytest.mark.parametrize("design", ["block-attnres:S=2", "two-phase-attnres:S=2"])
def test_a_sum_carried_across_a_boundary_starts_the_next_block_with_it(design: str) -> None:
    model, given = trained(design), batch()
    subject = Subject.of(model, given.args)
    assert boundaries(subject.axis) == (1,)
    written: list[Tensor] = []
    for path in ("layers.0.sublayer", "layers.1.sublayer"):
        hooked(model, given, path, lambda output: written.append(output) or output)
    expected = losses(
        hooked(model, given, "layers.2.sublayer", lambda output: output + written[0] + written[1]), given
    )
    (found,) = losses_under(subject, given, [carry_across(subject.axis, 1)])
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)


def test_an_inner_stream_carried_across_a_boundary_is_added_to_the_next_read() -> None:
    model, given = trained("hires:B=2,n=2"), batch()
    subject = Subject.of(model, given.args)
    ended: list[Tensor] = []
    handle = model.residual.W[0].register_forward_pre_hook(lambda module, args: ended.append(args[0]))
    model(*given.args)
    handle.remove()
    expected = losses(hooked(model, given, "residual.R.1", lambda output: output + ended[0]), given)
    (found,) = losses_under(subject, given, [carry_across(subject.axis, 1)])
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("design", EVERY)
def test_a_state_patched_everywhere_goes_on_as_the_other_prompt(design: str) -> None:
    model, given, other = trained(design), batch(0), batch(5)
    subject = Subject.of(model, given.args)
    with torch.no_grad():
        theirs = losses(model(*other.args), given)
    (found,) = losses_under(subject, given, [patch_state(subject, 3, other)])
    assert torch.equal(found, theirs)


def test_a_state_patched_at_a_token_changes_nothing_before_it() -> None:
    model, given, other = trained("full-attnres"), batch(0), batch(5)
    subject = Subject.of(model, given.args)
    plain, patched = (
        losses_under(subject, given, [each])[0]
        for each in (patch_state(subject, 2, given), patch_state(subject, 2, other, [3]))
    )
    assert torch.equal(patched[:, :3], plain[:, :3])
    assert ((patched[:, 3:] - plain[:, 3:]).abs() > 1e-9).all()


def test_a_state_with_parts_that_are_not_token_by_token_is_not_patched_at_tokens() -> None:
    subject = Subject.of(trained("two-phase-attnres:S=2"), batch().args)
    with pytest.raises(CausalError, match="block-attnres"):
        patch_state(subject, 1, batch(5), [2])


def test_what_a_design_does_not_have_is_named() -> None:
    subject = Subject.of(trained("prenorm"), batch().args)
    with pytest.raises(CausalError, match="no outer state"):
        cut_outer_write(subject.axis, 1)
    with pytest.raises(CausalError, match="no residual blocks"):
        carry_across(subject.axis, 1)
    with pytest.raises(CausalError, match="sublayers 1 to 4"):
        replace_write(subject.axis, 5)
    with pytest.raises(CausalError, match="no mode 'renormalise'"):
        replace_write(subject.axis, 1, "renormalise")
    with pytest.raises(CausalError, match="measure it alone"):
        losses_under(subject, batch(), [skip_sublayer(subject.axis, 1), replace_write(subject.axis, 2)])
