"""Outer state at one step, drawn by plotly: energies by block, or gates beside their initial values."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from depthscope.figures.labelled import Labelled
from depthscope.figures.look import Look, axis, frame
from depthscope.figures.names import plotly_text
from depthscope.figures.outer_marks import MARKS, block_ticks, marked_every
from depthscope.figures.ticks import round_ticks, short_number
from depthscope.figures.typed import typed, untyped

ENERGIES = {"energy": 2.0, "write": 1.0, "carry": 1.0}
"""Value to the width of its line in px."""
_MARK = 7.0
_SIDES = (("read", -0.12), ("write", 0.12))
_APART = 0.07


def outer_state_plotly(data: Labelled, *, look: Look, part: str = "energy") -> dict[str, Any]:
    """Return a plotly figure (as a dict) of `outer_state_data`.

    `part` is ``energy`` (before the norm, of the write, of what is carried; one line each) or ``gates`` (read and
    write, a tick where each began).
    """
    order = list(data.arrays)
    traces: list[dict[str, Any]] = []
    blocks = max((array.sizes["block"] for array in data.arrays.values()), default=1)
    for run, array in data.arrays.items():
        lines = _energies if part == "energy" else _gates
        traces += lines(run, array, look, order, plotly_text(data.names.get(run, run)))
    high = _highest(traces)
    ticks = round_ticks(0, high, 5)
    layout = frame(look, left=44, top=16, right=16, bottom=40)
    layout |= {
        "showlegend": look.host == "alone",
        "xaxis": axis(
            look, ticks=True, title="block", range=[0.5, blocks + 0.5], tickvals=block_ticks(blocks)
        ),
        "yaxis": axis(
            look,
            grid=True,
            range=[0, high],
            tickvals=ticks,
            ticktext=[short_number(tick) for tick in ticks],
        ),
        "meta": {
            "panel": "outer",
            "part": part,
            "steps": {run: int(array["step"].values) for run, array in data.arrays.items()},
            "first": {run: int(array["first_step"].values) for run, array in data.arrays.items()},
        },
    }
    return {"data": traces, "layout": layout}


def _energies(run: str, array: xr.DataArray, look: Look, order: list[str], name: str) -> list[dict[str, Any]]:
    colour = look.colour(run, order)
    return [
        {
            "type": "scatter",
            "mode": "lines+markers",
            "name": f"{name}, {MARKS[value].words}",
            "x": typed(np.asarray(array["block"].values, dtype=np.float64)),
            "y": typed(np.asarray(array.sel(value=value).values, dtype=np.float64)),
            "line": {"color": colour, "width": width, "dash": look.dash(run, order)},
            "marker": {**_marker(value, colour, look), "size": _sizes(array)},
            "hoverinfo": "none" if look.host == "page" else "x+y+name",
            "meta": {"run": run, "role": value},
        }
        for value, width in ENERGIES.items()
    ]


def _marker(value: str, colour: str, look: Look) -> dict[str, Any]:
    mark = MARKS[value]
    return {
        "symbol": mark.plotly,
        "opacity": 1,  # plotly fades marks of several sizes
        "color": colour if mark.filled else look.theme["surface"],
        "line": {"color": colour, "width": 1.5},
    }


def _sizes(array: xr.DataArray) -> list[float]:
    """Give a mark to every block, or to some of many; a mark of size 0 can still be hovered."""
    blocks = array.sizes["block"]
    return [_MARK if block % marked_every(blocks) == 0 else 0.0 for block in range(blocks)]


def _gates(run: str, array: xr.DataArray, look: Look, order: list[str], name: str) -> list[dict[str, Any]]:
    """Draw each gate as a dot, and a stem from the tick of its first record to it."""
    colour = look.colour(run, order)
    aside = _APART * (order.index(run) - (len(order) - 1) / 2)
    blocks = np.asarray(array["block"].values, dtype=np.float64)
    traces: list[dict[str, Any]] = []
    for side, shift in _SIDES:
        x = blocks + shift + aside
        now = np.asarray(array.sel(value=f"gate_{side}").values, dtype=np.float64)
        began = np.asarray(array.sel(value=f"gate_{side}_initial").values, dtype=np.float64)
        traces.append(_stems(run, side, x, began, now, look))
        common = {"type": "scatter", "mode": "markers", "x": typed(x)}
        traces.append(
            {
                **common,
                "y": typed(began),
                "marker": {
                    "symbol": MARKS[f"gate_{side}_initial"].plotly,
                    "size": 11,
                    "line": {"color": look.theme["text-muted"], "width": 1.5},
                },
                "hoverinfo": "none" if look.host == "page" else "y",
                "showlegend": False,
                "meta": {"run": run, "role": f"initial-{side}"},
            }
        )
        traces.append(
            {
                **common,
                "mode": "lines+markers",
                "name": f"{name}, {side}",
                "y": typed(now),
                "line": {"color": colour, "width": 1, "dash": look.dash(run, order)},
                "marker": {**_marker(f"gate_{side}", colour, look), "size": _sizes(array)},
                "hoverinfo": "none" if look.host == "page" else "x+y+name",
                "meta": {"run": run, "role": f"gate-{side}"},
            }
        )
    return traces


def _stems(
    run: str,
    side: str,
    x: npt.NDArray[np.float64],
    began: npt.NDArray[np.float64],
    now: npt.NDArray[np.float64],
    look: Look,
) -> dict[str, Any]:
    gap = np.full(x.size, np.nan)
    return {
        "type": "scatter",
        "mode": "lines",
        "x": typed(np.stack([x, x, gap], axis=1).ravel()),
        "y": typed(np.stack([began, now, gap], axis=1).ravel()),
        "line": {"color": look.theme["chart-axis"], "width": 1},
        "hoverinfo": "skip",
        "showlegend": False,
        "meta": {"run": run, "role": f"stem-{side}"},
    }


def _highest(traces: list[dict[str, Any]]) -> float:
    """Return a little more than the largest value drawn."""
    values = [np.asarray(untyped(trace["y"]), dtype=np.float64) for trace in traces]
    together = np.concatenate(values) if values else np.empty(0)
    finite = together[np.isfinite(together)]
    return 1.08 * float(finite.max()) if finite.size and finite.max() > 0 else 1.0
