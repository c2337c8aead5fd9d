"""The probe batch: the definitions on held-out tokens in evaluation mode, and a training that does not notice."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch._dynamo.utils import counters

from depthscope.anatomy import AnatomyError
from depthscope.probes import Magnitude
from depthscope.recording import Recorder, Schedule
from depthscope.store import Run, open_run
from tests.recording import reference
from tests.recording.loops import (
    DESIGNS,
    LAYERS,
    TIME,
    WIDTH,
    ForeignGPT,
    batches,
    build,
    loss_of,
    optimizer_of,
    train,
)
from tests.recording.rows import spy_on_rows

# Of torch itself, for a compiled module whose input is no leaf.
pytestmark = pytest.mark.filterwarnings(
    "ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning"
)
SIGNED = {"write_cosine", "write_dot", "depth_contribution", "fresh_share", "outer_write_cosine"}


@pytest.fixture(autouse=True)
def fresh_compiler() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def held_out() -> tuple[Tensor, Tensor]:
    return batches(seed=77)()


def recorded(
    model: nn.Module,
    path: Path,
    *,
    steps: int = 4,
    called: Any = None,
    with_optimizer: bool = True,
    **options: Any,
) -> Run:
    optimizer, draw = optimizer_of(model), batches()
    once = {"fast": 1, "slow": 1}
    options = {"probe_batch": held_out()[0], "probe_every": 2, "every": once, **options}
    given = optimizer if with_optimizer else None
    with Recorder(model, path, optimizer=given, **options) as recorder:
        called = model if called is None else called(model)
        train(called, steps, draw, optimizer, lambda loss: recorder.step(loss=loss, tokens=30))
    return open_run(path)


class WithMemory(nn.Module):
    """Dropout, and a buffer that every training forward moves, as batch norm's does."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.drop = nn.BatchNorm1d(width), nn.Dropout(0.3)
        self.calls = 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return self.drop(self.norm(x.flatten(0, 1)).view_as(x))


def small() -> Any:
    torch.manual_seed(0)
    return ForeignGPT(stages=2)


def noisy(model: Any) -> Any:
    for stage in model.tower:
        stage.beta.append(WithMemory(WIDTH))
    return model


@pytest.mark.parametrize("design", [*DESIGNS, "foreign"])
def test_rows_are_the_definitions_on_the_batch_before_the_update(
    design: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inputs, targets = held_out()
    rows = spy_on_rows(monkeypatch)
    run = recorded(build(design), tmp_path / "run", probe_every=3)
    assert run.steps("probe").tolist() == [0, 3]
    assert {"probe/state_rms", "probe/write_cosine", "probe/final_read_rms"} <= set(run.quantities)
    model = build(design)
    train(model, 3, batches(), optimizer_of(model))  # three updates: what row 3 was made of
    model.zero_grad()
    seen = reference.capture(model, inputs, targets)
    row = rows["probe"][3]
    expected = reference.over_layers(seen)
    if seen.sources:
        expected |= reference.depth_attention(model, seen, len(model.residual.source_names()))
        alphas = reference.depth_weights(model, seen)
    if seen.carries:
        expected |= reference.outer_state(model, seen)
    expected |= {
        "embedding_rms": reference.rms(seen.embedding),
        "final_read_logrms": reference.logrms(seen.final_read),
    }
    left_out = {name for name in expected if name.startswith("grad_")}
    left_out |= {"query_norm", "interface_gate", "write_read_coupling"}
    for name in expected.keys() - left_out:
        tolerance = 1e-4 if name == "depth_attention_std" else 1e-5
        scale = 1e-5 if name in SIGNED or name == "depth_attention_std" else 1e-9
        np.testing.assert_allclose(
            row[name], expected[name], rtol=tolerance, atol=scale, equal_nan=True, err_msg=name
        )
    assert not (row.keys() & left_out), "neither gradients nor parameters are a batch's"
    if seen.sources:
        by_token = row["depth_attention_by_token"]
        assert by_token.shape == (LAYERS + 1, len(model.residual.source_names()), inputs.numel())
        for mixer, alpha in enumerate(alphas):
            columns = np.flatnonzero(~np.isnan(by_token[mixer, :, 0]))
            np.testing.assert_allclose(by_token[mixer, columns], alpha, rtol=1e-5, atol=1e-6)
        shares = row["depth_contribution_by_token"]
        np.testing.assert_allclose(np.nansum(shares, axis=1), 1, atol=1e-4)
        np.testing.assert_allclose(shares.mean(axis=2), expected["depth_contribution"], atol=1e-5)


def test_the_stream_is_read_by_its_name(tmp_path: Path) -> None:
    run = recorded(build("block-attnres:S=3"), tmp_path / "run")
    assert run.streams["probe"] == 2
    assert run["probe/state_rms"].shape == (2, LAYERS)
    assert run["probe/state_rms"].attrs["mode"] == "evaluation"
    assert run["state_rms"].shape == (4, LAYERS), "the training's own"
    maps = run["probe/depth_attention_by_token"]
    assert maps.dims == ("step", "target", "source", "token")
    assert maps.coords["source_name"].values.tolist()[0] == "embedding"
    assert list(run.to_datatree()["probe"].ds.sizes) != []


@pytest.mark.parametrize("way", ["eager", "whole", "blocks"])
def test_training_is_bitwise_the_same(way: str, tmp_path: Path) -> None:
    """With dropout, running statistics and a counter on a module; the optimizer is told of, as loops do."""

    def run(path: Path | None, **options: Any) -> tuple[list[float], dict[str, Tensor], list[int]]:
        torch._dynamo.reset()
        model = noisy(small())
        draw, optimizer = batches(), optimizer_of(model)

        def called() -> Any:
            if way == "whole":
                return torch.compile(model, backend="aot_eager")
            for stage in model.tower if way == "blocks" else ():
                stage.compile(backend="aot_eager")
            return model

        torch.manual_seed(5)
        if path is None:
            losses = train(called(), 6, draw, optimizer)
        else:
            example = held_out()[0]
            with Recorder(model, path, optimizer=optimizer, example=example, **options) as recorder:
                losses = train(called(), 6, draw, optimizer, lambda loss: recorder.step(loss=loss, tokens=30))
        return losses, model.state_dict(), [stage.beta[-1].calls for stage in model.tower]

    losses, state, calls = run(None)
    once = {"fast": 1, "slow": 1}  # one graph to compile
    found = run(tmp_path / "run", probe_batch=held_out()[0], probe_every=2, every=once)
    assert open_run(tmp_path / "run").steps("probe").tolist() == [0, 2, 4]
    assert found[0] == losses
    assert found[2] == calls
    for name, value in state.items():
        assert torch.equal(value, found[1][name]), name


@pytest.mark.parametrize("way", ["whole", "blocks"])
def test_compiled_code_shows_the_same_and_gets_no_graph_more(way: str, tmp_path: Path) -> None:
    def compiled(model: Any) -> Any:
        if way == "whole":
            return torch.compile(model, fullgraph=True, backend="aot_eager")
        for stage in model.tower:
            stage.compile(fullgraph=True, backend="aot_eager")
        return model

    plain = recorded(small(), tmp_path / "eager", probe_every=1)
    counters.clear()
    found = recorded(small(), tmp_path / "compiled", called=compiled, probe_every=1)
    graphs = counters["stats"]["unique_graphs"]
    assert found.steps("probe").tolist() == [0, 1, 2, 3]
    for name in ("state_rms", "fresh_share", "write_cosine", "read_logrms", "abs_max"):
        np.testing.assert_allclose(
            found[f"probe/{name}"].values, plain[f"probe/{name}"].values, rtol=1e-4, atol=1e-6
        )
    torch._dynamo.reset()
    counters.clear()
    without = {"probe_batch": None, "probe_every": None, "example": held_out()[0]}
    recorded(small(), tmp_path / "without", called=compiled, **without)
    assert counters["stats"]["unique_graphs"] == graphs


def test_compiled_code_without_an_optimizer_says_that_the_batch_was_not_run(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="give the recorder the optimizer"):
        run = recorded(
            small(),
            tmp_path / "run",
            called=lambda model: torch.compile(model, backend="aot_eager"),
            with_optimizer=False,
        )
    assert run.steps("probe").size == 0


def test_the_training_rows_are_those_without_a_probe_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = spy_on_rows(monkeypatch)
    recorded(build("block-attnres:S=3"), tmp_path / "with", every={"fast": 1, "slow": 1})
    found = {stream: rows.pop(stream) for stream in ("fast", "slow")}
    recorded(
        build("block-attnres:S=3"),
        tmp_path / "without",
        every={"fast": 1, "slow": 1},
        probe_batch=None,
        probe_every=None,
    )
    for stream, held in found.items():
        for step, row in held.items():
            for name in row.keys() - {"step_seconds", "recording_seconds"}:
                np.testing.assert_array_equal(row[name], rows[stream][step][name], err_msg=name)


def test_micro_batches_share_one_run_of_the_batch(tmp_path: Path) -> None:
    model = build("prenorm")
    optimizer, draw = optimizer_of(model), batches()
    calls = []
    model.embedding.register_forward_hook(lambda *_: calls.append(model.training))
    once = {"probe_batch": held_out()[0], "probe_every": 1, "probes": (Magnitude(),)}  # and no replays
    with Recorder(model, tmp_path / "run", optimizer=optimizer, **once) as recorder:
        calls.clear()
        for _ in range(2):
            loss_of(model, *draw()).backward()
        optimizer.step()
        recorder.step()
    assert calls == [False, True, True]
    assert model.training


def test_a_schedule_may_be_dense_at_first(tmp_path: Path) -> None:
    run = recorded(build("prenorm"), tmp_path / "run", steps=7, probe_every=Schedule(every=5, dense_until=2))
    assert run.steps("probe").tolist() == [0, 1, 5]


def test_rows_have_the_numbers_that_the_loop_gives_its_steps(tmp_path: Path) -> None:
    model = build("prenorm")
    optimizer, draw = optimizer_of(model), batches()
    with Recorder(
        model, tmp_path / "run", optimizer=optimizer, probe_batch=held_out()[0], probe_every=1
    ) as recorder:
        steps = iter((0, 10, 20))
        train(model, 3, draw, optimizer, lambda loss: recorder.step(loss=loss, step=next(steps)))
    run = open_run(tmp_path / "run")
    assert run.steps("probe").tolist() == run.steps("fast").tolist() == [0, 10, 20]


def test_a_resumed_run_goes_on(tmp_path: Path) -> None:
    recorded(build("prenorm"), tmp_path / "run", steps=5)
    recorded(build("prenorm"), tmp_path / "run", steps=3, start_step=3)
    run = open_run(tmp_path / "run")
    assert run.steps("probe").tolist() == [0, 2, 4]
    assert run.steps("fast").tolist() == [0, 1, 2, 3, 4, 5]


def test_in_low_precision_the_maps_are_kept(tmp_path: Path) -> None:
    """The identity of the mix is checked with the tolerance of the batch's own precision, from row 0 on."""
    run = recorded(build("full-attnres").bfloat16(), tmp_path / "run")
    assert not np.isnan(run["probe/depth_attention_max"].values).any()
    assert "withdrawn" not in str(run.missing)


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"probe_batch": torch.zeros(2, 3)}, AnatomyError, "on probe_batch: .*the arguments of the forward"),
        ({"probe_batch": None, "probe_every": 3}, ValueError, "probe_every=3 without probe_batch"),
        ({"probe_every": 0}, ValueError, "every=0: expected a whole number of steps"),
        ({"probe_batch": torch.zeros(2, TIME + 1, dtype=torch.long)}, AnatomyError, "on probe_batch"),
    ],
)
def test_what_cannot_be_run_is_refused_at_once(
    options: dict[str, Any], error: type[Exception], words: str, tmp_path: Path
) -> None:
    with pytest.raises(error, match=words):
        recorded(build("prenorm"), tmp_path / "run", **options)
    assert not (tmp_path / "run").exists()
