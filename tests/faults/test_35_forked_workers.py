"""Fault 35: data-loader workers forked after attach hold a copy of the recorder, which does nothing there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from depthscope.recording import Recorder
from depthscope.store import open_run
from tests.faults.truth import ALL, same, truth, without_updates
from tests.recording.loops import TIME, VOCABULARY, build, loss_of
from tests.recording.rows import spy_on_rows, trained

# Python 3.12 on warns of a fork with threads about: there are ours, and data loaders fork nevertheless.
pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")

SECONDS = 300
"""For a batch that takes milliseconds: a worker that hangs fails the test."""


class Sentences(Dataset[Tensor]):
    """Item i, made without any state: [TIME + 1] token numbers."""

    def __len__(self) -> int:
        return 12

    def __getitem__(self, index: int) -> Tensor:
        generator = torch.Generator().manual_seed(index)
        return torch.randint(0, VOCABULARY, (TIME + 1,), generator=generator)


class Meddling(Sentences):
    """Runs the model and ends steps in the worker, as a data set that scores its sentences might."""

    def __init__(self, model: torch.nn.Module, recorder: Recorder) -> None:
        self.model, self.recorder = model, recorder
        self.calls = 0

    def __getitem__(self, index: int) -> Tensor:
        sentence = super().__getitem__(index)
        with self.recorder.tokens(torch.ones(1, TIME)):
            loss_of(self.model, sentence[None, :-1], sentence[None, 1:]).backward()
        self.recorder.before_clip()
        self.recorder.evaluation(validation=9.0)
        self.recorder.step(loss=-1.0, metrics={"mine": 9.0})
        self.model.zero_grad()
        assert self.recorder.report().rows == 0, "the worker's copy counted a row"
        if index % 2:
            self.recorder.close()
        return sentence


def test_workers_neither_record_nor_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = spy_on_rows(monkeypatch)
    model: Any = trained(build("foreign"))[0]
    first = torch.stack([Sentences()[index] for index in range(3)])
    recorder = Recorder(model, tmp_path / "run", optimizer=without_updates(model), example=first[:, :-1])
    optimizer = recorder._optimizers.optimizers[0]
    loader = DataLoader(
        Meddling(model, recorder),
        batch_size=3,
        num_workers=2,
        multiprocessing_context="fork",
        timeout=SECONDS,
    )
    expected = []
    for epoch in range(2):
        for batch in loader if epoch == 0 else DataLoader(Sentences(), batch_size=3, num_workers=1):
            inputs, targets = batch[:, :-1], batch[:, 1:]
            twin = build("foreign")
            twin.load_state_dict(model.state_dict())
            expected.append(truth(twin, inputs, targets))
            loss = loss_of(model, inputs, targets)
            loss.backward()
            optimizer.step()
            # The workers of the second epoch are forked in the middle of a recording that has rows.
            recorder.step(loss=loss.detach())
            optimizer.zero_grad()
    recorder.close()
    assert sorted(rows["fast"]) == list(range(8))
    for step in range(8):
        same(rows["fast"][step], expected[step], *ALL, "loss")
    run = open_run(tmp_path / "run")
    assert run["loss"].step.values.tolist() == list(range(8))
    assert run.status == "finished"
    assert {"mine", "validation"}.isdisjoint(run.quantities)
