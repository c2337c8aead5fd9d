"""Fault 2: tied weights are one parameter: one record, and both names are told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from depthscope.models import Decoder, DecoderConfig, residual_from_string
from depthscope.recording import Recorder
from depthscope.store import open_run
from tests.faults.truth import one_step, same, truth_of, without_updates
from tests.recording.loops import LAYERS, TIME, VOCABULARY, WIDTH, batches, build
from tests.recording.rows import spy_on_rows


def decoder() -> nn.Module:
    config = DecoderConfig(
        vocabulary=VOCABULARY, width=WIDTH, layers=LAYERS, heads=2, context=TIME, tied_head=True
    )
    return Decoder(config, residual_from_string("prenorm", config))


def foreign() -> Any:
    model: Any = build("foreign")
    model.out.weight = model.letters.weight
    return model


@pytest.mark.parametrize(
    ("make", "embedding", "head"),
    [(decoder, "embedding.token.weight", "head.weight"), (foreign, "letters.weight", "out.weight")],
)
def test_a_tied_head_is_recorded_once_with_the_embedding(
    make: Any, embedding: str, head: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(0)
    rows, model, (inputs, targets) = spy_on_rows(monkeypatch), make(), batches()()
    expected = truth_of(model, inputs, targets)
    by_hand = {name: float(p.grad.double().norm()) for name, p in model.named_parameters()}
    places = ("embedding.position", "places.weight")
    expected["embedding_grad_norm"] = np.hypot(by_hand[embedding], sum(by_hand.get(n, 0) for n in places))
    model.zero_grad()
    optimizer = without_updates(model)
    with Recorder(model, tmp_path / "run", optimizer=optimizer) as recorder:
        one_step(model, optimizer, recorder, inputs, targets)
    row = rows["fast"][0]
    same(row, expected, "embedding_grad_norm", "param_grad_norm", "grad_norm")
    assert np.isnan(row["head_grad_norm"])
    groups = [row[name] for name in row if name.endswith("_grad_norm")]
    np.testing.assert_allclose(
        np.sqrt(sum(np.nansum(np.square(group)) for group in groups)), expected["grad_norm"], rtol=1e-5
    )
    run = open_run(tmp_path / "run")
    tied = f"tied to the embedding: {head} is {embedding}, which is recorded once, there"
    assert run.missing["head_grad_norm"] == tied
    lines = [line for line in recorder.report().sites if line.site == "head parameters"]
    assert [line.missing for line in lines] == [((tied, ("head_grad_norm",)),)]
    assert f"{head} is {embedding}: tied weights are recorded once" in str(run.notes)
    assert f"{head} is {embedding}" in str(recorder.report())


def test_two_sublayers_that_share_their_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The shared matrices count in the first, and the second holds what is its own."""
    model: Any = build("foreign")
    rows, (inputs, targets) = spy_on_rows(monkeypatch), batches()()
    for mine, its in zip(model.tower[2].beta, model.tower[0].beta, strict=True):
        if isinstance(mine, nn.Linear):
            mine.weight, mine.bias = its.weight, its.bias
    expected = truth_of(model, inputs, targets)
    own = model.tower[2].w
    second = np.hypot(float(own.weight.grad.double().norm()), float(own.bias.grad.double().norm()))
    expected["param_grad_norm"][5] = second
    model.zero_grad()
    optimizer = without_updates(model)
    with Recorder(model, tmp_path / "run", optimizer=optimizer) as recorder:
        one_step(model, optimizer, recorder, inputs, targets)
    same(rows["fast"][0], expected, "param_grad_norm", "grad_norm", "write_rms", "grad_write_rms")
    assert "tower.2.beta.0.weight is tower.0.beta.0.weight" in str(recorder.report())
