"""Mixing in a recording: a sample of the step's own tokens, checked, or absent with its reason."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from depthscope.anatomy import inspect_model
from depthscope.mixing import measure_mixing
from depthscope.recording import Recorder
from depthscope.recording.report import Report
from depthscope.store import Run, open_run
from tests.recording.loops import DESIGNS, LAYERS, ForeignGPT, batches, build, loss_of, optimizer_of, train
from tests.recording.rows import record_one, trained

NAMES = ("mixing_contribution", "mixing_coefficient", "mixing_cancellation")


def reasons(report: Report) -> set[str]:
    return {report.missing[name] for name in NAMES if name in report.missing}


def recorded(model: nn.Module, path: Path, steps: int = 4, **options: Any) -> tuple[Run, Report]:
    optimizer = optimizer_of(model)
    options = {"every": {"fast": 1, "slow": 2}, **options}
    with Recorder(model, path, optimizer=optimizer, **options) as recorder:
        train(model, steps, batches(), optimizer, lambda loss: recorder.step(loss=loss))
    return open_run(path), recorder.report()


@pytest.mark.parametrize("design", [*DESIGNS, "mhc:n=2", "postnorm", "foreign"])
def test_a_row_holds_what_the_model_shows_outside_of_training(design: str, tmp_path: Path) -> None:
    """The batch of 3 x 10 tokens is smaller than the sample, so all of it is replayed."""
    model, inputs, targets = trained(build(design))
    anatomy = inspect_model(model, inputs)
    expected = measure_mixing(model, inputs, anatomy=anatomy)
    record_one(model, inputs, targets, tmp_path / "run", anatomy=anatomy)
    run = open_run(tmp_path / "run")
    for name in NAMES:
        # A sum over tokens in fp32 comes between.
        np.testing.assert_allclose(run[name].values[0], expected[name].values, atol=2e-6, err_msg=name)
    contribution = run["mixing_contribution"]
    assert contribution.dims == ("step", "target", "origin")
    assert contribution.shape == (1, LAYERS + 1, LAYERS + 2)
    assert contribution.attrs["sample_tokens"] == inputs.numel()
    names = run.sublayers if isinstance(run.sublayers[0], str) else [each.name for each in run.sublayers]
    assert contribution["origin_name"].values.tolist() == ["embedding", *names, "constant"]
    assert contribution["target_name"].values.tolist() == [*names, "output"]
    np.testing.assert_allclose(contribution.sum("origin"), 1.0, atol=1e-5)


def test_rows_come_with_the_slow_stream_and_follow_the_training(tmp_path: Path) -> None:
    run, report = recorded(build("block-attnres:S=3"), tmp_path / "run", steps=5)
    contribution = run["mixing_contribution"]
    assert contribution["step"].values.tolist() == [0, 2, 4]
    assert not np.array_equal(contribution.values[0], contribution.values[1], equal_nan=True)
    assert set(NAMES) <= set(report.recorded)


def test_micro_batches_share_one_replay_before_the_first(tmp_path: Path) -> None:
    model = build("prenorm")
    optimizer, draw = optimizer_of(model), batches()
    modes: list[bool] = []
    model.embedding.register_forward_hook(lambda *_: modes.append(model.training))
    with Recorder(model, tmp_path / "run", optimizer=optimizer, every={"fast": 1, "slow": 2}) as recorder:
        for _ in range(3):
            for _ in range(2):
                loss_of(model, *draw()).backward()
            optimizer.step()
            recorder.step()
            optimizer.zero_grad()
    replayed = modes.index(True)
    due, not_due = [False] * replayed + [True] * 2, [True] * 2
    assert replayed > 0
    assert modes == [*due, *not_due, *due]


def test_positions_that_do_not_count_stay_out(tmp_path: Path) -> None:
    model, inputs, targets = trained(build("postnorm"))
    mask = torch.ones_like(inputs, dtype=torch.bool)
    mask[:, 6:] = False
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    with Recorder(model, tmp_path / "run", optimizer=optimizer, every={"fast": 1, "slow": 1}) as recorder:
        with recorder.tokens(mask):
            loss = loss_of(model, inputs, targets)
        loss.backward()
        optimizer.step()
        recorder.step(loss=loss.detach())
    contribution = open_run(tmp_path / "run")["mixing_contribution"]
    # The model is causal: what is left out at the end might as well not be there.
    expected = measure_mixing(model, inputs[:, :6])["mixing_contribution"]
    np.testing.assert_allclose(contribution.values[0], expected.values, atol=2e-6)
    assert contribution.attrs["sample_tokens"] == 18


def test_the_probe_batch_has_a_mixing_of_its_own(tmp_path: Path) -> None:
    model, held_out = build("hires:B=2,n=2"), batches(seed=9)()[0][:2]
    expected = measure_mixing(model, held_out)
    run, _ = recorded(model, tmp_path / "run", probe_batch=held_out, probe_every=2)
    contribution = run["probe/mixing_contribution"]
    assert contribution["step"].values.tolist() == [0, 2]
    np.testing.assert_allclose(contribution.values[0], expected["mixing_contribution"].values, atol=2e-6)
    assert contribution.attrs["sample_tokens"] == held_out.numel()


class Squared(nn.Module):
    """A foreign GPT whose stream passes, between its stages, a product that nothing can freeze."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = ForeignGPT()

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        inner = self.inner
        x = inner.letters(ids) + inner.places.weight[: ids.shape[1]]
        for stage in inner.tower:
            x = stage(x * (1 + 0.1 * x.mean(-1, keepdim=True)))
        result: torch.Tensor = inner.out(inner.last(x))
        return result


def test_a_replay_that_does_not_add_up_is_absent_with_the_gap(tmp_path: Path) -> None:
    run, report = recorded(Squared(), tmp_path / "run")
    (reason,) = reasons(report)
    assert "do not sum to the read: relative gap" in reason
    assert np.isnan(run["mixing_contribution"].values).all()
    assert not np.isnan(run["write_rms"].values).any()


def test_a_forward_that_cannot_be_cut_is_absent_with_its_reason(tmp_path: Path) -> None:
    class OneSize(ForeignGPT):
        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            if ids.shape[0] != 30:
                raise ValueError("this model takes 30 sequences")
            return super().forward(ids)

    model, optimizer = OneSize(), None
    ids = torch.randint(0, 61, (30, 11))
    optimizer = optimizer_of(model)
    with Recorder(model, tmp_path / "run", optimizer=optimizer, every={"fast": 1, "slow": 1}) as recorder:
        for _ in range(2):
            loss = loss_of(model, ids[:, :-1], ids[:, 1:])
            loss.backward()
            optimizer.step()
            recorder.step(loss=loss.detach())
    (reason,) = reasons(recorder.report())
    assert "raised ValueError" in reason
    assert "this model takes 30 sequences" in reason


def test_a_model_compiled_whole_says_that_a_probe_batch_helps(tmp_path: Path) -> None:
    torch._dynamo.reset()
    model = build("prenorm")
    optimizer, draw = optimizer_of(model), batches()
    with Recorder(model, tmp_path / "run", optimizer=optimizer, every={"fast": 1, "slow": 1}) as recorder:
        compiled = torch.compile(model, backend="aot_eager")
        train(compiled, 2, draw, optimizer, lambda loss: recorder.step(loss=loss, tokens=30))
    torch._dynamo.reset()
    (reason,) = reasons(recorder.report())
    assert "compiled whole" in reason
    assert "probe_batch=" in reason


def test_a_design_without_coefficients_says_why(tmp_path: Path) -> None:
    """After some steps the gains of every norm on the stream differ from feature to feature."""
    model = build("vwn:m=2,n=3,dynamic=yes")
    with torch.no_grad():
        for parameter in model.residual.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    _, report = recorded(model, tmp_path / "run")
    assert set(NAMES) - {"mixing_coefficient"} <= set(report.recorded)
    assert "no contribution is parallel to its origin" in report.missing["mixing_coefficient"]


class Interrupting(nn.Module):
    """A sublayer that raises in evaluation mode."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not self.training:
            raise RuntimeError("not made for evaluation")
        result: torch.Tensor = self.inner(x)
        return result


def test_a_model_that_fails_in_evaluation_trains_on_and_keeps_its_other_records(tmp_path: Path) -> None:
    plain, model = build("prenorm"), build("prenorm")
    model.layers[2].sublayer = Interrupting(model.layers[2].sublayer)
    expected = train(plain, 4, batches(), optimizer_of(plain))
    optimizer = optimizer_of(model)
    with Recorder(model, tmp_path / "run", optimizer=optimizer, every={"fast": 1, "slow": 1}) as recorder:
        losses = train(model, 4, batches(), optimizer, lambda loss: recorder.step(loss=loss))
    assert losses == expected
    (reason,) = reasons(recorder.report())
    assert "not made for evaluation" in reason
    assert "write_rms" in recorder.report().recorded
