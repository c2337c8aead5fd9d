"""Runs of every kind that figures are exported from, with values known in advance."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from depthscope.store import ArraySpec, Coordinate, Run, RunWriter, StreamSpec, open_run
from tests.analysis.sweeps import write_lens, write_sweep
from tests.figures.mixing_runs import mixing_outline, record_mixing
from tests.figures.origin_runs import record_origins
from tests.figures.runs import LAYER_ARRAYS, outline, record, rows

BLOCKS = 4
ENERGIES = {
    "outer_energy": 4.0,
    "outer_carry_energy": 1.0,
    "outer_write_energy": 3.0,
    "outer_write_ratio": 1.5,
}


def record_wide(path: Path) -> Path:
    """Write a run with a wide state of four blocks: block b's values are those of `ENERGIES` times b."""
    layout = outline(8, 2)
    layout = type(layout)(
        **{**layout.to_json(), "design": "hires:n=2,B=4", "outer_blocks": BLOCKS, "outer_width": 16}
    )
    by_block = [ArraySpec(name=name, dims=("block",), shape=(BLOCKS,)) for name in ENERGIES]
    gates = ArraySpec(name="interface_gate", dims=("block", "side"), shape=(BLOCKS, 2))
    places = [Coordinate(name="block", dim="block", values=range(1, BLOCKS + 1))]
    fast = [ArraySpec(name=name, dims=("layer",), shape=(8,)) for name in LAYER_ARRAYS]
    with RunWriter.create(
        path,
        name=path.name,
        config={"kind": "HiRes", "seed": 3},
        layout=layout,
        streams=[
            StreamSpec(
                name="fast", arrays=[*fast, ArraySpec(name="loss"), ArraySpec(name="tokens")], every=10
            ),
            StreamSpec(name="slow", arrays=[*by_block, gates], coordinates=places, every=10),
        ],
        fsync=False,
    ) as writer:
        for step in (0, 10, 20):
            row = {
                name: value
                for name, value in rows(step, 8).items()
                if name in (*LAYER_ARRAYS, "loss", "tokens")
            }
            writer.append("fast", step, row)
            block = np.arange(1, BLOCKS + 1)
            gate = np.full((BLOCKS, 2), 0.1 + step / 100)
            writer.append(
                "slow", step, {**{k: v * block for k, v in ENERGIES.items()}, "interface_gate": gate}
            )
    return path


@pytest.fixture(scope="session")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the runs prenorm, block, attention, wide and apart, 8 sublayers each; treat it as read only."""
    folder = tmp_path_factory.mktemp("recorded")
    record(folder / "prenorm", arrays=(*LAYER_ARRAYS, "read_rms"), config={"seed": 1}, changes=_reads())
    record(folder / "block", block=2, scale=1.5, arrays=(*LAYER_ARRAYS, "read_rms"), changes=_reads())
    record_mixing(folder / "attention", block=2)
    _cut(folder / "attention")
    record_wide(folder / "wide")
    record_origins(folder / "apart", design="hires", block=4)
    return folder


def _cut(run: Path) -> None:
    """Write a sweep of two batches: a hundredth of target less source in nats, a tenth more in the second."""
    layout = mixing_outline(8, 2)
    change = np.full((9, 5, 2), np.nan)
    for target, columns in enumerate(layout.sources):
        for source in columns if len(columns) > 1 else ():
            change[target, source] = (target + 1 - source) / 100 * np.array([1.0, 1.1])
    write_lens(run, "lens-200", 200, layout)
    write_sweep(run, "sources-200", 200, change, layout=layout, mode="renormalise", note="They agree.")


def _reads() -> dict[int, dict[str, np.ndarray]]:
    return {step: {"read_rms": np.arange(1.0, 9)} for step in range(0, 301, 10)}


@pytest.fixture(scope="session")
def runs(recorded: Path) -> dict[str, Run]:
    return {name: open_run(recorded / name) for name in ("prenorm", "block", "attention", "wide", "apart")}
