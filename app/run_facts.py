"""What Overview says of a run in numbers: one fact a question, with the words to show and the number to sort by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite, isnan, nan

import numpy as np

from depthscope.analysis import Finding, undecided
from depthscope.app.reading import CachedRun
from depthscope.figures import LossOptions, loss_data, significant
from depthscope.store import RunError

FACTS: tuple[tuple[str, str], ...] = (
    ("loss", "Loss"),
    ("growth", "State growth"),
    ("blocks", "State at block ends"),
    ("fresh", "Fresh share, first to last quarter"),
    ("gradient", "Gradient × write, max/min"),
    ("path", "Widest skip path, weight"),
    ("cost", "recorder.step(), share of a step"),
)
"""Key and label, in the order of cards and columns."""


@dataclass(frozen=True, kw_only=True)
class Fact:
    """One answer about a run."""

    text: str
    number: float = nan
    """To sort by and to compare with the baseline's; NaN where there is none."""
    why: str = ""
    """Why there is no answer, or what the number is."""


def facts_of(run: CachedRun, found: Sequence[Finding], loss: tuple[str, float]) -> dict[str, Fact]:
    """Return a run's facts by key; `loss` is its name and its newest value.

    A run that cannot be read has no answer to any question, and says why.
    """
    try:
        return _facts_of(run, found, loss)
    except (RunError, OSError) as error:
        why = f"the run cannot be read: {str(error).replace(str(run.run.path), run.name)}"
        return {key: Fact(text="–", why=why) for key, _ in FACTS}


def _facts_of(run: CachedRun, found: Sequence[Finding], loss: tuple[str, float]) -> dict[str, Fact]:
    by_kind = {finding.kind: finding for finding in reversed(found)}
    reasons = undecided(run.run)
    facts = {
        "growth": _number(by_kind, reasons, "state_growth", "ratio", "{}×"),
        "gradient": _number(by_kind, reasons, "gradient_uniformity", "relative_ratio", "{}×"),
        "blocks": _between(by_kind, reasons, "block_sums", "low", "high", "–"),
        "fresh": _between(by_kind, reasons, "dilution", "first_quarter", "last_quarter", " to "),
        "path": _path(by_kind, reasons),
        "cost": _cost(run),
    }
    name, value = loss
    text = significant(value, 4) if isfinite(value) else "–"
    return {"loss": Fact(text=text, number=value, why=name), **facts}


def newest_losses(
    runs: Sequence[CachedRun],
) -> tuple[str, dict[str, tuple[str, float]], dict[str, list[float]]]:
    """Return the loss's name, its newest value by run, and a thinned series by run for a small line."""
    data = loss_data(runs, LossOptions(columns=64))
    name = str(data.attributes["title"])
    series = {run: [float(value) for value in array.values] for run, array in data.arrays.items()}
    newest = {}
    for run in runs:
        values = np.array(series.get(run.id, []))
        finite = values[np.isfinite(values)]
        newest[run.id] = (name, float(finite[-1]) if finite.size else nan)
    return name, newest, series


def _missing(reasons: dict[str, str], kind: str) -> Fact:
    return Fact(text="–", why=reasons.get(kind, "nothing stands out"))


def _value(finding: Finding | None, key: str) -> float:
    value = None if finding is None else finding.values.get(key)
    return float(value) if isinstance(value, int | float) else nan


def _number(by_kind: dict[str, Finding], reasons: dict[str, str], kind: str, key: str, words: str) -> Fact:
    value = _value(by_kind.get(kind), key)
    if isnan(value):
        return _missing(reasons, kind)
    return Fact(text=words.format(significant(value, 2)), number=value, why=by_kind[kind].text)


def _between(
    by_kind: dict[str, Finding], reasons: dict[str, str], kind: str, first: str, second: str, joint: str
) -> Fact:
    ends = [_value(by_kind.get(kind), key) for key in (first, second)]
    if any(map(isnan, ends)):
        return _missing(reasons, kind)
    text = joint.join(significant(end, 2) for end in ends)
    finding = by_kind[kind]
    if finding.values.get("sampled"):
        return Fact(text=f"{text} (sample)", number=ends[1], why=f"{finding.text} {finding.detail}")
    return Fact(text=text, number=ends[1], why=finding.text)


def _path(by_kind: dict[str, Finding], reasons: dict[str, str]) -> Fact:
    finding = by_kind.get("skip_path")
    if finding is None:
        reason = reasons.get("skip_path", "")
        return Fact(text="–" if reason else "none", why=reason or "no source meets the criterion")
    weight, share = _value(finding, "weight"), _value(finding, "contribution")
    held = "" if isnan(share) else f", share {share:.2f}".replace("-", "−")
    return Fact(text=f"{weight:.2f}{held}", number=weight, why=finding.text)


def _cost(run: CachedRun) -> Fact:
    """Return the time spent recording over the time between steps, medians over at most 400 bins of the run."""
    if not {"recording_seconds", "step_seconds"} <= set(run.quantities):
        return Fact(text="–", why="the time of steps was not recorded")
    means = [
        run.read(name, columns=400).sel(stat="mean").values for name in ("recording_seconds", "step_seconds")
    ]
    spent, between = (np.asarray(values, dtype=np.float64) for values in means)
    if not np.isfinite(spent).any() or not np.isfinite(between).any():
        return Fact(text="–", why="the time of steps was not recorded")
    share = float(np.nanmedian(spent) / np.nanmedian(between))
    return Fact(
        text=f"{significant(100 * share, 2)} %",
        number=share,
        why="median time in recorder.step() over a step's",
    )
