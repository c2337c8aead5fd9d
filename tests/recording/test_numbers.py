"""Each recorded number equals an independent fp64 computation, on weights after 20 steps."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from depthscope.store import open_run
from tests.recording import reference
from tests.recording.loops import BATCH, DESIGNS, LAYERS, TIME, WIDTH, build
from tests.recording.rows import record_one, spy_on_rows, trained

MODELS = (*DESIGNS, "foreign")
NEAR_ZERO = {"write_cosine", "write_dot", "outer_write_cosine", "depth_contribution", "fresh_share"}
"""Signed means: compared on the scale of what is averaged, where the mean itself may vanish."""


def test_the_four_extents_differ() -> None:
    assert len({BATCH, TIME, WIDTH, LAYERS}) == 4


class Recorded:
    """A trained model's one recorded step, and the same step captured by hand."""

    def __init__(self, design: str, compiled: bool, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        rows = spy_on_rows(monkeypatch)
        self.model, inputs, targets = trained(build(design))
        self.recorder = record_one(self.model, inputs, targets, path, compiled=compiled)
        self.row = rows["fast"][0] | rows.get("slow", {}).get(0, {})
        self.model.zero_grad()
        self.seen = reference.capture(self.model, inputs, targets)
        self.run = open_run(path)


@pytest.fixture(
    scope="module",
    params=[
        pytest.param((design, way), id=f"{design}-{way}")
        for way in ("eager", "compiled")
        for design in MODELS
    ],
)
def recorded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Recorded]:
    design, way = request.param
    torch._dynamo.reset()
    with pytest.MonkeyPatch.context() as monkeypatch:
        yield Recorded(design, way == "compiled", tmp_path_factory.mktemp("numbers") / "run", monkeypatch)


def close(name: str, found: Any, expected: Any) -> None:
    scale = 1e-5 if name in NEAR_ZERO else 1e-12
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=scale, equal_nan=True, err_msg=name)


def test_per_layer_quantities(recorded: Recorded) -> None:
    expected = reference.over_layers(recorded.seen)
    aliases = {"grad_state_rms": "grad_write_rms"}
    for name, values in expected.items():
        close(name, recorded.row[aliases.get(name, name)], values)


def test_whole_model_quantities(recorded: Recorded) -> None:
    seen, row = recorded.seen, recorded.row
    close("embedding_rms", row["embedding_rms"], reference.rms(seen.embedding))
    close("embedding_logrms", row["embedding_logrms"], reference.logrms(seen.embedding))
    close("final_read_rms", row["final_read_rms"], reference.rms(seen.final_read))
    close("final_read_logrms", row["final_read_logrms"], reference.logrms(seen.final_read))
    close("loss", row["loss"], seen.loss.item())
    assert row["loss_tokens"] == BATCH * TIME
    assert row["tokens"] == 0


def test_fresh_share(recorded: Recorded) -> None:
    model: Any = recorded.model
    name = getattr(getattr(model, "residual", None), "name", "")
    alphas = reference.depth_weights(model, recorded.seen) if name.endswith("attnres") else None
    ends = (
        {index for index in range(LAYERS) if model.residual.blocks.finishes(index)}
        if name == "hires"
        else set()
    )
    close("fresh_share", recorded.row["fresh_share"], reference.fresh_share(recorded.seen, alphas, ends))


def test_parameter_gradients(recorded: Recorded) -> None:
    model, row = recorded.model, recorded.row
    if hasattr(model, "tower"):
        others = {"embedding": ["letters.", "places."], "head": ["out."], "final_norm": ["last."]}
    else:
        others = {"embedding": ["embedding."], "head": ["head."], "final_norm": ["norm."]}
    close("param_grad_norm", row["param_grad_norm"], reference.layer_gradient_norms(model))
    for group, parts in others.items():
        expected = np.sqrt(sum(reference.gradient_norms(model, part) ** 2 for part in parts))
        close(group, row[f"{group}_grad_norm"], expected)
    close("grad_norm", row["grad_norm"], reference.gradient_norms(model, ""))


def test_squared_groups_add_up_to_the_global_norm(recorded: Recorded) -> None:
    row = recorded.row
    squares = [
        np.nansum(np.square(row[name])) for name in row if name.endswith("_grad_norm") and name != "grad_norm"
    ]
    close("grad_norm", np.sqrt(sum(squares)), row["grad_norm"])


def test_depth_attention(recorded: Recorded) -> None:
    model: Any = recorded.model
    if not recorded.seen.sources:
        assert "depth_attention" not in recorded.run.quantities
        assert "no depth mixer" in recorded.run.missing["depth_attention"]
        return
    columns = len(model.residual.source_names())
    for name, values in reference.depth_attention(model, recorded.seen, columns).items():
        tolerance = 1e-4 if name == "depth_attention_std" else 1e-5
        np.testing.assert_allclose(
            recorded.row[name], values, rtol=tolerance, atol=1e-5, equal_nan=True, err_msg=name
        )
        stored = recorded.run[name].values[0]
        np.testing.assert_allclose(stored, values, rtol=1e-3, atol=1e-4, equal_nan=True, err_msg=name)


def test_outer_state(recorded: Recorded) -> None:
    if not recorded.seen.carries:
        assert "no wide outer state" in recorded.run.missing["outer_energy"]
        return
    for name, values in reference.outer_state(recorded.model, recorded.seen).items():
        close(name, recorded.row[name], values)


def test_what_is_stored_is_what_was_recorded(recorded: Recorded) -> None:
    for name in ("state_rms", "write_ratio", "grad_write_rms", "param_grad_norm", "fresh_share"):
        np.testing.assert_allclose(recorded.run[name].values[0], recorded.row[name], rtol=1e-6, err_msg=name)
    relative = recorded.row["write_rms"] * recorded.row["grad_write_rms"]
    np.testing.assert_allclose(recorded.run["grad_relative"].values[0], relative, rtol=1e-5)


def test_permuted_dims_are_noticed(recorded: Recorded) -> None:
    """The reference itself tells batch, time, features and layers apart."""
    seen = recorded.seen
    turned = [read.detach().permute(0, 2, 1) for read in seen.reads]
    with pytest.raises(AssertionError):
        close("read_logrms", recorded.row["read_logrms"], [reference.logrms(read) for read in turned])
    backwards = reference.over_layers(seen)["state_rms"][::-1]
    with pytest.raises(AssertionError):
        close("state_rms", recorded.row["state_rms"], backwards)
