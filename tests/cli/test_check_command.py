"""`depthscope check` and `depthscope recover`: what they say of sound, killed and damaged runs."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from depthscope.store import ArraySpec, RunWriter, StreamSpec, check_run, open_run
from tests.cli.conftest import LAYERS, Type, environment, small_layout

KILLED = """
import os, sys
from pathlib import Path
from tests.cli.test_check_command import write_identities
write_identities(Path(sys.argv[1]), kill=True)
"""


def write_identities(path: Path, *, kill: bool = False, wrong: float = 0.0) -> None:
    """Write 40 rows in which state = read + write; 30 of them are committed before the kill."""
    names = ("state_rms", "read_rms", "write_rms", "write_dot", "abs_max")
    arrays = [ArraySpec(name=name, dims=("layer",), shape=(LAYERS,)) for name in names]
    mix = ArraySpec(name="depth_attention", dims=("target", "source"), shape=(LAYERS + 1, 3), dtype="f2")
    streams = [
        StreamSpec(name="fast", arrays=arrays, chunk_rows=16),
        StreamSpec(name="slow", arrays=[mix], chunk_rows=16),
    ]
    writer = RunWriter.create(
        path, name="r", config={}, layout=small_layout("prenorm"), streams=streams, fsync=False
    )
    for step in range(40):
        read, write, dot = 3.0, 2.0, 0.5
        state = np.sqrt(read**2 + write**2 + 2 * dot) * (1 + wrong)
        row = {"state_rms": state, "read_rms": read, "write_rms": write, "write_dot": dot, "abs_max": 9.0}
        writer.append("fast", step, {name: np.full(LAYERS, value) for name, value in row.items()})
        if step % 4 == 0:
            writer.append("slow", step, {"depth_attention": np.full((LAYERS + 1, 3), 1 / 3)})
        if step == 29:
            writer.flush()
    if kill:
        import os

        os.kill(os.getpid(), signal.SIGKILL)
    writer.close()


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("checked") / "run"
    write_identities(path)
    return path


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("killed") / "run"
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(path)], env=environment(), check=False, timeout=60
    )
    assert done.returncode == -signal.SIGKILL
    return path


def test_a_sound_run_is_said_to_be_sound(typed: Type, sound: Path) -> None:
    found = typed("check", sound)
    assert (found.code, found.err) == (0, "")
    table = {line[2:].strip().split("  ")[0]: line for line in found.out.splitlines()[1:]}
    assert all(line.startswith("ok") for line in table.values())
    assert "40 fast" in table["commit"]
    assert "40 rows in 7 arrays, every chunk unpacks" in table["stream fast"]
    assert "off by" in table["state = read + write"]
    assert "off by" in table["depth attention sums to 1"]


def test_a_killed_run_is_sound_and_its_log_is_looked_at(typed: Type, killed: Path) -> None:
    found = typed("check", killed)
    assert found.code == 0
    assert "crashed" in found.out
    assert "every checksum fits" in found.out


def root_of(run: Path) -> Path:
    return run / "rank00000" / "data.zarr" / "zarr.json"


def fewer_rows(run: Path) -> None:
    root_of(run).write_text(root_of(run).read_text().replace('"fast":{"rows":40', '"fast":{"rows":10'))


def other_shape(run: Path) -> None:
    file = root_of(run).parent / "fast" / "state_rms" / "zarr.json"
    data = json.loads(file.read_text())
    data["shape"][0] = 39
    file.write_text(json.dumps(data))


def spoil(name: str) -> Callable[[Path], None]:
    def damage(run: Path) -> None:
        file = root_of(run).parent / name
        file.write_bytes(file.read_bytes()[:-1])

    return damage


DAMAGE: dict[str, tuple[Callable[[Path], None], str, str]] = {
    "a commit that was edited": (fewer_rows, "commit", "checksum does not fit"),
    "metadata that differ": (other_shape, "stream fast", "fast/state_rms/zarr.json differs from the commit"),
    "a chunk that was cut": (spoil("fast/state_rms/c.1.0"), "stream fast", "checksum"),
    "a chunk that is gone": (
        lambda run: (root_of(run).parent / "slow" / "step" / "c.0").unlink(),
        "stream slow",
        "step lacks its rows from 0 on (c.0)",
    ),
    "no commit": (lambda run: root_of(run).unlink(), "run", "zarr.json is missing"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_damage_is_named(typed: Type, sound: Path, tmp_path: Path, damage: str) -> None:
    do, part, words = DAMAGE[damage]
    run = Path(shutil.copytree(sound, tmp_path / "run"))
    do(run)
    found = typed("check", run)
    assert found.code == 1
    (wrong,) = (line for line in found.out.splitlines() if line.startswith("WRONG"))
    assert part in wrong
    assert words in wrong


def test_a_spoiled_row_of_a_log_is_named(killed: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(killed, tmp_path / "run"))
    log = max((run / "rank00000" / "tail").glob("fast.*.log"), key=lambda path: path.stat().st_size)
    content = bytearray(log.read_bytes())
    content[-10] ^= 1
    log.write_bytes(content)
    (wrong,) = (check for check in check_run(run) if not check.passed)
    assert wrong.part == "log fast"
    assert log.name in wrong.found


def test_numbers_that_contradict_their_definitions_are_named(tmp_path: Path) -> None:
    write_identities(tmp_path / "run", wrong=0.1)
    (wrong,) = (check for check in check_run(tmp_path / "run") if not check.passed)
    assert wrong.part == "state = read + write"


def test_a_folder_that_is_no_run(typed: Type, sound: Path) -> None:
    found = typed("check", sound.parent)
    assert found.code == 2
    assert f"depthscope check {sound}" in found.err


def test_recover_brings_the_rows_of_the_log_into_the_arrays(
    typed: Type, killed: Path, tmp_path: Path
) -> None:
    run = Path(shutil.copytree(killed, tmp_path / "run"))
    store = root_of(run).parent
    with xr.open_datatree(store, engine="zarr") as tree:
        committed = tree["fast"].sizes["step"]
        assert 30 <= committed < 40
    (store / "fast" / "state_rms" / "c.0.0.77.partial").write_bytes(b"half")
    found = typed("recover", run)
    assert (found.code, found.err) == (0, "")
    assert f"fast: 40 rows, {40 - committed} of them from the log" in found.out
    with xr.open_datatree(store, engine="zarr") as tree:
        assert tree["fast"].to_dataset()["step"].values.tolist() == list(range(40))
        assert tree["slow"].sizes["step"] == 10
    assert not list(run.rglob("*.partial"))
    assert open_run(run).status == "crashed"
    assert all(check.passed for check in check_run(run))
    assert "0 of them from the log" in typed("recover", run).out


def test_recover_leaves_a_closed_run_closed(typed: Type, sound: Path) -> None:
    assert "was closed" in typed("recover", sound).out
    assert open_run(sound).status == "finished"


def test_recover_is_refused_while_the_run_is_written(typed: Type, tmp_path: Path) -> None:
    streams = [StreamSpec(name="fast", arrays=[ArraySpec(name="loss")])]
    with RunWriter.create(
        tmp_path / "run", name="r", config={}, layout=small_layout("prenorm"), streams=streams, fsync=False
    ) as writer:
        writer.append("fast", 0, {"loss": 1.0})
        found = typed("recover", tmp_path / "run")
        assert found.code == 1
        assert "is being written by process" in found.err
        assert writer.append("fast", 1, {"loss": 1.0})
