"""Sweeps of effects whose every number is known: written as `depthscope causal` writes them, without a model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from depthscope.quantities import DepthLayout
from depthscope.store import CellArray, CellStore, Coordinate, sweep_path


def write_sweep(
    run: Path,
    name: str,
    step: int | None,
    change: np.ndarray[Any, Any],
    *,
    layout: DepthLayout,
    mode: str = "zero",
    **attributes: Any,
) -> CellStore:
    """Write loss changes [target, source, batch], NaN where there is no pair; a row of NaN alone is not measured."""
    rows, columns, batches = change.shape
    store = CellStore.create(
        sweep_path(run, name),
        (
            CellArray(
                name="loss_change",
                dims=("target", "source", "batch"),
                shape=change.shape,
                chunk=(1, columns, 1),
            ),
            CellArray(
                name="exists",
                dims=("target", "source"),
                shape=(rows, columns),
                chunk=(rows, columns),
                dtype="i8",
            ),
        ),
        coordinates=(
            Coordinate(name="target", dim="target", values=range(1, rows + 1)),
            Coordinate(name="target_name", dim="target", values=layout.target_names),
            Coordinate(name="source_name", dim="source", values=layout.source_names),
        ),
        attributes={"kind": "sources", "mode": mode, "step": step, **attributes},
    )
    store.put("exists", (0, 0), np.isfinite(change[..., 0]).astype(np.int64))
    for row in range(rows):
        for batch in range(batches):
            store.put("loss_change", (row, 0, batch), change[row : row + 1, :, batch : batch + 1])
    return store


def write_lens(
    run: Path,
    name: str,
    step: int | None,
    layout: DepthLayout,
    *,
    batches: int = 2,
    attribution: bool = True,
    scale: float = 1.0,
) -> CellStore:
    """Write a lens: KL `scale` times sublayers left, a tenth more in each further batch; agreement, influence and CKA.

    Of tokens, two sequences of five: KL sublayers left + position / 10 + sequence, likeliest 100 depth + position.
    Agreement is the share of sublayers passed, influence block / 10, CKA 1 / (1 + distance); each part adds its place.
    """
    depth, blocks = layout.layers + 1, max(layout.transformer_block)
    parts = ("embedding", *layout.source_names[1:], "constant") if attribution else ()
    further = 1 + 0.1 * np.arange(batches)
    passed = np.arange(depth)
    values = {
        "lens_kl": scale * passed[::-1, None] * further,
        "lens_agreement": np.repeat(passed[:, None] / layout.layers, batches, axis=1),
        "block_influence": np.arange(1, blocks + 1)[:, None] / 10 * further,
        "cka": 1 / (1 + np.abs(passed[:, None] - passed)),
        "token_kl": passed[::-1, None, None] + np.arange(2)[:, None] + np.arange(5) / 10,
        "token_top": (100 * passed[:, None, None] + np.arange(5)).repeat(2, axis=1),
        **({"logit_attribution": np.arange(len(parts))[:, None] * further} if parts else {}),
    }
    over = {"block_influence": "transformer_block", "logit_attribution": "part", "cka": "depth"}
    store = CellStore.create(
        sweep_path(run, name),
        [
            CellArray(
                name=array,
                dims=("depth", "sequence", "position")
                if array.startswith("token_")
                else (over.get(array, "depth"), "other_depth" if array == "cka" else "batch"),
                shape=value.shape,
                chunk=value.shape,
                dtype="i8" if array == "token_top" else "f8",
            )
            for array, value in values.items()
        ],
        coordinates=[
            Coordinate(name="depth_name", dim="depth", values=("embedding", *layout.layer_names)),
            *([Coordinate(name="part_name", dim="part", values=parts)] if parts else []),
        ],
        attributes={
            "kind": "lens",
            "k": 5,
            "step": step,
            **({} if parts else {"no_attribution": "the logits have a soft cap"}),
        },
    )
    for array, value in values.items():
        store.put(array, (0,) * value.ndim, value)
    return store
