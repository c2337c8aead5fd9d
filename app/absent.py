"""Words for what a run does not have, and what a quantity is, in panels and in the drawer."""

from __future__ import annotations

from typing import Any

from dash import html

from depthscope.app.panel import empty_words
from depthscope.app.reading import CachedRun
from depthscope.figures import Labelled
from depthscope.quantities import quantity as look_up

_MOST_REASONS = 6


def definition(name: str) -> str:
    """Return what a quantity is, for the tooltip on a panel's title: name, formula, reduction, source."""
    entry = look_up(name)
    lines = (entry.long_name, entry.formula, entry.reduction, entry.note, f"Source: {entry.source}")
    return "\n".join(filter(None, lines))


def reasons_by_name(data: Labelled) -> dict[str, str]:
    """Return the reason of each run without anything to draw, by the run's name."""
    return {data.names[run]: reason for run, reason in data.absent.items()}


def why_empty(data: Labelled, name: str) -> list[Any]:
    """Say why a panel is empty, and how to record what it shows."""
    if not data.absent:
        return empty_words("No run is selected.", "Select one in the drawer on the left.")
    reasons = sorted(set(data.absent.values()))
    label = look_up(name).label
    if len(reasons) == 1:
        return empty_words(f"{label}: {reasons[0]}.", *_remedy(reasons[0]))
    return [
        html.P(f"{data.names[run]}: {reason}.") for run, reason in list(data.absent.items())[:_MOST_REASONS]
    ]


def lacks_quantity(run: CachedRun, name: str, designed: bool, what: str) -> str:
    """Say for the drawer, briefly, why a run cannot show `what`; empty where it can.

    `designed` tells whether the run's design has it at all.
    """
    if not designed:
        return f"no {what}"
    return "" if name in run else f"{what} not recorded"


def _remedy(reason: str) -> tuple[str, str]:
    if "not recorded" not in reason:
        return "", ""
    return "The default probes record it:", "depthscope.Recorder(model, path, every=10)"
