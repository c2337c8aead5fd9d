"""The axes of a run's depth-attention figure: maps over sources, entropy between the first two, mass below."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

from depthscope.figures.look import Look, axis
from depthscope.figures.target_rows import target_labels

MASS_TOP = 0.135
_MAP_BOTTOM = 0.168
_MOST_TICKS = 8
_MAP_HEIGHT = 270.0
"""px of the rows of a map in the smallest window."""
_PLOT_WIDTH = {"page": 440.0, "alone": 620.0}
"""px of a plot, margins excluded, in the smallest window and in a notebook."""
_DIGIT, _BETWEEN, _EMBEDDING = 7, 6, 23
"""px of a digit, of the gap that keeps numbers apart, and from the middle of `emb` to that of a number."""
_LINE = 20
"""px between the middles of labels one below the other."""


class RunAxes:
    """The axes of one run, by what they carry, and where they lie."""

    def __init__(self, place: int, left: float, width: float, *, wide: bool, effect: bool = False) -> None:
        """`effect`: the run has a third map, of measured effects."""
        names = [numbered("", 5 * place + number) for number in range(5)]
        self.weight, self.entropy, self.contribution, self.gutter, self.effect = (
            f"x{name}" for name in names
        )
        self.rows, self.mass = (f"y{numbered('', 2 * place + number)}" for number in range(2))
        gutter, bars, gap = (0.022, 0.085, 0.05) if wide else (0.036, 0.115, 0.06)
        maps, apart = (3, 0.05) if effect else (2, 0.0)
        size = (1 - gutter - bars - gap - 0.018 - apart) / maps
        edges = np.cumsum([0, gutter, size, 0.018, bars, gap, size, apart, size])
        self._domains = {
            self.gutter: (edges[0], edges[1]),
            self.weight: (edges[1], edges[2]),
            self.entropy: (edges[3], edges[4]),
            self.contribution: (edges[5], edges[6]),
            self.effect: (edges[7], edges[8]),
        }
        self._measured = effect
        self._left, self._width = left, width

    def domain(self, name: str) -> list[float]:
        low, high = self._domains[name]
        return [float(self._left + self._width * low), float(min(self._left + self._width * high, 1.0))]

    def described(self, array: xr.DataArray, look: Look, mass: list[float]) -> dict[str, Any]:
        """Return the layout entries of all axes; `mass` is the range of the bars below the first two maps."""
        left, right = self.domain(self.weight)
        ticks, texts = source_ticks(array, (right - left) * _PLOT_WIDTH[look.host])
        title = f"source {array.attrs['source_axis']}"
        sources = [-0.5, array.sizes["source"] - 0.5]
        rows, labels = target_ticks(array)
        common: dict[str, Any] = {"range": sources, "tickvals": ticks, "ticktext": texts, "anchor": self.mass}
        measured = {
            long_name(self.effect): axis(
                look,
                ticks=True,
                title=title,
                domain=self.domain(self.effect),
                **{**common, "anchor": self.rows},
            ),
        }
        return {
            **(measured if self._measured else {}),
            long_name(self.weight): axis(
                look, ticks=True, title=title, domain=self.domain(self.weight), **common
            ),
            long_name(self.contribution): axis(
                look, ticks=True, title=title, domain=self.domain(self.contribution), **common
            ),
            long_name(self.entropy): axis(
                look,
                ticks=True,
                domain=self.domain(self.entropy),
                range=[0, 1],
                tickvals=[0, 1],
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
                domain=[_MAP_BOTTOM, 1],
                range=[array.sizes["target"] - 0.5, -0.5],
                tickvals=rows,
                ticktext=labels,
                # Not anchored to the gutter: plotly drops an axis without traces, as that of a deep run is.
                anchor="free",
                position=self.domain(self.gutter)[0],
            ),
            long_name(self.mass): axis(
                look,
                domain=[0, MASS_TOP],
                range=mass,
                showticklabels=False,
                anchor=self.weight,
                fixedrange=True,
            ),
        }


def source_ticks(array: xr.DataArray, room: float) -> tuple[list[int], list[str]]:
    """Return the columns to label and their labels, which do not touch in `room` px: ``emb``, then round numbers."""
    count = array.sizes["source"] - 1
    apart = max(_DIGIT * len(str(count)) + _BETWEEN, _EMBEDDING)
    step = 1
    while step < count and (step * room / (count + 1) < apart or count // step > _MOST_TICKS):
        step *= 2
    chosen = list(range(step, count + 1, step))
    return [0, *chosen], ["emb", *map(str, chosen)]


def target_ticks(array: xr.DataArray) -> tuple[list[int], list[str]]:
    """Return the rows to label and their labels, as `target_labels`, a line of text apart."""
    return target_labels(array, apart=_LINE / row_height(array))


def row_height(array: xr.DataArray) -> float:
    """Return about how many px a row of the map is high: the page keeps its maps at least this high."""
    return _MAP_HEIGHT / max(array.sizes["target"], 1)


def numbered(stem: str, number: int) -> str:
    """Return the name of the n-th axis, from 0: ``x``, ``x2``, ``x3``."""
    return stem if number == 0 else f"{stem}{number + 1}"


def long_name(name: str) -> str:
    """Return an axis's name in the layout: ``xaxis2`` for ``x2``."""
    return f"{name[0]}axis{name[1:]}"
