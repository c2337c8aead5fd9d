"""The axes of a run's depth-attention figure: two maps over sources, entropy between them, mass below."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

from depthscope.figures.look import Look, axis
from depthscope.figures.ticks import layer_ticks

MASS_TOP = 0.135
_MAP_BOTTOM = 0.168
_MOST_TICKS = 8


class RunAxes:
    """The axes of one run, by what they carry, and where they lie."""

    def __init__(self, place: int, left: float, width: float, *, wide: bool) -> None:
        names = [numbered("", 4 * place + number) for number in range(4)]
        self.weight, self.entropy, self.contribution, self.gutter = (f"x{name}" for name in names)
        self.rows, self.mass = (f"y{numbered('', 2 * place + number)}" for number in range(2))
        gutter, bars, gap = (0.022, 0.085, 0.05) if wide else (0.036, 0.115, 0.06)
        size = (1 - gutter - bars - gap - 0.018) / 2
        edges = np.cumsum([0, gutter, size, 0.018, bars, gap, size])
        self._domains = {
            self.gutter: (edges[0], edges[1]),
            self.weight: (edges[1], edges[2]),
            self.entropy: (edges[3], edges[4]),
            self.contribution: (edges[5], edges[6]),
        }
        self._left, self._width = left, width

    def domain(self, name: str) -> list[float]:
        low, high = self._domains[name]
        return [float(self._left + self._width * low), float(min(self._left + self._width * high, 1.0))]

    def described(self, array: xr.DataArray, look: Look, mass: list[float]) -> dict[str, Any]:
        """Return the layout entries of all axes."""
        ticks, texts = source_ticks(array)
        title = f"source {array.attrs['source_axis']}"
        sources = [-0.5, array.sizes["source"] - 0.5]
        rows, labels = target_ticks(array)
        common: dict[str, Any] = {"range": sources, "tickvals": ticks, "ticktext": texts, "anchor": self.mass}
        return {
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
                anchor=self.gutter,
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


def source_ticks(array: xr.DataArray) -> tuple[list[int], list[str]]:
    """Return the columns to label and their labels: ``emb``, then blocks or round sublayers."""
    count = array.sizes["source"] - 1
    if count <= _MOST_TICKS + 1:
        chosen = list(range(1, count + 1))
    elif array.attrs["source_axis"] == "sublayer":
        chosen = [layer for layer in layer_ticks(count, [0] * count) if layer > 1]
    else:
        every = -(-count // _MOST_TICKS)
        chosen = list(range(every, count + 1, every))
    return [0, *chosen], ["emb", *map(str, chosen)]


def target_ticks(array: xr.DataArray) -> tuple[list[int], list[str]]:
    """Return the rows to label and their labels: the first rows of blocks, else round sublayers, and the output."""
    targets = array["target"].values.tolist()
    kinds = array["target_kind"].values.tolist()
    rows = [row for row in range(len(targets)) if kinds[row] != "output"]
    starts = [row for row in rows if array["starts_block"].values[row]]
    if not starts and rows:
        # Where only one kind is shown, the first row at or after a round number stands for it.
        numbers = layer_ticks(targets[rows[-1]], [0] * targets[rows[-1]])[1:-1]
        starts = [next(row for row in rows if targets[row] >= number) for number in numbers]
    every = -(-len(starts) // _MOST_TICKS) or 1
    chosen = [*rows[:1], *starts[::every]]
    output = [row for row in range(len(targets)) if kinds[row] == "output"]
    return [*chosen, *output], [*(str(targets[row]) for row in chosen), *("output" for _ in output)]


def numbered(stem: str, number: int) -> str:
    """Return the name of the n-th axis, from 0: ``x``, ``x2``, ``x3``."""
    return stem if number == 0 else f"{stem}{number + 1}"


def long_name(name: str) -> str:
    """Return an axis's name in the layout: ``xaxis2`` for ``x2``."""
    return f"{name[0]}axis{name[1:]}"
