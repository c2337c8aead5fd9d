"""`verify_step`: a right recording agrees with fp64 in every loop, and a wrong one is named."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import torch
from torch import Tensor

from depthscope.probes import Activation, Array, Gradient, Magnitude, ParameterGradient, Row, Site
from depthscope.testing import Verification, setup_of, verify_step
from tests.recording import reference as independent
from tests.recording.loops import batches, loss_of, optimizer_of
from tests.testing import setups


@pytest.fixture(autouse=True)
def fresh_compiler() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def verified(name: str, **options: Any) -> Verification:
    found = verify_step(setup_of(getattr(setups, name)()), **options)
    assert found is not None
    return found


def wrong(found: Verification) -> set[str]:
    return {each.quantity for each in found.compared if not each.ok}


def test_a_plain_step_agrees_in_every_quantity() -> None:
    found = verified("plain")
    assert found.ok
    assert (found.layers, found.world, found.tolerance) == (8, 1, 1e-3)
    assert not found.missing
    assert max(each.difference for each in found.compared) < 1e-5
    assert {"fresh_share", "grad_read_rms", "param_grad_norm", "loss"} <= {e.quantity for e in found.compared}


@pytest.mark.parametrize(
    ("setup", "names"),
    [
        ("streams", {"stream_energy", "stream_mixing", "gain_forward", "gain_backward_min", "output_rms"}),
        ("outer", {"outer_unread_share", "write_read_coupling"}),
        ("heads", {"depth_attention_by_head", "depth_contribution"}),
    ],
)
def test_wide_states_and_heads_have_a_reference(setup: str, names: set[str]) -> None:
    found = verified(setup)
    assert found.ok, wrong(found)
    assert names <= {each.quantity for each in found.compared}
    assert "recorded, but has no reference here" not in found.missing.values()


def test_its_fp64_is_what_the_tests_own_reference_computes() -> None:
    """Two references that know nothing of each other: the package's from hooks, the tests' by the model's own hand."""
    found = {each.quantity: each for each in verified("plain").compared}
    model = setups.trained("foreign")
    seen = independent.capture(model, *batches(3)())
    rows = independent.over_layers(seen)
    for name in ("write_rms", "state_logrms", "write_cosine", "grad_write_rms", "grad_read_rms"):
        assert min(abs(rows[name] / found[name].reference - 1)) < 1e-5, name
    assert abs(independent.gradient_norms(model, "") / found["grad_norm"].reference - 1) < 1e-5


def test_it_says_when_the_number_of_tokens_is_assumed() -> None:
    """Three sequences of ten positions; the other setup gives its number."""
    told = [note for note in verified("plain").notes if "tokens=" in note]
    assert len(told) == 1
    assert "assumed here and in the recording to be all 30 positions" in told[0]

    def counted(model: Any, optimizer: Any, recorder: Any) -> None:
        loss = loss_of(model, *batches(3)())
        loss.backward()
        optimizer.step()
        recorder.step(loss=loss.detach(), tokens=30)

    model = setups.trained("foreign")
    found = verify_step(setup_of((model, optimizer_of(model), counted)))
    assert found is not None
    assert found.ok
    assert not found.notes


def test_dropout_is_off_in_both_and_on_again_afterwards() -> None:
    setup = setup_of(setups.dropping())
    found = verify_step(setup)
    assert found is not None
    assert found.ok
    assert {m.p for m in setup.model.modules() if isinstance(m, torch.nn.Dropout)} == {0.3}


def test_compiled_half_precision_with_scaler_clipping_and_two_optimizers() -> None:
    found = verified("everything")
    assert found.tolerance == 5e-2
    assert found.ok, wrong(found)
    names = {each.quantity for each in found.compared}
    assert {"depth_contribution", "query_norm", "clip_coefficient", "grad_norm_before_clip"} <= names


def test_a_tighter_tolerance_is_kept_to() -> None:
    assert not verified("plain", tolerance=1e-12).ok


def test_code_that_was_compiled_too_early_is_not_ok() -> None:
    found = verified("compiled_too_early")
    assert not found.ok
    assert {"write_rms", "state_rms"} <= wrong(found)
    assert any("torch.compiler.reset()" in note for note in found.notes)


def test_another_batch_for_the_copy_is_suspected() -> None:
    found = verified("another_batch")
    assert not found.ok
    assert any("Draw it in the factory" in note for note in found.notes)


@pytest.mark.parametrize(
    ("probe", "factor", "names"),
    [
        (Gradient, 1.01, {"grad_write_rms", "grad_read_rms"}),
        (ParameterGradient, 1.01, {"param_grad_norm", "grad_norm"}),
    ],
)
def test_a_recording_that_is_off_by_a_hundredth_is_named(
    probe: Any, factor: float, names: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    finish = probe.finish

    def off(self: Any, merged: Mapping[str, Array], row: Row) -> dict[str, Array]:
        return {name: factor * value for name, value in finish(self, merged, row).items()}

    monkeypatch.setattr(probe, "finish", off)
    assert names <= wrong(verified("plain"))


def test_one_wrong_sublayer_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    moments = Magnitude.moments

    def off(self: Magnitude, site: Site, seen: Mapping[str, Activation]) -> dict[str, Tensor]:
        found = moments(self, site, seen)
        return {k: 1.01 * v if k == "write_square" and site.position == 3 else v for k, v in found.items()}

    monkeypatch.setattr(Magnitude, "moments", off)
    found = verified("plain")
    assert wrong(found) == {"write_rms"}
    off_by = next(each for each in found.compared if each.quantity == "write_rms").difference
    assert abs(off_by - (1.01**0.5 - 1)) < 1e-5
