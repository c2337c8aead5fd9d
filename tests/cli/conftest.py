"""The program as a user types it: a real process, and a folder with two small runs."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import depthscope
from depthscope.quantities import QUANTITIES, DepthLayout
from depthscope.store import ArraySpec, RunWriter, StreamSpec

ROOT = Path(depthscope.__file__).parents[1]
LAYERS = 6


@dataclass(frozen=True, kw_only=True)
class Typed:
    """What a command line gave."""

    code: int
    out: str
    err: str


Type = Callable[..., Typed]


def environment() -> dict[str, str]:
    """The test's environment with the project importable, and nothing that changes how output is written."""
    dropped = ("COLUMNS", "FORCE_COLOR", "PYTHONUNBUFFERED", "DEPTHSCOPE_TRACEBACK")
    kept = {key: value for key, value in os.environ.items() if key not in dropped}
    return {**kept, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "error"}


@pytest.fixture
def typed(tmp_path: Path) -> Type:
    """Return a function that runs `depthscope WORDS...` in a folder (default: an empty one)."""

    def run(*words: str | Path, cwd: Path | None = None, **more: str) -> Typed:
        found = subprocess.run(
            [sys.executable, "-m", "depthscope", *map(str, words)],
            cwd=cwd or tmp_path,
            env={**environment(), **more},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert "Traceback" not in found.stderr, found.stderr
        return Typed(code=found.returncode, out=found.stdout, err=found.stderr)

    return run


def small_layout(design: str) -> DepthLayout:
    return DepthLayout(
        design=design,
        layer_names=tuple(f"layers.{index}" for index in range(LAYERS)),
        layer_kinds=("attention", "mlp") * (LAYERS // 2),
        transformer_block=(1, 1, 2, 2, 3, 3),
        residual_block=(0,) * LAYERS,
        additive=(True,) * LAYERS,
        reads=(True,) * LAYERS,
        states=(True,) * LAYERS,
        fresh=(True,) * LAYERS,
    )


def write_small(path: Path, *, records: int = 3, growth: float = 1.0) -> Path:
    """Write a run whose state rms at step s is (1 + s / 10) * l ** growth for sublayer l."""
    layer = np.arange(1, LAYERS + 1)
    names = ("state_rms", "write_rms", "fresh_share")
    fast = [ArraySpec(name=name, dims=QUANTITIES[name].dims, shape=(LAYERS,)) for name in names]
    streams = [
        StreamSpec(name="fast", arrays=[*fast, ArraySpec(name="loss")]),
        StreamSpec(name="evaluation", arrays=[ArraySpec(name="validation")]),
    ]
    with RunWriter.create(
        path,
        name=path.name,
        config={"kind": "PreNorm", "steps": 300, "model": {"width": 64}},
        layout=small_layout("prenorm"),
        streams=streams,
        fsync=False,
    ) as writer:
        writer.annotate("missing", {"depth_attention": "the design has no depth attention"})
        for record in range(records):
            state = (1 + record) * layer.astype(float) ** growth
            row = {
                "state_rms": state,
                "write_rms": np.ones(LAYERS),
                "fresh_share": 1 / layer,
                "loss": 3.0 - record,
            }
            writer.append("fast", 10 * record, row)
        if records:
            writer.append("evaluation", 20, {"validation": 2.5})
    return path


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the runs `flat` and `steep`; treat it as read only."""
    folder = tmp_path_factory.mktemp("recorded")
    write_small(folder / "flat")
    write_small(folder / "steep", growth=2.0)
    return folder
