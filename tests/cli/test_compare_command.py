"""`depthscope compare`: the numbers that differ, at equal step, tokens or loss, and findings against a baseline."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from depthscope.cli import main
from depthscope.cli.comparison import footing, tokens_per_step
from depthscope.store import ArraySpec, RunWriter, StreamSpec, open_run
from tests.cli.conftest import LAYERS, Type, small_layout, write_small


def write_paced(path: Path, *, batch: int, speed: float, records: int = 11) -> Path:
    """Write a run with `batch` tokens a step and validation loss 10 - speed * step at steps 0, 10, ..."""
    fast = [
        ArraySpec(name="state_rms", dims=("layer",), shape=(LAYERS,)),
        ArraySpec(name="tokens", dtype="f8"),
    ]
    streams = [
        StreamSpec(name="fast", arrays=fast),
        StreamSpec(name="evaluation", arrays=[ArraySpec(name="validation")]),
    ]
    with RunWriter.create(
        path, name=path.name, config={}, layout=small_layout("prenorm"), streams=streams, fsync=False
    ) as writer:
        for step in range(0, 10 * records, 10):
            writer.append("fast", step, {"state_rms": np.arange(1.0, LAYERS + 1), "tokens": batch * step})
            writer.append("evaluation", step, {"validation": 10 - speed * step})
    return path


def cells(text: str, title: str) -> list[str]:
    """Return the cells of the line that starts with `title`."""
    (line,) = [line for line in text.splitlines() if line.startswith(f"{title}  ")]
    return line.removeprefix(title).split()


def test_numbers_that_differ_stand_side_by_side_with_their_difference(typed: Type, runs: Path) -> None:
    """State rms at step s is (1 + s/10) l and (1 + s/10) l²: from sublayer 2 to 6 times 3, and times 9."""
    found = typed("compare", runs / "flat", runs / "steep")
    assert (found.code, found.err) == (0, "")
    assert cells(found.out, "step") == ["20", "20"]
    assert cells(found.out, "state rms, last over first transformer block") == ["3", "9", "(+6)"]
    assert "The same in all runs: validation loss; training loss" in found.out
    assert "steep against flat" in found.out
    assert "Baseline flat at step 20: State rms grows 3.0×" in " ".join(found.out.split())


def test_another_baseline(typed: Type, runs: Path) -> None:
    found = typed("compare", runs, "--baseline", runs / "steep")
    assert cells(found.out, "state rms, last over first transformer block") == ["9", "3", "(−6)"]


def test_equal_steps_end_where_the_shorter_run_ends(tmp_path: Path) -> None:
    long = open_run(write_paced(tmp_path / "long", batch=100, speed=0.01))
    short = open_run(write_paced(tmp_path / "short", batch=100, speed=0.01, records=4))
    assert footing([long, short], "step", None) == {long.id: 30, short.id: 30}
    assert footing([long, short], "step", 20) == {long.id: 20, short.id: 20}


def test_equal_tokens_and_equal_loss(tmp_path: Path) -> None:
    """slow sees 50 tokens a step, fast 100; slow loses 0.01 a step, fast 0.02. Both run 100 steps."""
    slow = open_run(write_paced(tmp_path / "slow", batch=50, speed=0.01))
    fast = open_run(write_paced(tmp_path / "fast", batch=100, speed=0.02))
    for order in ([slow, fast], [fast, slow]):
        assert footing(order, "tokens", None) == {slow.id: 100, fast.id: 50}
        assert footing(order, "loss", None) == {slow.id: 100, fast.id: 50}
    assert footing([slow, fast], "tokens", 40) == {slow.id: 40, fast.id: 20}
    assert (tokens_per_step(slow), tokens_per_step(fast)) == (50, 100)


def test_it_says_when_equal_steps_are_not_equal_tokens(typed: Type, tmp_path: Path) -> None:
    write_paced(tmp_path / "a", batch=50, speed=0.01)
    write_paced(tmp_path / "b", batch=100, speed=0.02)
    assert "Tokens per step differ (a 50, b 100)" in typed("compare", "a", "b").out
    found = typed("compare", "a", "b", "--at", "tokens")
    assert "Tokens per step differ" not in found.out
    assert cells(found.out, "step") == ["100", "50"]


@pytest.mark.parametrize("at", ["tokens", "loss"])
def test_what_a_run_lacks_for_the_comparison_is_named(
    at: str, typed: Type, runs: Path, tmp_path: Path
) -> None:
    write_small(tmp_path / "fresh", records=0)
    found = typed("compare", runs / "flat", tmp_path / "fresh", "--at", at)
    assert found.code == 1
    assert "fresh has no record yet" in found.err
    if at == "tokens":
        found = typed("compare", runs / "flat", runs / "steep", "--at", at)
        assert found.code == 1
        assert "flat has no tokens recorded; compare --at step" in found.err


def test_one_run_is_not_enough(typed: Type, runs: Path) -> None:
    found = typed("compare", runs / "flat", runs / "flat")
    assert found.code == 2
    assert "found one run, flat; expected two or more" in found.err


def test_a_path_that_is_no_run(typed: Type, runs: Path) -> None:
    found = typed("compare", runs / "flat", runs / "stepe")
    assert found.code == 2
    assert f"Did you mean {runs / 'steep'}?" in found.err


def test_runs_of_one_name_are_told_apart(typed: Type, tmp_path: Path) -> None:
    write_paced(tmp_path / "monday" / "prenorm", batch=50, speed=0.01)
    write_paced(tmp_path / "tuesday" / "prenorm", batch=100, speed=0.01)
    found = typed("compare", tmp_path)
    assert "baseline prenorm (monday)" in found.out
    assert "Tokens per step differ (prenorm (monday) 50, prenorm (tuesday) 100)" in found.out
    assert "prenorm (tuesday) against prenorm (monday)" in found.out


def test_a_step_after_the_last_is_answered_with_the_last(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", str(runs), "--step", "5000"]) == 0
    assert "no record at step 5000: the last recorded step is 20; it is used" in capsys.readouterr().err
    assert main(["compare", str(runs), "--step", "20"]) == 0
    assert capsys.readouterr().err == ""
