"""Where an exported figure comes from: runs, steps, definitions, versions and the command, as JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np
import xarray as xr

from depthscope.figures import Panel, ReadableRun
from depthscope.quantities import QUANTITIES

_PACKAGES = ("depthscope", "matplotlib", "numpy", "plotly", "xarray", "zarr")


def provenance(
    *,
    figure: str,
    file: str,
    width: float,
    command: str,
    caption: str,
    panels: Mapping[str, Panel],
    runs: Sequence[ReadableRun],
    drawing: Mapping[str, Any],
) -> bytes:
    """Return the provenance of a figure as indented JSON."""
    told = {
        "figure": figure,
        "file": file,
        "width_inches": width,
        "command": command,
        "caption": caption,
        "drawing": dict(drawing),
        "panels": {name: _panel(panel) for name, panel in panels.items()},
        "runs": [_run(run) for run in runs],
        "versions": versions(),
    }
    return (json.dumps(_finite(told), indent=2, ensure_ascii=False, allow_nan=False) + "\n").encode()


def versions() -> dict[str, str]:
    """Return the versions of what reads, reduces and draws."""
    found = {}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found


def _panel(panel: Panel) -> dict[str, Any]:
    data = panel.data
    entry = QUANTITIES.get(str(data.attributes["quantity"]))
    definition: dict[str, Any] = {} if entry is None else {"quantity": entry.name, **entry.attributes()}
    return {
        "data": panel.figure,
        "options": asdict(panel.options),
        "definition": definition or {"quantity": data.attributes["quantity"]},
        "rows": {run: _rows(array) for run, array in data.arrays.items()},
        "left_out": dict(data.absent),
    }


def _rows(array: xr.DataArray) -> dict[str, Any]:
    """Return which recorded rows an array shows, and whether they are means over several."""
    if "sweep" in array.attrs:
        told = {name: array.attrs[name] for name in ("sweep", "mode", "record_step")}
        return {**told, "steps": [array.attrs["sweep_step"]], "level": "means over batches"}
    if "step_start" in array.coords:
        start, end = array["step_start"].values, array["step_end"].values
        binned = bool((start != end).any())
        return {
            "steps": [int(start[0]), int(end[-1])],
            "columns": int(start.size),
            "level": "means over bins of rows" if binned else "every row",
        }
    if "step" not in array.coords:
        return {"steps": [], "level": "the last tenth of records"}
    steps = [int(step) for step in np.atleast_1d(array["step"].values)]
    if "point" in array.dims:
        return {"steps": [steps[0], steps[-1]], "points": len(steps)}
    return {"steps": steps, "level": "every row"}


def _run(run: ReadableRun) -> dict[str, Any]:
    return {
        "id": run.id,
        "name": run.name,
        "design": run.layout.design,
        "created": getattr(run, "created", None),
        "last_step": run.last_step,
        "layers": run.layout.layers,
        "residual_block": list(run.layout.residual_block),
        "seed": run.config.get("seed"),
        "configuration": dict(run.config),
        "versions": dict(getattr(run, "versions", {})),
    }


def _finite(value: Any) -> Any:
    """Return `value` as JSON has it: what is no finite number or known kind becomes a text."""
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(key): _finite(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_finite(entry) for entry in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if value is None or isinstance(value, str | int | float | bool) else str(value)
