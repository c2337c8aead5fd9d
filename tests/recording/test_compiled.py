"""torch.compile: the same numbers as eager code, no graph break, no graph more, and silence is named."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch._dynamo.utils import counters

from depthscope.anatomy import inspect_model
from depthscope.recording import Recorder
from depthscope.store import open_run
from tests.recording.loops import ForeignGPT, batches, build, loss_of, optimizer_of, train
from tests.recording.rows import spy_on_rows

# Of torch itself, also without a recorder: for a compiled module whose input is no leaf, and of inductor's own code.
pytestmark = [
    pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning"),
    pytest.mark.filterwarnings("ignore:`torch.jit.:DeprecationWarning"),
]

BACKEND = "aot_eager"
CLOCKS = {"step_seconds", "recording_seconds"}


@pytest.fixture(autouse=True)
def fresh_compiler() -> Iterator[None]:
    torch._dynamo.reset()
    counters.clear()
    yield
    torch._dynamo.reset()


def eagerly(model: nn.Module) -> Callable[[Tensor], Tensor]:
    return model


def whole(model: nn.Module) -> Any:
    return torch.compile(model, fullgraph=True, backend=BACKEND)


def in_place(model: nn.Module) -> nn.Module:
    model.compile(fullgraph=True, backend=BACKEND)
    return model


def each_block(model: Any) -> nn.Module:
    for stage in model.tower:
        stage.compile(fullgraph=True, backend=BACKEND)
    return model  # type: ignore[no-any-return]


def rows_of(
    model: nn.Module,
    way: Callable[[nn.Module], Any],
    path: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    micro_batches: int = 1,
    between: Callable[[Any, Tensor], None] = lambda called, inputs: None,
) -> dict[int, dict[str, np.ndarray]]:
    """Record two steps with `micro_batches` each; return the rows of the fast stream."""
    draw, optimizer = batches(), optimizer_of(model)
    inputs, targets = (torch.cat(parts) for parts in zip(draw(), draw(), strict=True))
    with monkeypatch.context() as patch:
        rows = spy_on_rows(patch)
        with Recorder(
            model, path, optimizer=optimizer, every={"fast": 1, "slow": 2}, example=inputs
        ) as recorder:
            called = way(model)
            for _ in range(2):
                for part, wanted in zip(
                    inputs.chunk(micro_batches), targets.chunk(micro_batches), strict=True
                ):
                    loss = loss_of(called, part, wanted) / micro_batches
                    loss.backward()
                    between(called, part)
                optimizer.step()
                recorder.step(loss=loss.detach(), tokens=inputs.numel())
                optimizer.zero_grad()
    return rows["fast"]


def same(found: dict[int, dict[str, np.ndarray]], expected: dict[int, dict[str, np.ndarray]]) -> None:
    assert found.keys() == expected.keys()
    for step, row in expected.items():
        assert row.keys() - found[step].keys() <= CLOCKS
        for name, value in row.items():
            if name not in CLOCKS:
                np.testing.assert_allclose(
                    found[step][name],
                    value,
                    rtol=2e-4,
                    atol=2e-6,
                    equal_nan=True,
                    err_msg=f"{name} at {step}",
                )


@pytest.mark.parametrize("told", [True, False])
def test_gradients_are_unscaled_where_the_model_is_compiled(told: bool, tmp_path: Path) -> None:
    """Scaled by a power of two, every gradient is the same but for its exponent."""

    def gradients(scale: float) -> np.ndarray:
        torch._dynamo.reset()
        model, draw = build("prenorm"), batches()
        optimizer, path = optimizer_of(model), tmp_path / str(scale)
        scaler = torch.amp.GradScaler("cpu", init_scale=scale)
        with Recorder(model, path, optimizer=optimizer, scaler=scaler if told else None) as recorder:
            called = whole(model)
            for _ in range(3):
                inputs, targets = draw()
                loss = loss_of(called, inputs, targets)
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
                recorder.step(loss=loss.detach(), tokens=inputs.numel())
                optimizer.zero_grad()
        run = open_run(path)
        assert run["loss_scale"].values.tolist() == [scale] * 3
        return run["grad_write_rms"].values

    np.testing.assert_allclose(gradients(1024.0), gradients(1.0), rtol=1e-6)


def test_evaluation_in_between_is_not_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def evaluate(called: nn.Module, inputs: Tensor) -> None:
        called.eval()
        with torch.no_grad():
            called(inputs)
        called(inputs)
        called.train()
        with torch.no_grad():
            called(inputs)

    expected = rows_of(build("foreign"), eagerly, tmp_path / "eager", monkeypatch)
    for way in (whole, each_block):
        found = rows_of(build("foreign"), way, tmp_path / way.__name__, monkeypatch, between=evaluate)
        same(found, expected)


@pytest.mark.parametrize("way", [whole, each_block])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_compiled_training_is_bitwise_the_same(
    way: Callable[[nn.Module], Any], dtype: torch.dtype, tmp_path: Path
) -> None:
    def run(path: Path | None) -> tuple[list[float], dict[str, Tensor]]:
        torch._dynamo.reset()
        model = build("foreign")
        draw, optimizer = batches(), optimizer_of(model)
        cast = torch.autocast("cpu", dtype=dtype, enabled=dtype is not torch.float32)
        if path is None:
            called = way(model)
            with cast:
                return train(called, 5, draw, optimizer), model.state_dict()
        with Recorder(model, path, optimizer=optimizer, example=batches()()[0]) as recorder:
            called = way(model)
            with cast:
                losses = train(called, 5, draw, optimizer, lambda loss: recorder.step(loss=loss, tokens=30))
        return losses, model.state_dict()

    losses, parameters = run(None)
    recorded_losses, recorded = run(tmp_path / "run")
    assert recorded_losses == losses
    assert all(torch.equal(value, recorded[name]) for name, value in parameters.items())


def test_inductor_gives_the_same_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def inductor(model: Any) -> nn.Module:
        for stage in model.tower:
            stage.compile(fullgraph=True)
        return model  # type: ignore[no-any-return]

    expected = rows_of(build("foreign"), eagerly, tmp_path / "eager", monkeypatch)
    same(rows_of(build("foreign"), inductor, tmp_path / "compiled", monkeypatch), expected)


def test_a_wrapper_that_has_not_run_is_looked_into_on_the_first_batch(tmp_path: Path) -> None:
    model = build("foreign")
    compiled: Any = torch.compile(model, fullgraph=True, backend=BACKEND)
    optimizer = optimizer_of(model)
    with Recorder(compiled, tmp_path / "run", optimizer=optimizer) as recorder:
        train(compiled, 2, batches(), optimizer, lambda loss: recorder.step(loss=loss))
    assert recorder.report().layers == 8
    assert "layer 1" not in str(recorder.report().missing)


def test_a_write_that_is_scaled_in_compiled_code_is_withdrawn(tmp_path: Path) -> None:
    """The solve looked at the model while its scale was 1; compiled code is checked by its sums."""

    class Scaled(ForeignGPT):
        scale = 1.0

        def forward(self, ids: Tensor) -> Tensor:
            x = self.letters(ids) + self.places.weight[: ids.shape[1]]
            for stage in self.tower:
                h = x + self.scale * stage.alpha(stage.u(x))
                x = h + stage.beta(stage.w(h))
            return self.out(self.last(x))

    torch.manual_seed(0)
    model = Scaled()
    for stage in model.tower:
        stage.alpha.zag.weight.data.mul_(20)
    inputs, targets = batches()()
    optimizer = optimizer_of(model)
    plain = ForeignGPT()
    plain.load_state_dict(model.state_dict())
    anatomy = inspect_model(plain, inputs)
    recorder = Recorder(model, tmp_path / "run", optimizer=optimizer, anatomy=anatomy)
    model.scale = 0.5
    called = whole(model)

    def record() -> None:
        loss = loss_of(called, inputs, targets)
        loss.backward()
        optimizer.step()
        recorder.step(loss=loss.detach(), tokens=inputs.numel())
        recorder.close()

    with pytest.warns(UserWarning, match="withdrawn"):
        record()
    withdrawn = [where for where, reason in recorder.report().missing.items() if "withdrawn" in reason]
    assert [where.split(" (")[0] for where in withdrawn] == ["layer 1", "layer 3", "layer 5", "layer 7"]
