"""Colours of paper maps: cells as vectors or as an image, the scale they share, its bar, and what is missing."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.colors import Colormap, LogNorm, Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Patch, PathPatch
from matplotlib.path import Path

from depthscope.figures.labelled import Labelled
from depthscope.figures.limits import limits_of
from depthscope.figures.paper import Sheet, colour_map
from depthscope.figures.ticks import log_ticks, round_step, round_ticks, short_number

MOST_CELLS = 10_000
"""Cells of one figure that are drawn as vectors; above, images of one pixel a cell are smaller and as sharp."""
_MOST_TICKS = 6
_NARROW = 1.6


NOT_RECORDED = "not recorded"


@dataclass(frozen=True, kw_only=True)
class Scale:
    """The two ends of a colour scale in shown units."""

    low: float
    high: float
    log: bool
    signed: bool
    clips_low: bool = False
    clips_high: bool = False
    robust: bool = False

    def norm(self) -> Normalize:
        return (
            LogNorm(self.low, self.high, clip=False)
            if self.log
            else Normalize(self.low, self.high, clip=False)
        )

    @property
    def extend(self) -> str:
        """Which ends of the bar get a triangle: values lie beyond them."""
        return {(False, False): "neither", (True, False): "min", (False, True): "max"}.get(
            (self.clips_low, self.clips_high), "both"
        )

    def ticks(self, room: float) -> list[float]:
        """Return the ticks of a bar `room` inches long."""
        if not self.log and room <= _NARROW:
            step = max(
                tick for tick in (round_step(self.high, 2), round_step(self.high, 1)) if tick <= self.high
            )
            return [-step, 0.0, step] if self.signed else [0.0, step]
        if not self.log:
            return round_ticks(self.low, self.high, 4)
        low, high = math.log10(self.low), math.log10(self.high)
        ticks = log_ticks(low, high)
        decades = [tick for tick in ticks if math.log10(tick) == round(math.log10(tick))]
        return decades if len(ticks) > _MOST_TICKS and len(decades) > 1 else ticks


def scale_of(data: Labelled, arrays: Iterable[xr.DataArray], *, log: bool, robust: bool) -> Scale:
    """Return the common scale of `arrays`: symmetric around 0 where values are signed."""
    signed = bool(data.attributes["signed"])
    log = log and not signed
    found = limits_of(arrays, robust=robust, log=log, symmetric=signed)
    if found is None:
        return Scale(low=0.1 if log else (-1.0 if signed else 0.0), high=1.0, log=log, signed=signed)
    return Scale(
        low=found.low,
        high=found.high,
        log=log,
        signed=signed,
        clips_low=found.clips_low,
        clips_high=found.clips_high,
        robust=robust and (found.clips_low or found.clips_high),
    )


def draw_cells(
    axes: Axes,
    values: npt.NDArray[Any],
    x_edges: npt.NDArray[np.floating[Any]],
    y_edges: npt.NDArray[np.floating[Any]],
    scale: Scale,
    sheet: Sheet,
    *,
    vectors: bool,
) -> Any:
    """Draw `values` [rows, columns] between their edges, the first row on top: as vectors, or as an image.

    NaN is grey, and zero or less on a log scale; the value range is that of `scale`.
    """
    cells = np.ma.masked_invalid(np.asarray(values, dtype=np.float64))
    if scale.log:
        cells = np.ma.masked_less_equal(cells, 0)
    colours: Colormap = colour_map(sheet.look, signed=scale.signed)
    even = bool(np.allclose(np.diff(x_edges), np.diff(x_edges)[0], rtol=0.01))
    if even and not vectors:
        box = (float(x_edges[0]), float(x_edges[-1]), float(y_edges[-1]), float(y_edges[0]))
        return axes.imshow(
            cells,
            cmap=colours,
            norm=scale.norm(),
            extent=box,
            aspect="auto",
            origin="upper",
            interpolation="none",
        )
    axes.set_facecolor(sheet["chart-hatch"])  # what pcolormesh leaves out
    return axes.pcolormesh(
        x_edges,
        y_edges,
        cells,
        cmap=colours,
        norm=scale.norm(),
        shading="flat",
        linewidth=0.3,  # closes the hairlines that viewers leave between neighbours
        edgecolors="face",
        rasterized=not vectors,
    )


def colour_bar(
    figure: Figure,
    mesh: Any,
    sheet: Sheet,
    scale: Scale,
    words: Sequence[str],
    *,
    room: float,
    under: Sequence[Axes] = (),
    inside: Axes | None = None,
) -> None:
    """Put a bar under some axes, or into axes of its own; its label, wrapped to `room` inches, is `words`.

    The words say what is shown and whose range it is; what the range leaves out is added.
    """
    place: dict[str, Any] = (
        {"ax": list(under), "shrink": 0.9, "aspect": 35, "pad": 0.02, "fraction": 0.07}
        if inside is None
        else {"cax": inside}
    )
    bar = figure.colorbar(mesh, orientation="horizontal", extend=scale.extend, **place)
    ticks = scale.ticks(room)
    bar.set_ticks(ticks, labels=[short_number(tick).replace("-", "−") for tick in ticks])
    bar.ax.minorticks_off()
    bar.outline.set_visible(False)
    bar.ax.tick_params(length=2, width=0.5, pad=1.5, labelcolor=sheet["text-secondary"])
    text = ", ".join(filter(None, [*words, "1–99 % of values" if scale.robust else ""]))
    bar.set_label(
        textwrap.fill(text, max(12, sheet.letters(room))), labelpad=2, color=sheet["text-secondary"]
    )


def unreachable_face(sheet: Sheet) -> dict[str, Any]:
    """Return how entries that the design does not have are filled: hatched."""
    return {
        "facecolor": sheet["surface"],
        "edgecolor": sheet["chart-axis"],
        "hatch": "/////",
        "linewidth": 0,
    }


def past_the_end_face(sheet: Sheet) -> dict[str, Any]:
    """Return how places past an end are filled, of a run in steps or of a block in positions: thinly hatched."""
    return {"facecolor": sheet["surface"], "edgecolor": sheet["chart-axis"], "hatch": "////", "linewidth": 0}


def missing_handles(
    sheet: Sheet, *, unreachable: bool, missing: bool, below: bool = False, past: str = ""
) -> list[Patch]:
    """Return legend patches for what has no colour; `past` says what lies past an end, nothing where nothing does."""
    found = []
    if unreachable:
        found.append(Patch(**unreachable_face(sheet), label="unreachable"))
    if missing or below:
        none = "no value" if past == NOT_RECORDED else NOT_RECORDED
        label = " or ".join([none] * missing + ["zero or less"] * below)
        found.append(Patch(facecolor=sheet["chart-hatch"], label=label))
    if past:
        found.append(Patch(**past_the_end_face(sheet), label=past))
    return found


def staircase(
    axes: Axes, reachable: npt.NDArray[np.bool_], sheet: Sheet, *, left: float = 0.0, top: float = 0.0
) -> None:
    """Hatch the cells [rows, columns] that are not reachable, as one shape of unit cells."""
    boxes = []
    for row, column in zip(*np.nonzero(~reachable), strict=True):
        x, y = left + float(column), top + float(row)
        boxes.append([(x, y), (x + 1, y), (x + 1, y + 1), (x, y + 1), (x, y)])
    if not boxes:
        return
    codes = [Path.MOVETO, Path.LINETO, Path.LINETO, Path.LINETO, Path.CLOSEPOLY] * len(boxes)
    path = Path([point for box in boxes for point in box], codes)
    axes.add_patch(PathPatch(path, **unreachable_face(sheet)))
