"""Paths that are no run, runs of a newer version, and damaged or hostile stores: one clear error each."""

from __future__ import annotations

import json
import random
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from depthscope.store import CorruptRun, NewerFormat, NotARun, RunError, RunWriter, find_runs, open_run
from tests.store.runs import LAYERS, fast, outline, slow


@pytest.fixture(scope="module")
def intact(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("intact") / "run"
    with RunWriter.create(
        path, name="r", config={}, layout=outline(), streams=[fast(8), slow(8)], fsync=False
    ) as writer:
        for step in range(40):
            writer.append("fast", step, {"loss": step, "write_rms": np.full(LAYERS, step)})
            writer.append("slow", step, {"depth_attention": np.zeros((LAYERS + 1, 3))})
    return path


@pytest.fixture
def run(intact: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(intact, tmp_path / "run"))


def edit(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    data = json.loads(path.read_text())
    change(data)
    path.write_text(json.dumps(data))


def root(run: Path) -> Path:
    return run / "rank00000" / "data.zarr" / "zarr.json"


def read_all(path: Path) -> None:
    run = open_run(path)
    assert run.last_step is not None
    for name in run.quantities:
        run[name]
        run.read(name, columns=5)
        run.read(name, columns=1)
    run.to_datatree()


# --- no run -----------------------------------------------------------------------------------------------


def test_a_path_that_is_no_run_says_what_is_there_and_what_to_type(tmp_path: Path, run: Path) -> None:
    (tmp_path / "notes.txt").write_text("x")
    (tmp_path / "empty").mkdir()
    for path, found in (
        (tmp_path / "nowhere", "does not exist"),
        (tmp_path / "notes.txt", "is a file"),
        (tmp_path / "empty", "is empty"),
        (tmp_path, "holds empty, notes.txt, run"),
        (run / "rank00000" / "data.zarr", f"open {run} instead"),
    ):
        with pytest.raises(NotARun) as error:
            open_run(path)
        assert found in str(error.value)
        assert str(path) in str(error.value)
        assert error.value.path == path
    with pytest.raises(NotARun, match="depthscope ls"):
        open_run(tmp_path)
    with pytest.raises(NotARun, match="does not exist"):
        find_runs(tmp_path / "nowhere")


def test_a_newer_format_is_refused_by_name(run: Path) -> None:
    for file, change in (
        (run / "run.json", lambda data: data.update(format=2)),
        (root(run), lambda data: data["attributes"]["depthscope"].update(format=2, streams="another idea")),
    ):
        before = file.read_text()
        edit(file, change)
        with pytest.raises(NewerFormat, match=r"format 2.*up to 1.*pip install -U depthscope"):
            open_run(run)
        file.write_text(before)
    read_all(run)


def test_find_runs_names_what_it_leaves_out(
    run: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    deep = tmp_path / "a" / "b"
    deep.mkdir(parents=True)
    shutil.copytree(run, deep / "good")
    shutil.copytree(run, tmp_path / "broken")
    (tmp_path / "broken" / "run.json").write_text("{")
    (tmp_path / "loop").symlink_to(tmp_path, target_is_directory=True)
    broken: list[tuple[Path, RunError]] = []
    found = find_runs(tmp_path, broken=lambda path, error: broken.append((path, error)))
    assert [r.path for r in found] == [deep / "good", run]
    assert [path for path, _ in broken] == [tmp_path / "broken"]
    assert find_runs(run)[0].path == run
    find_runs(tmp_path)
    assert str(tmp_path / "broken") in caplog.text


# --- damage -----------------------------------------------------------------------------------------------


def grow(shape: list[int]) -> Callable[[dict[str, Any]], None]:
    """Make the committed metadata of one array claim another shape."""

    def change(data: dict[str, Any]) -> None:
        data["consolidated_metadata"]["metadata"]["fast/write_rms"]["shape"] = shape

    return change


def more_rows(data: dict[str, Any]) -> None:
    data["attributes"]["depthscope"]["streams"]["fast"]["rows"] = 10**12


def huge_chunks(data: dict[str, Any]) -> None:
    node = data["consolidated_metadata"]["metadata"]["fast/write_rms"]
    node["chunk_grid"]["configuration"]["chunk_shape"] = [10**9, LAYERS]


def wide(data: dict[str, Any]) -> None:
    node = data["consolidated_metadata"]["metadata"]["fast/write_rms"]
    node["shape"], node["chunk_grid"]["configuration"]["chunk_shape"] = [40, 10**6], [8, 10**6]


def long_labels(data: dict[str, Any]) -> None:
    data["consolidated_metadata"]["metadata"]["layer_name"]["shape"] = [10**9]


def escape(data: dict[str, Any]) -> None:
    nodes = data["consolidated_metadata"]["metadata"]
    nodes["fast/../../../../secret"] = nodes["fast/loss"]


def late(data: dict[str, Any]) -> None:
    """Claim that a million million rows of NaN came before the array."""
    more_rows(data)
    data["consolidated_metadata"]["metadata"]["fast/step"]["attributes"]["first_row"] = 10**12


DAMAGE: dict[str, Callable[[dict[str, Any]], None]] = {
    "more rows than files": more_rows,
    "chunks of gigabytes": huge_chunks,
    "wider rows than files": wide,
    "more labels than bytes": long_labels,
    "a path out of the store": escape,
    "rows that are said to be missing": late,
    "no arrays": lambda data: data.update(consolidated_metadata={"metadata": []}),
    "no commit": lambda data: data["attributes"].clear(),
    "negative rows": lambda data: data["attributes"]["depthscope"]["streams"]["fast"].update(rows=-1),
    "rows that are text": lambda data: data["attributes"]["depthscope"]["streams"]["fast"].update(rows="9"),
    "streams that are a list": lambda data: data["attributes"]["depthscope"].update(streams=[1]),
    "another run": lambda data: data["attributes"]["depthscope"].update(run="0123"),
    "an object type": lambda data: data["consolidated_metadata"]["metadata"]["fast/loss"].update(
        data_type="object"
    ),
    "a missing step array": lambda data: data["consolidated_metadata"]["metadata"].pop("fast/step"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_root_that_lies_is_a_corrupt_run_and_nothing_large_is_allocated(run: Path, damage: str) -> None:
    import tracemalloc

    edit(root(run), DAMAGE[damage])
    tracemalloc.start()
    try:
        with pytest.raises(CorruptRun) as error:
            read_all(run)
        assert tracemalloc.get_traced_memory()[1] < 100 * 2**20
    finally:
        tracemalloc.stop()
    assert str(run) in str(error.value)


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b"null", b"[" * 100_000, b"\xff\xfe", b'{"format": 1}']
)
@pytest.mark.parametrize("file", ["run.json", "rank00000/data.zarr/zarr.json"])
def test_a_broken_json_file_is_a_corrupt_run(run: Path, file: str, content: bytes) -> None:
    (run / file).write_bytes(content)
    with pytest.raises(CorruptRun, match="damaged"):
        open_run(run)


def test_a_missing_root_is_a_corrupt_run(run: Path) -> None:
    root(run).unlink()
    with pytest.raises(CorruptRun, match=r"zarr\.json is missing"):
        open_run(run)


def test_a_missing_chunk_is_named(run: Path) -> None:
    (run / "rank00000" / "data.zarr" / "fast" / "write_rms" / "c.2.0").unlink()
    with pytest.raises(CorruptRun, match=r"write_rms lacks its rows from 16 on"):
        open_run(run)["write_rms"]
    assert open_run(run)["loss"].sizes["step"] == 40


def bomb(content: bytes) -> bytes:
    """A chunk whose header claims that it unpacks to 2 GiB."""
    return content[:4] + struct.pack("<I", 2**31 - 1) + content[8:]


@pytest.mark.parametrize(
    "spoil",
    [
        bomb,
        lambda c: c[:-1],
        lambda c: c[:5],
        lambda c: b"",
        lambda c: c + b"x",
        lambda c: c[:16] + b"\0" * (len(c) - 16),
    ],
)
def test_a_spoiled_chunk_is_a_corrupt_run(run: Path, spoil: Callable[[bytes], bytes]) -> None:
    chunk = run / "rank00000" / "data.zarr" / "fast" / "write_rms" / "c.0.0"
    chunk.write_bytes(spoil(chunk.read_bytes()))
    with pytest.raises(CorruptRun):
        open_run(run)["write_rms"]


def test_random_damage_never_raises_anything_but_a_run_error(intact: Path, tmp_path: Path) -> None:
    """Bytes changed anywhere: either the rows can be read, or a RunError says that they cannot."""
    random_bytes = random.Random(0)
    files = [
        path.relative_to(intact)
        for path in sorted(intact.rglob("*"))
        if path.is_file() and (path.name in ("run.json", "owner.json") or path.name.startswith("c."))
    ] + [root(intact).relative_to(intact)] * 20
    refused = 0
    for _ in range(50):
        run = tmp_path / "run"
        shutil.copytree(intact, run)
        file = run / random_bytes.choice(files)
        content = bytearray(file.read_bytes())
        for _ in range(random_bytes.choice([1, 3, 20])):
            content[random_bytes.randrange(len(content))] = random_bytes.randrange(256)
        file.write_bytes(content)
        try:
            opened = open_run(run)
            for name in opened.quantities:
                opened[name]
                opened.read(name, columns=1)
        except RunError:
            refused += 1
        shutil.rmtree(run)
    assert refused > 10
