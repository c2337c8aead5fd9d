"""Fault 32: a run is not resumed with another model, which is refused by name before a row is written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from torch import nn

from depthscope.recording import Recorder
from depthscope.store import SchemaError, open_run
from tests.recording.loops import ForeignGPT, batches, build, loss_of

Build = Callable[[], nn.Module]


def record(model: nn.Module, path: Path, steps: int, **options: int) -> None:
    draw = batches()
    with Recorder(model, path, example=draw()[0], **options) as recorder:  # type: ignore[arg-type]
        for _ in range(steps):
            loss_of(model, *draw()).backward()
            recorder.step()
            model.zero_grad()


@pytest.mark.parametrize(
    ("first", "other", "words"),
    [
        (lambda: build("prenorm"), lambda: build("block-attnres:S=3"), "design is 'prenorm' in the run"),
        (
            lambda: build("block-attnres:S=3"),
            lambda: build("block-attnres:S=2"),
            "design is 'block-attnres:S=3' in the run",
        ),
        (lambda: ForeignGPT(stages=4), lambda: ForeignGPT(stages=5), "it has 8 sublayers, this model 10"),
        (lambda: ForeignGPT(stages=4), lambda: ForeignGPT(stages=3), "it has 8 sublayers, this model 6"),
        (
            lambda: ForeignGPT(width=24),
            lambda: ForeignGPT(width=32),
            r"letters\.weight has shape \[61, 24\] in the run and \[61, 32\] now",
        ),
    ],
    ids=["design", "blocks", "more layers", "fewer layers", "width"],
)
def test_another_model_is_refused_and_the_run_stays_as_it_was(
    first: Build, other: Build, words: str, tmp_path: Path
) -> None:
    record(first(), tmp_path / "run", 3)
    before = open_run(tmp_path / "run")["state_rms"].values
    with pytest.raises(SchemaError, match=f"recorded with another model: {words}.*Record to another path"):
        record(other(), tmp_path / "run", 2, start_step=3)
    run = open_run(tmp_path / "run")
    assert run.status == "finished"
    assert run["state_rms"].values.tolist() == before.tolist()
    record(first(), tmp_path / "run", 2, start_step=3)
    assert open_run(tmp_path / "run").steps("fast").tolist() == list(range(5))


def test_a_parameter_that_came_or_went_is_no_other_model(tmp_path: Path) -> None:
    """An adapter beside the head, say: the sublayers and their shapes are the same."""
    record(ForeignGPT(), tmp_path / "run", 2)
    adapted = ForeignGPT()
    adapted.register_parameter("adapter", nn.Parameter(adapted.out.weight.detach()[:1].clone()))
    record(adapted, tmp_path / "run", 2, start_step=2)
    record(ForeignGPT(), tmp_path / "run", 2, start_step=4)
    assert open_run(tmp_path / "run").steps("fast").tolist() == list(range(6))


def test_a_run_of_an_earlier_version_kept_no_shapes(tmp_path: Path) -> None:
    record(ForeignGPT(), tmp_path / "run", 2)
    (tmp_path / "run" / "parameters.json").unlink()
    record(ForeignGPT(), tmp_path / "run", 2, start_step=2)
    assert open_run(tmp_path / "run").steps("fast").tolist() == list(range(4))


def test_another_model_without_an_example_ends_the_recording_and_not_the_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The depth axis is found on the first forward, within the loop."""
    record(ForeignGPT(stages=4), tmp_path / "run", 3)
    monkeypatch.setenv("DEPTHSCOPE_STRICT", "0")
    model, draw = ForeignGPT(stages=5), batches()
    recorder = Recorder(model, tmp_path / "run", start_step=3)
    with pytest.warns(UserWarning, match="SchemaError.*8 sublayers, this model 10.*training goes on"):
        loss = loss_of(model, *draw())
    loss.backward()
    recorder.step(loss=loss.detach())
    recorder.close()
    assert open_run(tmp_path / "run").steps("fast").tolist() == [0, 1, 2]
