"""How many tokens a step has: from whatever the model is called with, or from what the loop says, if that is a number."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from depthscope.recording import Recorder
from depthscope.recording.values import checked_count, token_positions
from tests.recording.loops import BATCH, TIME, batches, build, optimizer_of
from tests.recording.rows import spy_on_rows

IDS, VECTORS, NUMBER = torch.ones(2, 5, dtype=torch.int64), torch.ones(2, 5, 8), torch.tensor(0.5)


@pytest.mark.parametrize(
    ("args", "kwargs", "positions"),
    [
        ((IDS,), {}, 10),
        ((VECTORS,), {}, 10),
        (({"ids": IDS, "weight": VECTORS},), {}, 10),
        ((NUMBER,), {"batch": {"x": [VECTORS]}}, 10),
        ((NUMBER, [IDS]), {}, 10),
        ((NUMBER,), {}, 0),
        ((), {"name": "text"}, 0),
    ],
)
def test_positions_are_found_in_nested_arguments(args: Any, kwargs: Any, positions: int) -> None:
    assert token_positions(args, kwargs) == positions


@pytest.mark.parametrize(
    ("given", "count"),
    [
        (64, 64),
        (torch.tensor(64), 64),
        (64.0, 64),
        (0, 0),
        (-3, None),
        (64.5, None),
        (True, None),
        ("a", None),
        (float("nan"), None),
        (float("inf"), None),
        (torch.ones(2), None),
    ],
)
def test_a_count_is_a_whole_number(given: Any, count: int | None) -> None:
    assert checked_count(given) == count


class Hidden(nn.Module):
    """Called with what no tensor tells."""

    def __init__(self) -> None:
        super().__init__()
        self.model = build("foreign")

    def forward(self, batch: Any) -> Tensor:
        return self.model(batch.ids)


class Batch:
    def __init__(self, ids: Tensor) -> None:
        self.ids = ids


def row_of(
    folder: Path, rows: dict[str, dict[int, dict[str, Any]]], wrap: Any, **given: Any
) -> dict[str, Any]:
    torch.manual_seed(0)
    model, draw = Hidden() if wrap is Batch else build("foreign"), batches()
    optimizer = optimizer_of(model)
    inputs, targets = draw()
    with Recorder(model, folder, optimizer=optimizer, example=(wrap(inputs),)) as recorder:
        logits = model(wrap(inputs))
        nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten()).backward()
        optimizer.step()
        recorder.step(**given)
    return rows["fast"].pop(0)


def test_positions_that_nothing_tells_are_those_of_the_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = spy_on_rows(monkeypatch)
    known, unknown = (
        row_of(tmp_path / "known", rows, lambda ids: ids),
        row_of(tmp_path / "hidden", rows, Batch),
    )
    assert known["loss_tokens"] == unknown["loss_tokens"] == BATCH * TIME
    np.testing.assert_allclose(unknown["grad_write_rms"], known["grad_write_rms"], rtol=1e-6)
    assert "tokens" not in unknown


def test_no_token_in_the_loss_has_no_gradient_per_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = spy_on_rows(monkeypatch)
    row = row_of(tmp_path / "run", rows, lambda ids: ids, tokens=0)
    assert row["loss_tokens"] == 0
    assert np.isnan(row["grad_write_rms"]).all()


def test_what_is_no_count_is_said_and_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = spy_on_rows(monkeypatch)
    with pytest.warns(UserWarning, match="tokens is -3, expected a whole number of tokens"):
        row = row_of(tmp_path / "run", rows, lambda ids: ids, tokens=-3)
    assert row["loss_tokens"] == BATCH * TIME
