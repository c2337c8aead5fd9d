"""What a run costs on disk and to open: hand-over, size and reading from ten thousand to a million rows, and peers.

    python benchmarks/store.py [--rows 10000 100000 1000000] [--folder DIR] [--peers SITE_PACKAGES]

Growth is measured with 2 quantities of 256 sublayers and scaled to 20; a million rows take 2.1 GB in `--folder` while
it runs. Rows go in as fast as the disk takes them, but for the hand-over, which is paced like a training loop.
Reading is timed in a process of its own: the first time, the best of 10, and the best processor time of 10, which
says what a machine shared with other work would take when idle.

Peers are measured where they are installed, here or in the site-packages given (so that the project's own
environment stays as it is):

    python3.11 -m venv peers && peers/bin/pip install tensorboard wandb
    python benchmarks/store.py --peers peers/lib/python3.11/site-packages
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import zarr

from depthscope.quantities import DepthLayout
from depthscope.store import ArraySpec, RunWriter, StreamSpec, find_runs, open_run

LAYERS, QUANTITIES, COLUMNS = 256, 20, 1500
_BLOCK = 4096


def layout() -> DepthLayout:
    return DepthLayout(
        design="prenorm",
        layer_names=tuple(f"layers.{i}" for i in range(LAYERS)),
        layer_kinds=("attention", "mlp") * (LAYERS // 2),
        transformer_block=tuple(i // 2 + 1 for i in range(LAYERS)),
        residual_block=(0,) * LAYERS,
        additive=(True,) * LAYERS,
        reads=(True,) * LAYERS,
        states=(True,) * LAYERS,
        fresh=(True,) * LAYERS,
        source_names=("embedding",),
        sources=((0,),) * (LAYERS + 1),
        partial=(-1,) * (LAYERS + 1),
    )


def names(count: int) -> list[str]:
    return ["write_rms", "grad_write_rms", *(f"quantity_{i}" for i in range(2, count))]


def writer(path: Path, count: int, **changes: Any) -> RunWriter:
    arrays = [ArraySpec(name=name, dims=("layer",), shape=(LAYERS,)) for name in names(count)]
    return RunWriter.create(
        path,
        name="benchmark",
        config={},
        layout=layout(),
        streams=[StreamSpec(name="fast", arrays=[*arrays, ArraySpec(name="loss")])],
        **changes,
    )


def noise(rows: int, count: int) -> npt.NDArray[np.float32]:
    """Values that grow tenfold over depth, with 10 % noise: their mantissas do not compress."""
    random = np.random.default_rng(0)
    values = random.lognormal(0, 0.1, (rows, count, LAYERS)) * np.linspace(1, 10, LAYERS)
    return values.astype(np.float32)


def rows_of(count: int, rows: int) -> Iterator[dict[str, Any]]:
    block, known = noise(min(rows, _BLOCK * 2 // count), count), names(count)
    for row in range(rows):
        yield {"loss": 1 / (row + 1), **dict(zip(known, block[row * 7919 % len(block)], strict=True))}


def percentiles(seconds: list[float]) -> str:
    median, high = np.percentile(np.array(seconds) * 1e6, [50, 99])
    return f"median {median:.0f} us, p99 {high:.0f} us"


def hand_over(folder: Path, rows: int, pause: float) -> None:
    """Time `append` of 5,120 values a row, resting in between as training rests in the device's queue.

    Beside it the least that any log of such rows could do: their bytes gathered, a checksum, one system call.
    """
    ours, least, processor = [], [], []
    log = os.open(folder / "plain.log", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    plain = np.zeros((1024, QUANTITIES, LAYERS), np.float32)
    with writer(folder / "run", QUANTITIES) as run:
        for step, row in enumerate(rows_of(QUANTITIES, rows)):
            used, before = time.thread_time(), time.perf_counter()
            accepted = run.append("fast", step, row)
            ours.append(time.perf_counter() - before)
            processor.append(time.thread_time() - used)  # outside: asking for it takes two microseconds
            assert accepted
            time.sleep(pause)
        for step, row in enumerate(rows_of(QUANTITIES, rows)):
            before = time.perf_counter()
            place = plain[step % len(plain)]
            for value, name in zip(place, names(QUANTITIES), strict=True):
                value[...] = row[name]
            os.writev(log, [zlib.crc32(place.data).to_bytes(4), place.data])
            least.append(time.perf_counter() - before)
            time.sleep(pause)
    os.close(log)
    shutil.rmtree(folder / "run")
    print(
        f"hand-over of {QUANTITIES} x {LAYERS} values, {rows} rows {1e3 * pause:.0f} ms apart, "
        f"{rows // 1024} full flushes: {percentiles(ours)}; of the caller's processor time {percentiles(processor)}; "
        f"copy, checksum and write alone {percentiles(least)}",
        flush=True,
    )


def record(path: Path, rows: int) -> float:
    started = time.perf_counter()
    with writer(path, 2) as run:
        for step, row in enumerate(rows_of(2, rows)):
            while not run.append("fast", step, row):  # the disk is behind: a training loop never is so fast
                time.sleep(0.01)
    return time.perf_counter() - started


def size(path: Path, pattern: str = "*") -> tuple[int, int]:
    """Return the bytes and the number of the files below a folder."""
    sizes = [file.stat().st_size for file in path.rglob(pattern) if file.is_file()]
    return sum(sizes), len(sizes)


def millis(action: Callable[[], Any]) -> tuple[float, ...]:
    """Return milliseconds: the first call, the shortest of 10, and the least processor time of 10."""
    wall, processor = [], []
    for _ in range(10):
        started, used = time.perf_counter(), time.process_time()
        action()
        processor.append(1e3 * (time.process_time() - used))
        wall.append(1e3 * (time.perf_counter() - started))
    return wall[0], min(wall), min(processor)


def read(path: Path) -> dict[str, tuple[float, ...]]:
    """Time the reads of a viewer; to be called in a fresh process."""
    import resource

    import xarray  # noqa: F401  its import is not part of the first read

    from depthscope.app.timeline import segments

    opened = millis(lambda: open_run(path))
    run = open_run(path)
    times = {
        "open": opened,
        "map, 256 layers": millis(lambda: run.read("write_rms", columns=COLUMNS)),
        "map of a derived quantity": millis(lambda: run.read("grad_relative", columns=COLUMNS)),
        "one layer's series": millis(lambda: run.read("write_rms", layers=[7], columns=COLUMNS)),
        "loss": millis(lambda: run.read("loss", columns=750)),
        "the newest row": millis(lambda: run.read("write_rms", start=run.last_step)),
        "find_runs": millis(lambda: find_runs(path.parent)),
        "version": millis(run.version),
        "step bar": millis(lambda: segments(run.steps("fast"))),
    }
    return {**times, "memory": (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3,)}


def growth(folder: Path, counts: list[int]) -> None:
    found = {}
    for rows in counts:
        path = folder / "runs" / "run"
        seconds = record(path, rows)
        store = path / "rank00000" / "data.zarr"
        (whole, files), (level, level_files) = size(path), size(store / "pyramid")
        arrays, array_files = size(store / "fast" / "write_rms")
        level_array, level_array_files = size(store / "pyramid" / "fast", "write_rms/*")
        # 18 more quantities, each with its levels; labels, scalars and derived levels are there once.
        more = QUANTITIES - 2
        full = whole + more * (arrays + level_array), files + more * (array_files + level_array_files)
        os.sync()  # what the disk still has to write is not the reader's cost
        child = [sys.executable, __file__, "--read", str(path)]
        found[rows] = json.loads(subprocess.run(child, check=True, capture_output=True, text=True).stdout)
        print(
            f"{rows:>9} rows x 2 x {LAYERS}: {1e6 * seconds / rows:.0f} us a row, {whole / 1e6:.0f} MB in {files} files; "
            f"rows {arrays / rows / LAYERS:.2f} bytes a value, bins {level / 1e6:.0f} MB in {level_files} files; "
            f"scaled to {QUANTITIES} quantities {full[0] / 1e9:.2f} GB in {full[1]} files",
            flush=True,
        )
        shutil.rmtree(path.parent)
    print(f"\n{'ms: first, best, processor':<28}" + "".join(f"{rows:>18}" for rows in counts))
    for name in found[counts[0]]:
        unit = "{:>18}"
        cells = [
            f"{values[name][0]:.0f} MB"
            if name == "memory"
            else " ".join(f"{value:.1f}" for value in values[name])
            for values in found.values()
        ]
        print(f"{name:<28}" + "".join(unit.format(cell) for cell in cells))


def tensorboard(folder: Path, count: int, rows: int = 20) -> str:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator  # type: ignore[import-not-found, unused-ignore]
    from torch.utils.tensorboard import SummaryWriter

    started = time.perf_counter()
    with SummaryWriter(str(folder)) as board:
        for step, row in enumerate(rows_of(count, rows)):
            for name in names(count):
                for layer, value in enumerate(row[name]):
                    board.add_scalar(f"{name}/{layer}", value, step)
    written = (time.perf_counter() - started) / rows
    started = time.perf_counter()
    events = EventAccumulator(str(folder), size_guidance={"scalars": 0})
    events.Reload()
    shown = np.array([[event.value for event in events.Scalars(f"write_rms/{i}")] for i in range(LAYERS)])
    assert shown.shape == (LAYERS, rows)
    opened = (time.perf_counter() - started) / rows
    return (
        f"{1e6 * written:.0f} us a row, {size(folder)[0] / rows / LAYERS / count:.0f} bytes a value, "
        f"map {1e3 * opened:.1f} ms for each row recorded"
    )


def wandb(folder: Path, count: int, rows: int = 50) -> str:
    os.environ["WANDB_SILENT"] = "true"
    import wandb as client  # type: ignore[import-not-found, unused-ignore]

    run = client.init(mode="offline", dir=str(folder), project="benchmark")
    started = time.perf_counter()
    for row in rows_of(count, rows):
        run.log({f"{name}/{i}": float(value) for name in names(count) for i, value in enumerate(row[name])})
    written = (time.perf_counter() - started) / rows
    run.finish()
    return (
        f"{1e6 * written:.0f} us a row, {size(folder)[0] / rows / LAYERS / count:.0f} bytes a value; "
        "not read without its server"
    )


def naive_zarr(folder: Path, count: int, rows: int = 50) -> str:
    group = zarr.open_group(folder / "plain.zarr", mode="w")
    arrays = {
        name: group.create_array(name, shape=(0, LAYERS), chunks=(1024, LAYERS), dtype="f4")
        for name in names(count)
    }
    started = time.perf_counter()
    for step, row in enumerate(rows_of(count, rows)):
        for name, array in arrays.items():
            array.resize((step + 1, LAYERS))
            array[step] = row[name]
    return f"{1e6 * (time.perf_counter() - started) / rows:.0f} us a row; live readers see arrays of unequal length"


def ours(folder: Path, count: int, rows: int = 2048) -> str:
    """Write as fast as the disk takes it, commits and bins included, and read the map."""
    started = time.perf_counter()
    with writer(folder / "run", count) as run:
        for step, row in enumerate(rows_of(count, rows)):
            while not run.append("fast", step, row):
                time.sleep(0.01)
    written = (time.perf_counter() - started) / rows
    started = time.perf_counter()
    shown = open_run(folder / "run").read("write_rms")
    assert shown.shape == (rows, LAYERS)
    opened = (time.perf_counter() - started) / rows
    return (
        f"{1e6 * written:.0f} us a row, {size(folder)[0] / rows / LAYERS / count:.1f} bytes a value, "
        f"map {1e3 * opened:.3f} ms for each row recorded"
    )


def peers(folder: Path, count: int) -> None:
    print(f"\n{count} x {LAYERS} values a row", flush=True)
    tools = {
        "depthscope": ours,
        "SummaryWriter": tensorboard,
        "wandb offline": wandb,
        "zarr append": naive_zarr,
    }
    for name, tool in tools.items():
        place = folder / f"{name.replace(' ', '-')}-{count}"
        place.mkdir()
        try:
            print(f"  {name:<16}{tool(place, count)}", flush=True)
        except ImportError as error:
            print(f"  {name:<16}not installed ({error.name})")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--folder", type=Path, help="where to write; a temporary folder by default")
    parser.add_argument("--peers", type=Path, help="site-packages with tensorboard and wandb")
    parser.add_argument("--only-peers", action="store_true", help="leave hand-over and growth out")
    parser.add_argument("--read", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.read:
        print(json.dumps(read(options.read)))
        return
    if options.peers:
        sys.path.append(str(options.peers))
    folder = Path(tempfile.mkdtemp(prefix="depthscope-store-", dir=options.folder))
    load = os.getloadavg()[0]
    print(
        f"{os.cpu_count()} cores, load {load:.1f} at the start, Python {platform.python_version()}, ", end=""
    )
    print(f"numpy {np.__version__}, zarr {zarr.__version__}")
    try:
        if not options.only_peers:
            hand_over(folder, rows=1000, pause=0)  # caches stay warm, no flush
            hand_over(folder, rows=6000, pause=0.002)
            growth(folder, options.rows)
        for count in (2, QUANTITIES):
            peers(folder, count)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
