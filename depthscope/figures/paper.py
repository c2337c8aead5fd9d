"""The sheet that paper figures are drawn on: exact width, type, colours, and the marks that several share.

Only the paper renderers import this module, and they are imported when a figure is exported: reading runs and
the app need no matplotlib.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import RLock
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.colors import Colormap, LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from depthscope.figures.look import Look
from depthscope.figures.names import shortened
from depthscope.figures.ticks import layer_ticks, spaced

TEXT = 8.0
"""Points, for all text: what journals and conferences ask for at final size."""
TYPE: dict[Any, Any] = {
    # DejaVu Sans comes with matplotlib, so a figure has the same bytes on every machine.
    "font.family": "DejaVu Sans",
    "font.size": TEXT,
    "axes.titlesize": TEXT,
    "axes.labelsize": TEXT,
    "xtick.labelsize": TEXT,
    "ytick.labelsize": TEXT,
    "legend.fontsize": TEXT,
    "pdf.fonttype": 42,
    "ps.fonttype": 42,
    "svg.fonttype": "path",
    "svg.hashsalt": "depthscope",
    "hatch.linewidth": 0.4,
    "image.composite_image": False,
    "savefig.dpi": 300,
    "text.parse_math": False,  # run names may hold dollar signs
}
LINE = 1.1
MARKER = 3.2
_LETTER = 0.60
"""Mean width of a letter over the size of the type."""
_LOCK = RLock()


@contextmanager
def type_settings() -> Iterator[None]:
    """Draw and save with the settings of `TYPE`, whatever the user's own are; one thread at a time."""
    with _LOCK, matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(TYPE)
        yield


@dataclass(frozen=True, kw_only=True)
class Sheet:
    """What a paper renderer draws on."""

    width: float
    """Inches, of the finished figure: nothing is cropped."""
    look: Look = field(default_factory=Look)
    order: Sequence[str] = ()
    """Ids of all runs of the figure: a run has the same colour and dash in each panel."""
    names: Mapping[str, str] = field(default_factory=dict)
    """Run names by id."""

    @property
    def wide(self) -> bool:
        """Whether panels go side by side, as on the full width of a page."""
        return self.width >= 5

    def figure(self, height: float) -> Figure:
        """Return an empty figure of the sheet's width and `height` inches, laid out by matplotlib."""
        made = Figure(figsize=(self.width, height), layout="constrained", facecolor=self["surface"])
        engine = made.get_layout_engine()
        assert engine is not None
        engine.set(w_pad=0.03, h_pad=0.03, wspace=0.03, hspace=0.03)  # type: ignore[call-arg]
        return made

    def __getitem__(self, token: str) -> str:
        return self.look.theme[token]

    def colour(self, run: str) -> str:
        return self.look.colour(run, self.order)

    def dash(self, run: str) -> Any:
        """Return the run's dash as matplotlib takes it: in line widths, which are 2 px on the screen."""
        text = self.look.dash(run, self.order)
        return (
            "solid"
            if text == "solid"
            else (0, [float(part.removesuffix("px")) / 2 for part in text.split(",")])
        )

    def name(self, run: str, longest: int = 26) -> str:
        return shortened(self.names.get(run, run), longest)

    def letters(self, inches: float) -> int:
        """Return how many letters of the figure's type fit into `inches`."""
        return int(inches * 72 / (TEXT * _LETTER))


def colour_map(look: Look, *, signed: bool) -> Colormap:
    """Return cividis, or the diverging scale of signed values; grey stands for a missing value."""
    stops = look.theme.diverging() if signed else look.theme.sequential()
    made = LinearSegmentedColormap.from_list(
        "signed" if signed else "cividis", [str(colour) for _, colour in stops], N=256
    )
    return made.with_extremes(bad=look.theme["chart-hatch"])


def bare(axes: Axes, sheet: Sheet, *, grid: bool) -> None:
    """Take frame and tick marks away but those along depth or steps; draw horizontal gridlines where asked."""
    for spine in axes.spines.values():
        spine.set_visible(False)
    axes.tick_params(
        axis="both", length=0, pad=2, labelcolor=sheet["text-secondary"], color=sheet["chart-axis"]
    )
    axes.tick_params(axis="x", length=2.5, width=0.5)
    axes.set_axisbelow(True)
    if grid:
        axes.grid(axis="y", color=sheet["chart-grid"], linewidth=0.5)
    for label in (axes.xaxis.label, axes.yaxis.label):
        label.set_color(sheet["text-secondary"])


def depth_ticks(layers: int, residual_block: Sequence[int], *, room: float, apart: float) -> list[int]:
    """Return the sublayers to label on an axis `room` inches long so that labels lie `apart` inches apart.

    The last is kept, then the first, then those between from the end on.
    """
    wanted = layer_ticks(layers, residual_block)
    return spaced([wanted[-1], wanted[0], *wanted[-2:0:-1]], apart=apart * layers / room)


def panel_title(axes: Axes, sheet: Sheet, text: str, letter: str = "", *, room: float | None = None) -> None:
    """Write a panel's title over its left edge, ``(a) Validation loss``, wrapped to `room` inches."""
    whole = f"({letter}) {text}" if letter else text
    if room is not None:
        whole = textwrap.fill(whole, max(10, sheet.letters(room)))
    axes.set_title(whole, loc="left", color=sheet["text"], fontsize=TEXT, pad=3, linespacing=1.1)


def settled(figure: Figure) -> Figure:
    """Return a figure laid out once and for all, its axes at places with six digits.

    The solver of the layout takes its equations in an order that memory decides: the last bits of a place, and with
    them the names of clip paths in an SVG, could differ between two drawings of the same numbers.
    """
    figure.draw_without_rendering()
    places = {axes: axes.get_position(original=True) for axes in figure.axes}
    figure.set_layout_engine("none")
    for axes, place in places.items():
        left, bottom, width, height = (round(number, 6) for number in place.bounds)
        axes.set_position((left, bottom, width, height))
    return figure


def legend(figure: Figure, sheet: Sheet, handles: Sequence[Line2D | Patch]) -> None:
    """Put one legend for all panels over the figure, in as many columns as fit; the figure grows by its rows."""
    if not handles:
        return
    longest = max(len(str(handle.get_label())) for handle in handles)
    columns = max(1, min(len(handles), sheet.letters(sheet.width - 0.1) // (longest + 6)))
    rows = -(-len(handles) // columns)
    figure.set_size_inches(sheet.width, figure.get_figheight() + 0.04 + rows * 1.35 * TEXT / 72)
    figure.legend(
        handles=handles,
        loc="outside upper left",
        ncols=columns,
        frameon=False,
        labelcolor=sheet["text"],
        handlelength=2.4,
        handletextpad=0.5,
        columnspacing=1.2,
        labelspacing=0.25,
        borderpad=0.1,
        borderaxespad=0.25,
    )


def run_handles(sheet: Sheet, runs: Sequence[str]) -> list[Line2D]:
    """Return a legend line for each run."""
    return [
        Line2D(
            [], [], color=sheet.colour(run), linestyle=sheet.dash(run), linewidth=LINE, label=sheet.name(run)
        )
        for run in runs
    ]


def kind_handles(sheet: Sheet, kinds: Sequence[str]) -> list[Line2D]:
    """Return legend marks for the kinds of sublayers that are drawn."""
    grey = sheet["text-secondary"]
    shapes = {"attention": ("o", grey), "mlp": ("o", sheet["surface"]), "other": ("s", grey)}
    labels = {"attention": "attention", "mlp": "MLP", "other": "other sublayer"}
    return [
        Line2D(
            [],
            [],
            linestyle="none",
            marker=shapes[kind][0],
            markersize=MARKER,
            markeredgewidth=0.7,
            markeredgecolor=grey,
            markerfacecolor=shapes[kind][1],
            label=labels[kind],
        )
        for kind in shapes
        if kind in kinds
    ]
