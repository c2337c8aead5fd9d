"""Small runs with depth attention or a wide state, their values known in advance: weight(step, n) below."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from depthscope.quantities import DepthLayout
from depthscope.store import ArraySpec, Coordinate, RunWriter, StreamSpec
from tests.figures.runs import outline, rows

STEPS = tuple(range(0, 301, 10))
MAPS = ("depth_attention", "depth_contribution", "depth_attention_std")


def weight(step: int, sources: int) -> npt.NDArray[np.float64]:
    """The weights of a target: uniform at step 0, the embedding's grows, (1 + s) : 1 : ... : 1 with s = step/100."""
    parts = np.ones(sources)
    parts[0] += step / 100
    return np.asarray(parts / parts.sum())


def contribution(step: int, sources: int) -> npt.NDArray[np.float64]:
    """The weights with 0.2 moved from the embedding to the newest source."""
    share = weight(step, sources)
    if sources > 1:
        share[[0, -1]] += [-0.2, 0.2]
    return share


def mixing_outline(layers: int = 8, block: int = 0) -> DepthLayout:
    """Describe Full AttnRes, or Block AttnRes with `block` sublayers a block."""
    layout = outline(layers, block)
    sources, partial = [], []
    for target in range(layers + 1):
        if not block:
            sources.append(tuple(range(target + 1)))
            partial.append(-1)
            continue
        done, inside = divmod(min(target, layers), block)
        sources.append(tuple(range(done + (2 if inside else 1))))
        partial.append(done + 1 if inside else -1)
    kind, count = ("block", layers // block) if block else ("sublayer", layers)
    return replace(
        layout,
        design=f"block-attnres:S={block}" if block else "full-attnres",
        layer_names=tuple(f"{i + 1} {'MLP' if i % 2 else 'attention'}" for i in range(layers)),
        source_names=("embedding", *(f"{kind} {i + 1}" for i in range(count))),
        sources=tuple(sources),
        partial=tuple(partial),
        additive=(False,) * layers,
    )


def record_mixing(
    path: Path,
    *,
    layers: int = 8,
    block: int = 0,
    steps: Sequence[int] = STEPS,
    arrays: Sequence[str] = MAPS,
    name: str | None = None,
) -> Path:
    """Write a finished run with depth attention."""
    layout = mixing_outline(layers, block)
    shape = (layers + 1, len(layout.source_names))
    writer = RunWriter.create(
        path,
        name=name or path.name,
        config={"kind": "AttnRes", "steps": 300},
        layout=layout,
        streams=[
            StreamSpec(
                name="fast",
                arrays=[
                    *(ArraySpec(name=array, dims=("layer",), shape=(layers,)) for array in _LAYER_ARRAYS),
                    ArraySpec(name="loss"),
                    ArraySpec(name="tokens", dtype="f8"),
                ],
                every=10,
            ),
            StreamSpec(
                name="slow",
                arrays=[
                    *(ArraySpec(name=array, dims=("target", "source"), shape=shape) for array in arrays),
                    ArraySpec(name="depth_attention_entropy", dims=("target",), shape=shape[:1]),
                ],
                coordinates=[
                    Coordinate(name="target", dim="target", values=list(range(1, layers + 2))),
                    Coordinate(name="target_name", dim="target", values=layout.target_names),
                    Coordinate(name="source_name", dim="source", values=layout.source_names),
                ],
                every=10,
            ),
        ],
        fsync=False,
    )
    for step in steps:
        row = rows(step, layers)
        assert writer.append("fast", step, {key: row[key] for key in (*_LAYER_ARRAYS, "loss", "tokens")})
        assert writer.append("slow", step, _mixing_row(layout, step, arrays))
    writer.close()
    return path


_LAYER_ARRAYS = ("state_rms", "state_logrms", "grad_write_rms")


def _mixing_row(layout: DepthLayout, step: int, arrays: Sequence[str]) -> dict[str, npt.NDArray[np.float64]]:
    shape = (len(layout.sources), len(layout.source_names))
    maps = {name: np.full(shape, np.nan) for name in arrays}
    entropy = np.full(shape[0], np.nan)
    for target, columns in enumerate(layout.sources):
        share = weight(step, len(columns))
        values = {
            "depth_attention": share,
            "depth_contribution": contribution(step, len(columns)),
            "depth_attention_std": share / 10,
        }
        for name in arrays:
            maps[name][target, list(columns)] = values[name]
        if len(columns) > 1:
            entropy[target] = -(share * np.log(share)).sum() / np.log(len(columns))
    return {**maps, "depth_attention_entropy": entropy}


GATE = 0.1


def energy(step: int, blocks: int) -> npt.NDArray[np.float64]:
    """The outer energy that `record_outer` writes: it grows with the block and the step."""
    return np.arange(1, blocks + 1) * (1 + step / 100)


def record_outer(
    path: Path,
    *,
    blocks: int = 4,
    steps: Sequence[int] = STEPS,
    losses: Sequence[int] = (),
    gated: bool = True,
    name: str | None = None,
) -> Path:
    """Write a finished run with a wide state: carry 1, write the energy less 1, gates that fall from 0.1.

    `losses` are steps of a fast stream with a loss alone, so that the run may be newer than its outer state.
    """
    layout = replace(outline(2 * blocks, 2), design="hires:n=2", outer_blocks=blocks, outer_width=32)
    by_block = ("outer_energy", "outer_carry_energy", "outer_write_energy")
    gates = [ArraySpec(name="interface_gate", dims=("block", "side"), shape=(blocks, 2))] if gated else []
    writer = RunWriter.create(
        path,
        name=name or path.name,
        config={"kind": "HiRes", "steps": 300},
        layout=layout,
        streams=[
            StreamSpec(
                name="slow",
                arrays=[
                    *(ArraySpec(name=array, dims=("block",), shape=(blocks,)) for array in by_block),
                    *gates,
                    ArraySpec(name="outer_direct"),
                ],
                every=10,
            ),
            *([StreamSpec(name="fast", arrays=[ArraySpec(name="loss")])] if losses else []),
        ],
        fsync=False,
    )
    for step in steps:
        size = energy(step, blocks)
        values = {
            "outer_energy": size,
            "outer_carry_energy": np.ones(blocks),
            "outer_write_energy": size - 1,
            "outer_direct": np.float64(0.1 / (1 + step / 100)),
        }
        if gated:
            values["interface_gate"] = np.full((blocks, 2), GATE) - [[step / 1e4, 0.0]]
        assert writer.append("slow", step, values)
    for step in losses:
        assert writer.append("fast", step, {"loss": np.float64(1.0)})
    writer.close()
    return path
