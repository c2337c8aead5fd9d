"""An optimizer that evaluates its loss several times a step: the row is its last evaluation, all of that and no more."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from depthscope.recording import Recorder
from depthscope.store import open_run
from tests.faults.truth import FORWARD, GRADIENTS, PARAMETERS, same, truth
from tests.recording.loops import BATCH, TIME, ForeignGPT, build, loss_of
from tests.recording.rows import spy_on_rows, trained

pytestmark = pytest.mark.filterwarnings(
    "ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning"
)


@pytest.fixture(autouse=True)
def fresh_compiler() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


class Loop:
    """One step of LBFGS, three evaluations of two micro-batches each; keeps the weights of every evaluation."""

    def __init__(self, model: Any, inputs: Tensor, targets: Tensor, *, set_to_none: bool) -> None:
        self.model, self.inputs, self.targets, self.set_to_none = model, inputs, targets, set_to_none
        self.optimizer = torch.optim.LBFGS(
            model.parameters(), lr=1.0, max_iter=3, tolerance_grad=0.0, tolerance_change=0.0
        )
        self.weights: list[dict[str, Tensor]] = []

    def closure(self) -> Tensor:
        self.weights.append({name: value.clone() for name, value in self.model.state_dict().items()})
        self.optimizer.zero_grad(set_to_none=self.set_to_none)
        losses = []
        for half in (slice(0, 2), slice(2, 4)):
            loss = loss_of(self.model, self.inputs[half], self.targets[half]) / 2
            loss.backward()
            losses.append(loss.detach())
        return sum(losses)

    def truth_at(self, evaluation: int) -> dict[str, Any]:
        twin = ForeignGPT()
        twin.load_state_dict(self.weights[evaluation])
        return truth(twin, self.inputs, self.targets)


def eagerly(model: Any) -> None:
    pass


def each_block(model: Any) -> None:
    for stage in model.tower:
        stage.compile(fullgraph=True, backend="aot_eager")


def four_rows(inputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    return torch.cat([inputs, inputs[:1].flip(1)]), torch.cat([targets, targets[:1].flip(1)])


@pytest.mark.parametrize(("way", "set_to_none"), [(eagerly, True), (eagerly, False), (each_block, False)])
def test_a_row_holds_the_last_evaluation_with_all_its_micro_batches(
    way: Callable[[Any], None], set_to_none: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = spy_on_rows(monkeypatch)
    model, inputs, targets = trained(build("foreign"))
    inputs, targets = four_rows(inputs, targets)
    loop = Loop(model, inputs, targets, set_to_none=set_to_none)
    with Recorder(model, tmp_path / "run", optimizer=loop.optimizer, example=inputs) as recorder:
        way(model)
        loop.optimizer.step(loop.closure)
        recorder.step()
    assert len(loop.weights) == 3
    row = rows["fast"][0]
    first, last = loop.truth_at(0), loop.truth_at(2)
    same(row, last, *FORWARD, *GRADIENTS, *PARAMETERS)
    assert np.abs(first["write_rms"] / last["write_rms"] - 1).max() > 1e-3
    assert row["loss_tokens"] == 4 * TIME
    (told,) = [note for note in recorder.report().notes if "closure" in note]
    assert told == (
        "the optimizer evaluated its closure 3 times a step: a row holds its step's last evaluation, forward and "
        "gradients alike, at the parameters where that was made"
    )
    assert told in open_run(tmp_path / "run").notes["notes"]


def test_training_is_bitwise_what_it_is_without_a_recorder(tmp_path: Path) -> None:
    weights = []
    for record in (False, True):
        model, inputs, targets = trained(build("foreign"))
        loop = Loop(model, *four_rows(inputs, targets), set_to_none=True)
        recorder = Recorder(model, tmp_path / "run", optimizer=loop.optimizer) if record else None
        losses = []
        for _ in range(2):
            losses.append(loop.optimizer.step(loop.closure))
            if recorder is not None:
                recorder.step()
        if recorder is not None:
            recorder.close()
        weights.append([*losses, *model.state_dict().values()])
    assert all(torch.equal(one, other) for one, other in zip(*weights, strict=True))


def test_micro_batches_before_the_step_belong_to_its_only_evaluation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As trainers accumulate that hand a closure to every optimizer: the last micro-batch runs inside the step."""
    rows = spy_on_rows(monkeypatch)
    model, inputs, targets = trained(build("foreign"))
    inputs, targets = four_rows(inputs, targets)
    expected = truth(model, inputs, targets)
    model.zero_grad()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.0)

    def half(place: int) -> Tensor:
        part = slice(2 * place, 2 * place + 2)
        loss = loss_of(model, inputs[part], targets[part]) / 2
        loss.backward()
        return loss

    with Recorder(model, tmp_path / "run", optimizer=optimizer) as recorder:
        half(0)
        optimizer.step(lambda: half(1))
        recorder.step()
    same(rows["fast"][0], expected, *FORWARD, *GRADIENTS, *PARAMETERS)
    assert rows["fast"][0]["loss_tokens"] == 4 * TIME
    assert not [note for note in recorder.report().notes if "closure" in note]


def test_tokens_of_repeated_evaluations_count_once_also_between_rows(tmp_path: Path) -> None:
    model, inputs, targets = trained(build("foreign"))
    loop = Loop(model, *four_rows(inputs, targets), set_to_none=True)
    with Recorder(model, tmp_path / "run", optimizer=loop.optimizer, every=2) as recorder:
        for _ in range(3):
            loop.optimizer.step(loop.closure)
            recorder.step()
    tokens = (BATCH + 1) * TIME
    assert open_run(tmp_path / "run")["tokens"].values.tolist() == [0, 2 * tokens]
