"""The axes of a run's mixing map: kinds of sublayers, the map over origins, and cancellation beside it."""

from __future__ import annotations

from typing import Any

import xarray as xr

from depthscope.figures.attention_axes import long_name, numbered, target_ticks
from depthscope.figures.look import Look, axis
from depthscope.figures.origin_axis import OriginAxis

_GUTTER, _BARS, _GAP = 12.0, 36.0, 14.0
"""px of the marks of kinds, of the bars, and between map and bars, where `const` ends."""
_PLOT_WIDTH = {"page": 216.0, "alone": 900.0}
"""px of a plot, margins excluded: of one run among four in a window, and of all runs on a page of their own."""


class MixingAxes:
    """The axes of one run, by what they carry, and where they lie; `left` and `width` are shares of the plot."""

    def __init__(self, place: int, left: float, width: float, look: Look) -> None:
        names = [numbered("", 3 * place + number) for number in range(3)]
        # The map's axis first: plotly drops an axis without traces, as that of the kinds is in a deep run.
        self.origins, self.cancellation, self.gutter = (f"x{name}" for name in names)
        self.rows = f"y{numbered('', place)}"
        self._left, self._width, self._look = left, width, look
        self._pixels = width * _PLOT_WIDTH[look.host]

    def domain(self, name: str) -> list[float]:
        """Return where an axis begins and ends."""
        whole = self._pixels
        begins, ends = {
            self.gutter: (0.0, _GUTTER),
            self.origins: (_GUTTER, whole - _BARS - _GAP),
            self.cancellation: (whole - _BARS, whole),
        }[name]
        return [self._left + self._width * begins / whole, min(self._left + self._width * ends / whole, 1.0)]

    def described(self, array: xr.DataArray, *, top: float) -> dict[str, Any]:
        """Return the layout entries of all axes; cancellation goes from 1 to `top`."""
        look = self._look
        places = OriginAxis(layers=array.sizes["origin"] - 2)
        ticks, texts = places.ticks(self._pixels - _GUTTER - _BARS - _GAP)
        rows, labels = target_ticks(array)
        return {
            long_name(self.origins): axis(
                look,
                ticks=True,
                title="origin",
                domain=self.domain(self.origins),
                range=list(places.ends),
                tickvals=ticks,
                ticktext=texts,
                anchor=self.rows,
            ),
            long_name(self.cancellation): axis(
                look,
                ticks=True,
                domain=self.domain(self.cancellation),
                range=[1, top],
                tickvals=[2] if top < 4 else [2, top],
                anchor=self.rows,
                fixedrange=True,
            ),
            long_name(self.gutter): axis(
                look,
                domain=self.domain(self.gutter),
                range=[0, 1],
                showticklabels=False,
                anchor=self.rows,
                fixedrange=True,
            ),
            long_name(self.rows): axis(
                look,
                ticks=True,
                domain=[0, 1],
                range=[array.sizes["target"] - 0.5, -0.5],
                tickvals=rows,
                ticktext=labels,
                anchor="free",
                position=self.domain(self.gutter)[0],
            ),
        }
