"""Stores damaged at random: never a crash, a hang or a large allocation; the damage is named, other runs open."""

from __future__ import annotations

import json
import resource
import shutil
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from depthscope.store import RunError, RunWriter, check_run, find_runs, open_run, recover_run
from tests.store.runs import LAYERS, fast, outline, slow

LARGEST, HEADROOM = 100 * 2**20, 400 * 2**20
LONGEST_SECONDS = 60.0
ABSURD: list[Any] = [
    0, -1, 1, 2**31, 2**63, 10**12, 10**30, 1e308, -1e-3, True, None, "", "x", "NaN", "../../..", "\0",
    [], [10**12], [[]], {}, {"": {}}, [None] * 3,
]  # fmt: skip


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a closed run, one with an earlier attempt and rows in its log, and an untouched one."""
    folder = tmp_path_factory.mktemp("stores")
    for name in ("closed", "crashed", "other"):
        writer = RunWriter.create(
            folder / name,
            name=name,
            config={"a": 1},
            layout=outline(),
            streams=[fast(8), slow(8)],
            fsync=False,
        )
        for begin, end in ((0, 30), (20, 40)):
            writer.rewind(begin)
            for step in range(begin, end):
                row = {"loss": step, "write_rms": np.full(LAYERS, step)}
                writer.append("fast", step, row if step < 25 else {**row, "late": step})
                writer.append("slow", step, {"depth_attention": np.zeros((LAYERS + 1, 3))})
        writer.flush()
        for step in range(40, 45):
            writer.append("fast", step, {"loss": step})
        if name == "crashed":
            # As a kill would leave it.
            shutil.copytree(folder / name, folder / "copy")
        writer.close()
    shutil.rmtree(folder / "crashed")
    (folder / "copy").rename(folder / "crashed")
    return folder


def files_of(run: Path) -> list[Path]:
    return sorted(path.relative_to(run) for path in run.rglob("*") if path.is_file() and path.name != "LOCK")


def flip(data: st.DataObject, file: Path) -> None:
    content = bytearray(file.read_bytes())
    for _ in range(data.draw(st.sampled_from([1, 2, 20]))):
        if content:
            content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    file.write_bytes(content)


def cut(data: st.DataObject, file: Path) -> None:
    content = file.read_bytes()
    file.write_bytes(content[: data.draw(st.integers(0, len(content)))])


def grow(data: st.DataObject, file: Path) -> None:
    file.write_bytes(file.read_bytes() + data.draw(st.binary(min_size=1, max_size=300)))


def delete(data: st.DataObject, file: Path) -> None:
    file.unlink()


def edit(data: st.DataObject, file: Path) -> None:
    """Put an absurd value somewhere into the metadata."""
    whole = json.loads(file.read_text())
    node = whole
    while True:
        keys: list[Any] = list(node) if isinstance(node, dict) else list(range(len(node)))
        key = data.draw(st.sampled_from(keys))
        if isinstance(node[key], dict | list) and node[key] and data.draw(st.integers(0, 7)):
            node = node[key]
            continue
        node[key] = data.draw(st.sampled_from(ABSURD))
        break
    file.write_text(json.dumps(whole))


def damage(data: st.DataObject, run: Path) -> None:
    """Do one random thing to one random file of a run."""
    kind = data.draw(st.sampled_from([flip, flip, cut, grow, delete, edit, edit, edit]))
    files = files_of(run)
    if kind is edit:
        files = [path for path in files if path.suffix == ".json"]
        if data.draw(st.booleans()):
            roots = (("data.zarr", "zarr.json"), ("00001", "zarr.json"))
            files = [path for path in files if path.parts[-2:] in roots]
    kind(data, run / data.draw(st.sampled_from(files)))


def use(path: Path) -> None:
    """Do with a run all that readers and writers do; only a RunError that names the run may come out."""

    named: list[bool] = []

    def attempt(action: Callable[[], object]) -> None:
        try:
            action()
        except (RunError, KeyError) as error:  # KeyError: an array or a stream that is not there any more
            named.append(str(path) in str(error) or "has no" in str(error))

    def read() -> None:
        run = open_run(path)
        attempt(lambda: (run.status, run.last_step, run.version(), run.notes, run.gaps, run.missing))
        attempt(lambda: [run.steps(stream) for stream in run.streams])
        attempt(run.to_datatree)
        names: list[str] = []
        attempt(lambda: names.extend(run.quantities))
        for name in names:
            attempt(lambda name=name: run[name])  # type: ignore[misc]
            attempt(lambda name=name: run.read(name, columns=5))  # type: ignore[misc]
        for number in range(1, min(len(run.attempts), 3) + 1):
            attempt(lambda number=number: run.attempt(number)["loss"])  # type: ignore[misc]

    attempt(read)
    attempt(lambda: check_run(path))
    attempt(lambda: recover_run(path))
    attempt(lambda: RunWriter.resume(path, step=10, fsync=False).close())
    attempt(read)
    assert all(named)


@contextmanager
def little_memory() -> Iterator[None]:
    """Refuse allocations that would make this process 400 MiB larger: as strict as tracing, and free."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + HEADROOM, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


@contextmanager
def traced_memory() -> Iterator[None]:
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < LARGEST
    finally:
        tracemalloc.stop()


def hold(stores: Path, work: Path, data: st.DataObject, memory: AbstractContextManager[None]) -> None:
    run = work / data.draw(st.sampled_from(["closed", "crashed"]))
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir()
    for path in (run, work / "other"):
        shutil.copytree(stores / path.name, path)
    damage(data, run)
    started = time.monotonic()
    broken: list[Path] = []
    with memory:
        use(run)
        found = find_runs(work, broken=lambda path, error: broken.append(path))
    assert time.monotonic() - started < LONGEST_SECONDS
    assert work / "other" in {each.path for each in found}
    assert set(broken) <= {run}
    assert open_run(work / "other")["loss"].values.tolist() == list(range(45))


COMMON: dict[str, Any] = {
    "deadline": None,
    "suppress_health_check": list(HealthCheck),
    "database": None,
    "phases": [Phase.generate],
}


@settings(max_examples=50, derandomize=True, **COMMON)
@given(data=st.data())
def test_random_damage_is_named_and_harms_nothing_else(
    stores: Path, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    hold(stores, tmp_path_factory.getbasetemp() / "work", data, little_memory())


@pytest.mark.soak
@settings(max_examples=500, **COMMON)
@given(data=st.data())
def test_five_hundred_random_damages(
    stores: Path, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    hold(stores, tmp_path_factory.getbasetemp() / "work", data, little_memory())


@pytest.mark.soak
@settings(max_examples=50, **COMMON)
@given(data=st.data())
def test_every_allocation_is_counted(
    stores: Path, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    hold(stores, tmp_path_factory.getbasetemp() / "work", data, traced_memory())
