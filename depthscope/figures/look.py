"""How figures look, apart from their numbers: theme, run slots, focus, and what the page draws itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from depthscope.figures.theme import Theme, run_dash, theme
from depthscope.figures.ticks import round_ticks, short_number

Host = Literal["page", "alone"]


@dataclass(frozen=True, kw_only=True)
class Look:
    """Options of every plotly renderer."""

    theme: Theme = field(default_factory=lambda: theme("light"))
    slots: Mapping[str, int] = field(default_factory=dict)
    """Run id to slot, from 1: a run keeps colour and dash. Runs without one are numbered in order."""
    focus: str | None = None
    """Id of the run whose label stays when there are many, and whose blocks' ends are labelled beside maps."""
    host: Host = "alone"
    """`page`: the app writes run names, block names and hover text as HTML over the plot, from
    ``layout.meta``. `alone`: plotly draws legend, titles and hover text."""

    def slot(self, run: str, order: Sequence[str]) -> int:
        return self.slots.get(run) or list(order).index(run) + 1

    def colour(self, run: str, order: Sequence[str]) -> str:
        return self.theme.run_colour(self.slot(run, order))

    def dash(self, run: str, order: Sequence[str]) -> str:
        return run_dash(self.slot(run, order))


def frame(look: Look, *, left: int, top: int, right: int, bottom: int) -> dict[str, Any]:
    """Return the layout that every figure starts from: type, colours, margins, hover box."""
    text = look.theme["text-secondary"]
    return {
        "autosize": True,
        "margin": {"l": left, "t": top, "r": right, "b": bottom, "pad": 0},
        "paper_bgcolor": "rgba(0,0,0,0)" if look.host == "page" else look.theme["surface"],
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"family": look.theme["font"], "size": 12, "color": text},
        "showlegend": look.host == "alone",
        "hovermode": "closest",
        "hoverlabel": {
            "bgcolor": look.theme["surface"],
            "bordercolor": look.theme["border-control"],
            "font": {"family": look.theme["font"], "size": 12, "color": look.theme["text"]},
            "align": "left",
        },
        "dragmode": "zoom",
    }


def axis(
    look: Look, *, grid: bool = False, ticks: bool = False, title: str = "", **more: Any
) -> dict[str, Any]:
    """Return an axis: no line, no zero line, grid and tick marks only where asked."""
    described: dict[str, Any] = {
        "showline": False,
        "zeroline": False,
        "showgrid": grid,
        "gridcolor": look.theme["chart-grid"],
        "gridwidth": 1,
        "ticks": "outside" if ticks else "",
        "ticklen": 4 if ticks else 0,
        "tickcolor": look.theme["chart-axis"],
        "tickfont": {"size": 12, "color": look.theme["text-muted"]},
        "tickangle": 0,
        "automargin": False,
    }
    if title:
        described["title"] = {
            "text": title,
            "standoff": 2,
            "font": {"size": 12, "color": look.theme["text-muted"]},
        }
    return {**described, **more}


def step_axis(look: Look, last: float, count: int) -> dict[str, Any]:
    """Return the axis of steps from 0 to `last`, with about `count` round ticks."""
    times = round_ticks(0, last, count)
    text = [short_number(time) for time in times]
    return axis(look, ticks=True, title="step", range=[0, last], tickvals=times, ticktext=text)


def with_alpha(colour: str, alpha: float) -> str:
    """Return ``#rrggbb`` as an rgba() of the given opacity."""
    red, green, blue = (int(colour[place : place + 2], 16) for place in (1, 3, 5))
    return f"rgba({red},{green},{blue},{alpha:g})"
