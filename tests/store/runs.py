"""Small runs for the tests of the store."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from depthscope.quantities import DepthLayout
from depthscope.store import ArraySpec, RunWriter, StreamSpec

LAYERS = 4
MakeWriter = Callable[..., RunWriter]


def outline(layers: int = LAYERS, **changes: Any) -> DepthLayout:
    """A PreNorm outline, with three sources so that slow arrays have something to label."""
    known: dict[str, Any] = {
        "design": "prenorm",
        "layer_names": tuple(f"layers.{i}" for i in range(layers)),
        "layer_kinds": tuple(("attention", "mlp")[i % 2] for i in range(layers)),
        "transformer_block": tuple(i // 2 + 1 for i in range(layers)),
        "residual_block": (0,) * layers,
        "additive": (True,) * layers,
        "reads": (True,) * layers,
        "states": (True,) * layers,
        "fresh": (True,) * layers,
        "source_names": ("embedding", "block 1", "block 2"),
        "sources": ((0,),) * (layers + 1),
        "partial": (-1,) * (layers + 1),
    }
    return DepthLayout(**{**known, **changes})


def fast(chunk_rows: int = 16) -> StreamSpec:
    return StreamSpec(
        name="fast",
        arrays=[
            ArraySpec(name="write_rms", dims=("layer",), shape=(LAYERS,)),
            ArraySpec(name="grad_write_rms", dims=("layer",), shape=(LAYERS,)),
            ArraySpec(name="loss"),
            ArraySpec(name="tokens", dtype="f8"),
        ],
        chunk_rows=chunk_rows,
        every=1,
    )


def slow(chunk_rows: int = 16) -> StreamSpec:
    return StreamSpec(
        name="slow",
        arrays=[
            ArraySpec(name="depth_attention", dims=("target", "source"), shape=(LAYERS + 1, 3), dtype="f2")
        ],
        chunk_rows=chunk_rows,
        every=10,
    )


def write_with_a_past(path: Path) -> Path:
    """Write steps 0 to 99, rewound once from step 50 to 30, of which a full disk did not take 40 to 44."""

    def refuse(*given: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with RunWriter.create(
        path, name=path.name, config={}, layout=outline(), streams=[fast()], fsync=False
    ) as writer:

        def write(*steps: int) -> None:
            for step in steps:
                writer.append("fast", step, {"loss": step})

        write(*range(51))
        writer.rewind(30)
        write(*range(30, 40))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("depthscope.store.segment.os.writev", refuse)
            write(*range(40, 45))
        write(*range(45, 100))
    return path
