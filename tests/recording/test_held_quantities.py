"""The newest write's share of the next read in designs where only the mixing contributions hold it."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from depthscope.analysis import findings
from depthscope.recording import Recorder
from depthscope.store import Run, open_run
from tests.recording.loops import LAYERS, batches, build, optimizer_of, train

# Of torch itself, for a compiled module whose input is no leaf.
pytestmark = pytest.mark.filterwarnings(
    "ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning"
)


def moved(design: str) -> Any:
    """Return a decoder whose residual parameters are no longer at their start."""
    model = build(design)
    with torch.no_grad():
        for parameter in model.residual.parameters():
            parameter.add_(0.3 * torch.randn(parameter.shape))
    return model


def recorded(
    model: nn.Module, path: Path, *, steps: int = 1, called: Callable[[nn.Module], Any] = lambda model: model
) -> tuple[Run, str]:
    """Record some steps, the slow stream in each; return the run and the report."""
    optimizer = optimizer_of(model)
    with Recorder(model, path, optimizer=optimizer, every={"fast": 1, "slow": 1}) as recorder:
        train(called(model), steps, batches(), optimizer, lambda loss: recorder.step(loss=loss))
    return open_run(path), str(recorder.report())


@pytest.mark.parametrize(
    "design", ["prenorm", "peri-ln", "full-attnres", "block-attnres:S=3", "hires:B=2,n=2"]
)
def test_where_both_are_recorded_they_agree(design: str, tmp_path: Path) -> None:
    """The sample is the whole batch here: the same number along two ways, one with hooks and one by replay."""
    run, report = recorded(moved(design), tmp_path / "run", steps=2)
    own, held = run["fresh_share"].values, run["slow/fresh_share"].values
    assert own.shape == held.shape == (2, LAYERS)
    assert np.isfinite(held).all()
    seen = np.isfinite(own)
    assert seen.sum() >= 2 * (LAYERS - 2)
    np.testing.assert_allclose(held[seen], own[seen], rtol=1e-4, atol=1e-6)
    assert "read from mixing_contribution" not in report


def test_in_hyper_connections_it_is_what_the_matrices_say(tmp_path: Path) -> None:
    """c = (A_m of the next sublayer . B) o, h the next read; at the end every stream is read with weight 1."""
    model = moved("hc:n=3,dynamic=no")
    outputs: list[torch.Tensor] = []
    embedded: list[torch.Tensor] = []
    for layer in model.layers:
        layer.sublayer.register_forward_hook(lambda module, args, output: outputs.append(output.detach()))
    model.embedding.register_forward_hook(lambda module, args, output: embedded.append(output.detach()))
    with torch.no_grad():
        model(batches()()[0])
    model.embedding._forward_hooks.clear()
    for layer in model.layers:
        layer.sublayer._forward_hooks.clear()
    o = [output.double().flatten(0, 1).numpy() for output in outputs]
    weights = [
        [part.detach().double().numpy() for part in (each.read_from, each.mix, each.write_to)]
        for each in model.residual.connections
    ]
    streams = np.stack([embedded[0].double().flatten(0, 1).numpy()] * 3)
    expected = []
    for layer, (_, mix, to) in enumerate(weights):
        streams = np.einsum("ji,jtd->itd", mix, streams) + to[:, None, None] * o[layer]
        reading = weights[layer + 1][0] if layer + 1 < LAYERS else np.ones(3)
        read = np.einsum("i,itd->td", reading, streams)
        written = (reading @ to) * o[layer]
        expected.append(float(np.mean((written * read).sum(-1) / (read * read).sum(-1))))
    run, report = recorded(model, tmp_path / "run")
    assert run.stream_of("fresh_share") == "slow"
    np.testing.assert_allclose(run["fresh_share"].values[0], expected, rtol=1e-4, atol=1e-6)
    assert "fresh_share" not in run.missing
    assert "fresh_share is read from mixing_contribution: at steps of its slow stream" in " ".join(
        report.split()
    )


@pytest.mark.parametrize("design", ["mhc:n=4", "vwn:m=2,n=3,dynamic=yes", "altup:K=2", "highway"])
def test_dilution_is_found_without_a_record_of_its_own(design: str, tmp_path: Path) -> None:
    run, _ = recorded(build(design), tmp_path / "run", steps=2)
    assert np.isfinite(run["fresh_share"].values).all()
    assert [found.kind for found in findings(run) if found.kind == "dilution"] == ["dilution"]


def test_without_a_replay_it_is_missing_and_the_reason_is_said(tmp_path: Path) -> None:
    """Compiled as a whole nothing can run beside the model."""
    torch._dynamo.reset()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run, report = recorded(
            build("hc:n=2,dynamic=no"),
            tmp_path / "run",
            steps=2,
            called=lambda model: torch.compile(model, backend="aot_eager"),
        )
    assert run.missing["fresh_share"] == run.missing["mixing_contribution"]
    assert "compiled" in run.missing["fresh_share"]
    assert "fresh_share" in report
    torch._dynamo.reset()


@pytest.mark.parametrize(
    ("design", "sampled"), [("prenorm", False), ("hires:B=2,n=2", True), ("hc:n=2,dynamic=no", True)]
)
def test_dilution_is_over_all_tokens_where_every_sublayer_has_its_share_so(
    design: str, sampled: bool, tmp_path: Path
) -> None:
    """HiRes lacks those at block ends, which are the most diluted. On the sample all designs have all of them."""
    run, _ = recorded(build(design), tmp_path / "run", steps=2)
    found = next(each for each in findings(run) if each.kind == "dilution")
    held = run["slow/fresh_share"].values[-1].astype(np.float64)
    assert "all tokens" not in run["slow/fresh_share"].attrs["reduction"]
    assert found.values["sampled"] is sampled
    assert ("Over a sample of tokens" in found.detail) is sampled
    for name, part in (("first_quarter", held[:2]), ("last_quarter", held[-2:])):
        np.testing.assert_allclose(found.values[f"sample_{name}"], part.mean(), rtol=1e-6)
        np.testing.assert_allclose(found.values[name], part.mean(), rtol=1e-4)  # the sample is the batch here
