"""Fault 7: a sublayer, or a part of one, that a step does not use is missing from its row, and not 0."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from depthscope.recording import Recorder
from depthscope.recording.dropped import unsure
from tests.faults.truth import FORWARD, same, truth_of, without_updates
from tests.recording.loops import LAYERS, ForeignGPT, build, loss_of
from tests.recording.rows import spy_on_rows, trained

DROPPED = (3, 4)
"""The sublayers of the second block."""
OTHERS = [layer for layer in range(1, LAYERS + 1) if layer not in DROPPED]


class Skipping(ForeignGPT):
    """Drops its second block in some steps, or those of `which`."""

    drops = False
    which: tuple[int, ...] = (1,)
    reentrant: bool | None = None
    """Of the checkpoint around each block; None: there is none."""

    def forward(self, ids: Tensor) -> Tensor:
        x = self.letters(ids) + self.places.weight[: ids.shape[1]]
        for place, stage in enumerate(self.tower):
            if self.drops and place in self.which:
                continue
            x = stage(x) if self.reentrant is None else checkpoint(stage, x, use_reentrant=self.reentrant)
        return self.out(self.last(x))


def without_the_second(model: Any) -> ForeignGPT:
    return without(model, (1,))


def without(model: Any, which: tuple[int, ...]) -> ForeignGPT:
    shorter = ForeignGPT(stages=LAYERS // 2 - len(which))
    kept = [stage for place, stage in enumerate(model.tower) if place not in which]
    shorter.load_state_dict(
        {name: value for name, value in model.state_dict().items() if "tower" not in name}, False
    )
    for mine, its in zip(shorter.tower, kept, strict=True):
        mine.load_state_dict(its.state_dict())
    return shorter


# Of torch itself, for a compiled module whose input is no leaf.
pytestmark = pytest.mark.filterwarnings(
    "ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning"
)


@pytest.mark.parametrize("set_to_none", [True, False])
def test_a_dropped_block_is_missing_also_where_zeros_are_left_in_its_gradients(
    set_to_none: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = spy_on_rows(monkeypatch)
    plain, inputs, targets = trained(build("foreign"))
    model = Skipping()
    model.load_state_dict(plain.state_dict())
    used, dropped = truth_of(plain, inputs, targets), truth_of(without_the_second(model), inputs, targets)
    optimizer = without_updates(model)
    with Recorder(model, tmp_path / "run", optimizer=optimizer, example=inputs) as recorder:
        for drops in (False, True, False):
            model.drops = drops
            loss = loss_of(model, inputs, targets)
            loss.backward()
            optimizer.step()
            recorder.step(loss=loss)
            optimizer.zero_grad(set_to_none=set_to_none)
    for step in (0, 2):
        same(rows["fast"][step], used, *FORWARD, "grad_write_rms", "param_grad_norm", "grad_norm")
    row = rows["fast"][1]
    for name in ("read_rms", "write_rms", "write_cosine", "grad_write_rms", "param_grad_norm"):
        assert np.isnan(row[name][[2, 3]]).all(), name
    expected = {name: np.insert(value, 2, [np.nan, np.nan]) for name, value in dropped.items() if value.shape}
    found = ("read_rms", "write_rms", "state_rms", "write_cosine", "grad_write_rms", "param_grad_norm")
    same(row, expected, *found, layers=OTHERS)
    same(row, dropped, "grad_norm", "loss")


def test_a_block_dropped_in_one_micro_batch_leaves_the_others_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = spy_on_rows(monkeypatch)
    plain, inputs, targets = trained(build("foreign"))
    model = Skipping()
    model.load_state_dict(plain.state_dict())
    used, dropped = truth_of(plain, inputs, targets), truth_of(without_the_second(model), inputs, targets)
    optimizer = without_updates(model)
    with Recorder(model, tmp_path / "run", optimizer=optimizer, example=inputs) as recorder:
        for model.drops in (False, True):
            (loss_of(model, inputs, targets) / 2).backward()
        optimizer.step()
        recorder.step()
    for name in ("read_rms", "write_rms", "state_rms", "grad_write_rms"):
        both = np.sqrt((np.delete(used[name], [2, 3]) ** 2 + dropped[name] ** 2) / 2)
        expected = {name: np.insert(both, 2, used[name][[2, 3]])}
        same(rows["fast"][0], expected, name)


def test_a_last_block_dropped_in_one_micro_batch_leaves_no_half_of_a_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Shortened(ForeignGPT):
        drops = False

        def forward(self, ids: Tensor) -> Tensor:
            x = self.letters(ids) + self.places.weight[: ids.shape[1]]
            for stage in self.tower[: len(self.tower) - self.drops]:
                x = stage(x)
            return self.out(self.last(x))

    rows = spy_on_rows(monkeypatch)
    plain, inputs, targets = trained(build("foreign"))
    model = Shortened()
    model.load_state_dict(plain.state_dict())
    used, optimizer = truth_of(plain, inputs, targets), without_updates(model)
    with Recorder(model, tmp_path / "run", optimizer=optimizer, example=inputs) as recorder:
        for model.drops in (False, True):
            (loss_of(model, inputs, targets) / 2).backward()
        optimizer.step()
        recorder.step()
    row = rows["fast"][0]
    whole = [layer for layer in range(1, LAYERS + 1) if layer != LAYERS - 2]
    same(row, used, "state_rms", layers=whole)
    assert np.isnan(row["state_rms"][LAYERS - 3]), "its state passed no module in the second micro-batch"


def each_block(model: Any) -> None:
    for stage in model.tower:
        stage.compile(fullgraph=True, backend="aot_eager")


def eagerly(model: Any) -> None: ...


STATE, GRADIENT, READ = "state_rms", "grad_write_rms", "grad_read_rms"


@pytest.mark.parametrize(
    ("way", "reentrant", "which", "together", "lost"),
    [
        (eagerly, None, (0,), False, set()),
        (eagerly, None, (0, 1), True, set()),
        (eagerly, False, (0,), True, set()),
        (eagerly, True, (0,), True, set()),
        (eagerly, True, (1,), False, {(STATE, 2), (GRADIENT, 2)}),
        (eagerly, True, (1,), True, {(STATE, 2), (GRADIENT, 2)}),
        (eagerly, True, (3,), True, {(STATE, 6), (GRADIENT, 6)}),
        (each_block, None, (0,), True, {(STATE, 1), (STATE, 2), (READ, 1), (READ, 2), (READ, 3)}),
        (each_block, None, (1,), True, {(STATE, 2), (STATE, 3), (STATE, 4), (READ, 3), (READ, 4), (READ, 5)}),
    ],
)
def test_beside_a_dropped_block_a_value_is_right_or_missing(
    way: Callable[[Any], None],
    reentrant: bool | None,
    which: tuple[int, ...],
    together: bool,
    lost: set[tuple[str, int]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One step whole; then one in which all forwards drop the blocks, or `together` one of its two micro-batches."""
    torch._dynamo.reset()
    rows = spy_on_rows(monkeypatch)
    plain, inputs, targets = trained(build("foreign"))
    model = Skipping()
    model.load_state_dict(plain.state_dict())
    model.which, model.reentrant = which, reentrant
    used, dropped = truth_of(plain, inputs, targets), truth_of(without(model, which), inputs, targets)
    optimizer = without_updates(model)
    with Recorder(model, tmp_path / "run", optimizer=optimizer, example=inputs) as recorder:
        way(model)
        for forwards in ((False,), (False, True) if together else (True,)):
            for model.drops in forwards:
                (loss_of(model, inputs, targets) / len(forwards)).backward()
            optimizer.step()
            recorder.step()
            optimizer.zero_grad()
    gone = [2 * place + half for place in which for half in (0, 1)]
    kept = [layer for layer in range(LAYERS) if layer not in gone]
    for name in ("read_rms", "write_rms", STATE, GRADIENT, READ):
        same(rows["fast"][0], used, name)
        expected = np.full(LAYERS, np.nan)
        expected[kept] = dropped[name]
        if together:
            both = (used[name] ** 2 + expected**2) / 2
            expected = np.sqrt(np.where(np.isnan(expected), used[name] ** 2, both))
        for quantity, layer in lost:
            if quantity == name:
                expected[layer - 1] = np.nan
        if which == (3,) and name == STATE:
            expected[LAYERS - 3] = np.nan  # passes no module once the last block is dropped
        same(rows["fast"][1], {name: expected}, name)
    said = recorder.report().missing.get("neighbours of dropped layers", "")
    assert said.startswith("in steps that drop a layer (stochastic depth)") == (
        way is each_block or bool(lost)
    )
    assert not any(reason.startswith("withdrawn") for reason in recorder.report().missing.values())


@pytest.mark.parametrize(
    ("counts", "traced", "lost"),
    [
        # Two forwards of one token: the first drops layers 3 and 4, the second layers 1 and 2. As often as each wrote,
        # the state behind layer 2 was seen, but in the other forward.
        ({"write": [1, 1, 1, 1, 2, 2], "state": [1, 1, 1, 1, 2, 2]}, True, [1, 2, 3, 4]),
        ({"write": [1, 1, 1, 1, 2, 2], "state": [1, 1, 1, 1, 2, 2]}, False, []),
        ({"write": [2, 0, 2], "state": [2, 2, 2]}, False, [2]),
        ({"write": [2, 2, 2], "state": [2, 2, 2]}, True, []),
        ({"write": [2, 4, 2], "state": [2, 4, 2]}, True, []),  # a layer that is called twice in each
        # The embedding is seen in the first block, the last read in the last one: each forward dropped one of them.
        (
            {"write": [1, 2, 2, 1], "state": [2, 2, 1, 1], "embedding": [1], "final_read": [1]},
            True,
            [1, 3, 4],
        ),
    ],
)
def test_what_numbers_of_tokens_tell(counts: dict[str, list[int]], traced: bool, lost: list[int]) -> None:
    tokens = {"embedding": [2], **counts}
    found = unsure([{kind: np.array(each, float) for kind, each in tokens.items()}], traced=traced)
    assert lost == [] if found is None else (np.flatnonzero(found.state) + 1).tolist() == lost


def test_an_expert_that_no_token_chose_leaves_the_norm_of_its_sublayer_right(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Experts(nn.Module):
        """Sends all tokens to one of two."""

        def __init__(self, mlp: nn.Module) -> None:
            super().__init__()
            self.chosen, self.other = mlp, nn.Linear(4, 4)
            self.uses_other = False

        def forward(self, x: Tensor) -> Tensor:
            return self.chosen(x)

    rows = spy_on_rows(monkeypatch)
    model, inputs, targets = trained(build("foreign"))
    expected = truth_of(model, inputs, targets)
    model.zero_grad()
    model.tower[1].beta = Experts(model.tower[1].beta)
    optimizer = without_updates(model)
    for parameter in model.tower[1].beta.other.parameters():
        parameter.grad = torch.zeros_like(parameter)
    with Recorder(model, tmp_path / "run", optimizer=optimizer, example=inputs) as recorder:
        loss = loss_of(model, inputs, targets)
        loss.backward()
        optimizer.step()
        recorder.step(loss=loss)
    same(rows["fast"][0], expected, "param_grad_norm", "grad_norm")


def test_a_gradient_that_is_truly_zero_is_zero(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sublayer that wrote and got gradients of 0 has learned nothing, which is a finding."""
    rows = spy_on_rows(monkeypatch)
    model, inputs, targets = trained(build("prenorm"))
    optimizer = without_updates(model)
    with Recorder(model, tmp_path / "run", optimizer=optimizer) as recorder:
        loss = loss_of(model, inputs, targets)
        loss.backward()
        for parameter in model.layers[4].parameters():
            parameter.grad.zero_()
        optimizer.step()
        recorder.step(loss=loss)
    assert rows["fast"][0]["param_grad_norm"][4] == 0
