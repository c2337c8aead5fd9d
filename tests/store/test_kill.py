"""Real kills of a writer with two streams that are flushed at different times, half of them of a rewound run.

`make test` does a dozen, `make soak` a hundred.
"""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from depthscope.store import Run, open_run, recover_run
from depthscope.store.level import LEVELS
from tests.store.runs import LAYERS
from tests.store.test_pyramid import assert_bins

WRITER = """
import sys, time
from pathlib import Path
import numpy as np
from depthscope.store import RunWriter
from tests.store.runs import LAYERS, fast, outline, slow

path, life, rewind = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
print("ready", flush=True)
if not (path / "run.json").exists():
    writer = RunWriter.create(path, name="r", config={}, layout=outline(), fsync=False,
                              streams=[fast(16), slow(8)], flush_seconds=0.05)
    step = 0
else:
    writer = RunWriter.resume(path, step=None if rewind < 0 else rewind, flush_seconds=0.05, fsync=False)
    step = 0 if writer._streams["fast"].last_step is None else writer._streams["fast"].last_step + 1
    seen = writer._streams["slow"].last_step
    if step % 3 == 1 and seen != step - 1:
        # The kill came between the two rows of a step.
        assert writer.append("slow", step - 1, {"depth_attention": np.full((LAYERS + 1, 3), life)})
print("begin", step, flush=True)
while True:
    values = {"loss": step, "tokens": 1e6 * life + step, "write_rms": np.full(LAYERS, step)}
    if step > 100:
        values["late"] = step
    assert writer.append("fast", step, values)
    if step % 3 == 0:
        assert writer.append("slow", step, {"depth_attention": np.full((LAYERS + 1, 3), life)})
    print(step, flush=True)
    step += 1
    if step % 7 == 0:
        time.sleep(0.002)
"""


@dataclass
class Known:
    """What a run has to hold: the life in which each step was written."""

    lives: list[int] = field(default_factory=list)
    """Of each accepted step."""
    earlier: list[list[int]] = field(default_factory=list)


def live_and_die(path: Path, life: int, rewind: int, after: float) -> tuple[int | None, int]:
    """Kill a writer so many seconds after it began to open the run; return its first step and its last one."""
    typed = [sys.executable, "-c", WRITER, str(path), str(life), str(rewind)]
    with subprocess.Popen(typed, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
        time.sleep(after)
        writer.kill()
        said = writer.stdout.read().splitlines()
    assert writer.returncode == -signal.SIGKILL
    if not said:
        return None, -1
    first = int(said[0].split()[1])
    return first, int(said[-1]) if len(said) > 1 else first - 1


def check_rows(run: Run, lives: list[int]) -> None:
    """Hold every array of a run against the steps that were accepted, and no row more than that."""
    steps = list(range(len(lives)))
    assert run.steps("fast").tolist() == steps
    assert run["loss"].values.tolist() == steps
    assert run["tokens"].values.tolist() == [1e6 * life + step for step, life in enumerate(lives)]
    np.testing.assert_array_equal(run["write_rms"].values, np.repeat(steps, LAYERS).reshape(-1, LAYERS))
    if len(lives) > 101:
        assert run["late"].values[101:].tolist() == steps[101:]
        assert np.isnan(run["late"].values[:101]).all()
    slow_steps = run.steps("slow").tolist()
    assert slow_steps == steps[: 3 * len(slow_steps) : 3]
    assert len(slow_steps) >= -(-(len(lives) - 1) // 3)
    mixes = run["depth_attention"].values[:, 0, 0].tolist()
    # A slow row may have come with the next life, when the kill fell between the two rows of its step.
    assert all(lives[step] <= mix <= lives[step] + 9 for step, mix in zip(slow_steps, mixes, strict=True))


def committed(path: Path, lives: list[int]) -> int:
    """Check that xarray sees exactly a prefix of the rows, arrays of equal length; return its length."""
    with xr.open_datatree(path / "rank00000" / "data.zarr", engine="zarr") as tree:
        count = int(tree["fast"].sizes["step"])
        assert {array.sizes["step"] for array in tree["fast"].data_vars.values()} <= {count}
        assert tree["fast"].to_dataset()["loss"].values.tolist() == list(range(count))
        assert tree["fast"].to_dataset()["tokens"].values.tolist() == [
            1e6 * life + step for step, life in enumerate(lives[:count])
        ]
        assert not np.isnan(tree["fast"].to_dataset()["write_rms"].values).any()
        slow_count = int(tree["slow"].sizes["step"])
        assert tree["slow"].to_dataset()["step"].values.tolist() == list(range(0, 3 * slow_count, 3))
        assert not np.isnan(tree["slow"].to_dataset()["depth_attention"].values).any()
        for stream in ("fast", "slow"):
            check_levels(tree, stream)
    return count


def check_levels(tree: xr.DataTree, stream: str) -> None:
    """Hold every committed level against the rows below it: whole bins, as many as there can be."""
    rows = tree[stream].to_dataset().load()
    for level, size in LEVELS.items():
        bins = rows.sizes["step"] // size
        if f"/pyramid/{stream}/{level}" not in tree.groups:
            assert bins == 0
            continue
        found = tree[f"pyramid/{stream}/{level}"].to_dataset().load()
        assert found.sizes["bin"] == bins
        assert found["step_start"].values.tolist() == rows["step"].values[: bins * size : size].tolist()
        assert found["step_end"].values.tolist() == rows["step"].values[size - 1 :: size].tolist()
        assert set(rows.data_vars) <= set(found.data_vars)
        for name, values in rows.data_vars.items():
            assert_bins(found[name].values, values.values, size)


def kill_again_and_again(path: Path, kills: int, seed: int) -> None:
    draw = random.Random(seed)
    known = Known()
    for life in range(kills):
        before = len(known.lives)
        rewind = draw.randrange(before + 1) if life % 2 and before else -1
        first, last = live_and_die(path, life, rewind, draw.uniform(0.0, 0.3))
        if not (path / "run.json").exists():
            continue  # killed before there was a run
        run = open_run(path)
        assert run.status == "crashed"
        if len(run.attempts) > len(known.earlier):
            known.earlier.append(list(known.lives))
            del known.lives[rewind:]
        elif first is not None:
            assert rewind < 0 or rewind >= before
        if first is not None:
            assert first == len(known.lives)
        # Beside those that were said to be accepted, one more row may have been.
        count = run.rows("fast")
        assert last + 1 <= count <= max(last + 2, len(known.lives))
        known.lives += [life] * (count - len(known.lives))
        check_rows(run, known.lives)
        assert len(run.attempts) == len(known.earlier)
        for number, lives in enumerate(known.earlier, start=1):
            check_rows(run.attempt(number), lives)
        assert committed(path, known.lives) <= count
        if draw.random() < 0.5:
            recover_run(path)
            check_rows(run, known.lives)
            check_rows(open_run(path), known.lives)
            assert committed(path, known.lives) == count


@pytest.mark.parametrize("seed", range(3))
def test_kills_lose_no_accepted_row(tmp_path: Path, seed: int) -> None:
    kill_again_and_again(tmp_path / "run", 4, seed)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(100, 110))
def test_a_hundred_kills_lose_no_accepted_row(tmp_path: Path, seed: int) -> None:
    kill_again_and_again(tmp_path / "run", 10, seed)
