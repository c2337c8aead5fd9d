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
