"""Synthetic runs of any size with every usual quantity, written through the store: nothing is trained."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt

from depthscope.quantities import QUANTITIES, DepthLayout, Quantity, reachable
from depthscope.store import ArraySpec, Coordinate, RunWriter, StreamSpec

Values = npt.NDArray[np.float64]


def block_attnres(layers: int, block: int) -> DepthLayout:
    """Describe Block AttnRes of `layers` sublayers, `block` sublayers a residual block, its reads taken apart."""
    sources, partial = [], []
    for target in range(layers + 1):
        done, inside = divmod(min(target, layers), block)
        sources.append(tuple(range(done + (2 if inside else 1))))
        partial.append(done + 1 if inside else -1)
    return DepthLayout(
        design=f"block-attnres:S={block}",
        layer_names=tuple(f"{i + 1} {'MLP' if i % 2 else 'attention'}" for i in range(layers)),
        layer_kinds=tuple("mlp" if i % 2 else "attention" for i in range(layers)),
        transformer_block=tuple(i // 2 + 1 for i in range(layers)),
        residual_block=tuple(i // block + 1 for i in range(layers)),
        additive=(False,) * layers,
        reads=(True,) * layers,
        states=(True,) * layers,
        fresh=(True,) * layers,
        source_names=("embedding", *(f"block {i + 1}" for i in range(layers // block))),
        sources=tuple(sources),
        partial=tuple(partial),
        mixing=(True,) * (layers + 1),
    )


def write_run(path: Path, *, layers: int, block: int, steps: int, every_slow: int = 10) -> Path:
    """Write a finished run with a fast row at each of `steps` steps and a slow one at every `every_slow`-th."""
    layout = block_attnres(layers, block)
    generator = np.random.default_rng(0)
    streams = {name: _recorded(layout, name) for name in ("fast", "slow")}
    masks = {q.name: np.asarray(reachable(q, layout)) for q in (*streams["fast"], *streams["slow"]) if q.dims}
    with RunWriter.create(
        path,
        name=path.name,
        config={"kind": "AttnRes block", "steps": steps, "tokens_per_step": 4096},
        layout=layout,
        streams=[
            StreamSpec(name="fast", arrays=[_array(q, masks) for q in streams["fast"]], every=1),
            StreamSpec(
                name="slow",
                arrays=[_array(q, masks) for q in streams["slow"]],
                coordinates=[
                    Coordinate(name="target", dim="target", values=range(1, layers + 2)),
                    Coordinate(name="target_name", dim="target", values=layout.target_names),
                    Coordinate(name="source_name", dim="source", values=layout.source_names),
                    Coordinate(name="origin_name", dim="origin", values=layout.origin_names),
                ],
                every=every_slow,
            ),
            StreamSpec(name="evaluation", arrays=[ArraySpec(name="validation")]),
        ],
        fsync=False,
    ) as writer:
        for step in range(steps):
            grown = 1 + step / steps
            _append(writer, "fast", step, {q.name: _row(q, masks, grown, generator) for q in streams["fast"]})
            if step % every_slow == 0:
                row = {q.name: _row(q, masks, grown, generator) for q in streams["slow"]}
                _append(writer, "slow", step, row)
                _append(writer, "evaluation", step, {"validation": np.float64(5 / grown)})
    return path


def _append(writer: RunWriter, stream: str, step: int, row: Mapping[str, Values]) -> None:
    if not writer.append(stream, step, row):
        raise RuntimeError(f"a row of {stream} at step {step} was not accepted")


def _recorded(layout: DepthLayout, stream: str) -> list[Quantity]:
    """Return what a recorder with the default probes keeps of such a design, and the losses and times of its loop."""
    scalars = ("loss", "tokens", "step_seconds", "recording_seconds", "embedding_rms")
    return [
        entry
        for entry in QUANTITIES.values()
        if entry.stream == stream
        and not entry.derived
        and (np.asarray(reachable(entry, layout)).any() if entry.dims else entry.name in scalars)
    ]


def _array(entry: Quantity, masks: Mapping[str, npt.NDArray[np.bool_]]) -> ArraySpec:
    dtype = "f2" if entry.reach == "source" and entry.units == "1" else "f4" if entry.dims else "f8"
    shape = masks[entry.name].shape if entry.dims else ()
    return ArraySpec(
        name=entry.name, dims=entry.dims, shape=shape, dtype=dtype, attributes=entry.attributes()
    )


def _row(
    entry: Quantity,
    masks: Mapping[str, npt.NDArray[np.bool_]],
    grown: float,
    generator: np.random.Generator,
) -> Values:
    """Return values that grow over training and over depth, with noise, so that nothing compresses well."""
    if not entry.dims:
        return np.float64({"tokens": 4096e4 * grown, "loss": 5 / grown}.get(entry.name, 0.01 * grown))
    mask = masks[entry.name]
    noise = generator.uniform(0.9, 1.1, mask.shape)
    if entry.reach in ("source", "mixing_origin") and entry.units == "1":
        weights = np.where(mask, noise, 0)
        weights[:, 0] *= grown
        return np.asarray(np.where(mask, weights / weights.sum(axis=-1, keepdims=True), np.nan))
    if entry.name == "nonfinite":
        return np.zeros(mask.shape)
    if entry.name == "mixing_cancellation":
        return np.asarray(noise + 1)
    if entry.units == "1":
        return np.asarray(np.where(mask, noise / (1 + grown), np.nan))
    depth = np.arange(1, mask.shape[0] + 1).reshape(-1, *(1,) * (mask.ndim - 1))
    size = np.where(mask, grown * np.sqrt(depth) * noise, np.nan)
    return np.log(size) if entry.units.startswith("log(") else size
