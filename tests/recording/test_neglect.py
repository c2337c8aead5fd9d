"""A loop that forgets to call `step` is told so: without the call there is no row."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch

from depthscope.recording import Recorder
from depthscope.recording.neglect import Neglect
from depthscope.store import open_run
from tests.recording.loops import batches, build, loss_of, optimizer_of, train

NEVER = "training forwards were seen and step() was never called: call recorder.step() after optimizer.step()"


@contextmanager
def told() -> Iterator[list[str]]:
    said: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield said
    said += [str(each.message) for each in caught]


@pytest.mark.parametrize("given", [True, False])
def test_a_recorder_whose_step_is_never_called_says_how_many_forwards_it_saw(
    given: bool, tmp_path: Path
) -> None:
    model = build("prenorm")
    optimizer = optimizer_of(model)
    with told() as said:
        recorder = Recorder(model, tmp_path / "run", optimizer=optimizer if given else None)
        train(model, 3, batches(), optimizer)
        assert f"3 {NEVER}" in recorder.report().notes
        recorder.close()
    assert said == [f"depthscope: 3 {NEVER}"]
    assert open_run(tmp_path / "run").rows("fast") == 0


def test_so_does_one_whose_model_is_compiled_code(tmp_path: Path) -> None:
    model = build("prenorm")
    inputs, targets = batches()()
    with told() as said:
        recorder = Recorder(model, tmp_path / "run", optimizer=optimizer_of(model), example=inputs)
        compiled = torch.compile(model, backend="eager")
        for _ in range(2):
            loss_of(compiled, inputs, targets).backward()
        recorder.close()
    assert said == [f"depthscope: 2 {NEVER}"]


def test_a_loop_that_calls_step_at_every_tenth_step_only_is_told(tmp_path: Path) -> None:
    model, draw = build("prenorm"), batches()
    optimizer = optimizer_of(model)
    with told() as said:
        recorder = Recorder(model, tmp_path / "run", optimizer=optimizer)
        for _ in range(2):
            train(model, 9, draw, optimizer)
            train(model, 1, draw, optimizer, after=lambda loss: recorder.step(loss=loss))
        recorder.close()
    assert len(said) == 1
    assert "20 steps of the optimizer were seen and step() was called 2 times" in said[0]


def test_an_exception_before_the_first_call_is_all_there_is_to_say(tmp_path: Path) -> None:
    def loop() -> None:
        model = build("prenorm")
        with Recorder(model, tmp_path / "run", optimizer=optimizer_of(model)):
            loss_of(model, *batches()())
            raise KeyError

    with told() as said, pytest.raises(KeyError):
        loop()
    assert said == []


@pytest.mark.parametrize(
    ("calls", "forwards", "steps", "said"),
    [
        (0, 0, [], ""),
        (0, 1, [], "1 training forward was seen and step() was never called"),
        (0, 0, [7], "7 steps of the optimizer were seen and step() was never called"),
        (100, 5, [100], ""),
        (100, 1, [110], ""),
        (100, 1, [199], ""),
        (100, 1, [200], "200 steps of the optimizer were seen and step() was called 100 times"),
        (100, 1, [500, 100], ""),  # a critic that steps five times for each row
        (2, 1, [11], ""),
        (2, 1, [12], "12 steps of the optimizer were seen and step() was called 2 times"),
    ],
)
def test_what_counts_as_neglect(calls: int, forwards: int, steps: list[int], said: str) -> None:
    neglect = Neglect()
    neglect.calls = calls
    words = neglect.words(forwards, steps)
    assert words.startswith(said)
    assert bool(words) == bool(said)
