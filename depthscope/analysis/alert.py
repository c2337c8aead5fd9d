"""What `depthscope watch` waits for in a run that grows: a rule looks at new rows and finds the first that breaks it."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from depthscope.analysis.nonfinite import SCALARS, first_broken_scalar
from depthscope.store import Run

Array = npt.NDArray[Any]
WINDOW = 64
"""Rows before a row that say what is usual."""
FEWEST = 16
SPIKE_DEVIATIONS, SPIKE_SHARE = 10.0, 0.1
GAIN = 10.0

_COMPARISONS: Mapping[str, Callable[[Any, Any], Any]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
}
_STATS: Mapping[str, Callable[..., Any]] = {"max": np.nanmax, "min": np.nanmin, "mean": np.nanmean}
_RULE = re.compile(r"\s*(?P<quantity>[^<>=]+?)\s*(?P<sign>>=|<=|>|<)\s*(?P<limit>[-+0-9.eE]+)\s*")


@dataclass(frozen=True, kw_only=True)
class Alert:
    """The first row that breaks a rule."""

    rule: str
    step: int
    quantity: str
    value: float
    limit: float
    layer: int | None = None
    """Or target; from 1. None for a number of the whole model."""


@dataclass(frozen=True, kw_only=True)
class AlertRule:
    """`first(run, after)` looks at rows of larger steps than `after` (None: at all)."""

    text: str
    quantities: tuple[str, ...]
    """Those it needs; it finds nothing in a run that has none of them."""
    first: Callable[[Run, int | None], Alert | None]


def alert_rule(text: str) -> AlertRule:
    """Read a rule: ``nonfinite``, ``spike``, ``gain``, or a comparison such as ``loss>5`` or ``state_rms/mean>1e4``.

    ValueError says what was expected.
    """
    if text in _NAMED:
        return _NAMED[text]
    match = _RULE.fullmatch(text)
    try:
        limit = float(match["limit"]) if match else np.nan
    except ValueError:
        limit = np.nan
    if match is None or np.isnan(limit):
        raise ValueError(
            f"{text!r} is no rule; expected {', '.join(_NAMED)}, or a comparison: loss>5, state_rms/max>1e4, "
            "write_rms/min<1e-6"
        )
    quantity, _, stat = match["quantity"].rpartition("/")
    if stat not in _STATS:
        quantity, stat = match["quantity"], "max" if match["sign"].startswith(">") else "min"

    def first(run: Run, after: int | None) -> Alert | None:
        if quantity not in run:
            return None
        rows = run.read(quantity, start=None if after is None else after + 1)
        values = rows.values.reshape(len(rows), -1)
        known = ~np.isnan(values).all(-1)
        numbers = np.full(len(values), np.nan)
        if known.any():
            numbers[known] = _STATS[stat](values[known].astype("f8"), -1)
        hits = np.flatnonzero(_COMPARISONS[match["sign"]](numbers, limit))
        if not hits.size:
            return None
        row = int(hits[0])
        layer = None
        if rows.ndim == 2 and stat != "mean":
            pick = np.nanargmax if stat == "max" else np.nanargmin
            layer = int(pick(values[row])) + 1
        return Alert(
            rule=text,
            step=int(rows["step"][row]),
            quantity=quantity,
            value=float(numbers[row]),
            limit=limit,
            layer=layer,
        )

    return AlertRule(text=text, quantities=(quantity,), first=first)


def _nonfinite(run: Run, after: int | None) -> Alert | None:
    found = []
    if "nonfinite" in run:
        found.append(alert_rule("nonfinite/max>0").first(run, after))
    for name in SCALARS:
        if name not in run:
            continue
        rows = run.read(name)
        skipped = run.read("skipped").values if "skipped" in run else None
        if skipped is not None and len(skipped) != len(rows):
            skipped = None
        broken = first_broken_scalar(rows.values, skipped)
        if broken >= 0 and (after is None or int(rows["step"][broken]) > after):
            value = float(rows[broken])
            step = int(rows["step"][broken])
            found.append(Alert(rule="nonfinite", step=step, quantity=name, value=value, limit=0.0))
    alerts = [alert for alert in found if alert is not None]
    if not alerts:
        return None
    first = min(alerts, key=lambda alert: alert.step)
    return Alert(**{**vars(first), "rule": "nonfinite"})


def _spike(run: Run, after: int | None) -> Alert | None:
    """The loss is above its running median by 10 median deviations and by a tenth of it."""
    if "loss" not in run:
        return None
    steps, rows = run["loss"]["step"].values, run["loss"].values.astype("f8")
    for row in range(_first_new(steps, after), len(rows)):
        before = rows[max(0, row - WINDOW) : row]
        before = before[np.isfinite(before)]
        if len(before) < FEWEST or not np.isfinite(rows[row]):
            continue
        usual = float(np.median(before))
        spread = float(np.median(np.abs(before - usual)))
        limit = usual + max(SPIKE_DEVIATIONS * spread, SPIKE_SHARE * abs(usual))
        if rows[row] > limit:
            return Alert(
                rule="spike", step=int(steps[row]), quantity="loss", value=float(rows[row]), limit=limit
            )
    return None


def _gain(run: Run, after: int | None) -> Alert | None:
    """The state after some sublayer is 10 times what it was in the rows before."""
    if "state_rms" not in run:
        return None
    steps = run.steps(_stream_of(run, "state_rms"))
    first = _first_new(steps, after)
    if first >= len(steps):
        return None
    begin = max(0, first - WINDOW)
    rows = run.read("state_rms", start=int(steps[begin]))
    values = rows.values.astype("f8")
    for row in range(first - begin, len(values)):
        before = values[max(0, row - WINDOW) : row]
        if len(before) < FEWEST:
            continue
        known = ~np.isnan(before).all(0)
        if not known.any():
            continue
        limits = np.full(values.shape[1], np.inf)
        limits[known] = GAIN * np.nanmedian(before[:, known], 0)
        over = np.flatnonzero(values[row] > limits)
        if over.size:
            layer = int(over[0])
            return Alert(
                rule="gain",
                step=int(rows["step"][row]),
                quantity="state_rms",
                value=float(values[row, layer]),
                limit=float(limits[layer]),
                layer=layer + 1,
            )
    return None


def _first_new(steps: Array, after: int | None) -> int:
    return 0 if after is None else int(np.searchsorted(steps, after, "right"))


def _stream_of(run: Run, name: str) -> str:
    return next(stream for stream in run.streams if f"{stream}/{name}" in run)


_NAMED = {
    "nonfinite": AlertRule(text="nonfinite", quantities=("nonfinite", *SCALARS), first=_nonfinite),
    "spike": AlertRule(text="spike", quantities=("loss",), first=_spike),
    "gain": AlertRule(text="gain", quantities=("state_rms",), first=_gain),
}
NAMED_RULES = tuple(_NAMED)
