"""Which quantity a mode shows, and how a recorded value becomes the shown one."""

from __future__ import annotations

from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from depthscope.figures.labelled import Absent
from depthscope.figures.readable import ReadableRun
from depthscope.quantities import quantity as look_up

Mode = Literal["absolute", "ratio", "fresh", "write", "difference"]
MODES: tuple[Mode, ...] = ("absolute", "ratio", "fresh", "write", "difference")
FloatArray: TypeAlias = npt.NDArray[np.float64]

_HARDLY_NEGATIVE = frozenset({"fresh_share"})
"""A share that is positive but for rare entries: worth a log axis, where those entries get their own mark."""

_OF_MODE = {"fresh": "fresh_share", "write": "write_ratio"}
_TENSORS = {
    "write": ("Write of each sublayer", "‖f‖"),
    "state": ("State after each write", "‖s‖"),
    "read": ("Read of each sublayer", "‖h‖"),
}


def quantity_shown(quantity: str, mode: Mode) -> str:
    """Return the quantity that `mode` shows; fresh share and write ratio are quantities of their own."""
    return _OF_MODE.get(mode, quantity)


def is_log_stored(quantity: str) -> bool:
    """Return whether the recorded value is a logarithm, shown as its exponential."""
    return look_up(quantity).units.startswith("log(")


def is_signed(quantity: str, mode: Mode = "absolute") -> bool:
    """Return whether shown values may be below zero, so that they have no logarithm."""
    if mode == "difference":
        return True
    entry = look_up(quantity_shown(quantity, mode))
    return not entry.positive and not is_log_stored(entry.name) and entry.name not in _HARDLY_NEGATIVE


def shown_values(values: npt.ArrayLike, quantity: str) -> FloatArray:
    """Return recorded values as they are shown: the exponential of a stored logarithm, else unchanged."""
    array = np.asarray(values, dtype=np.float64)
    return np.exp(array) if is_log_stored(quantity) else array


def ratio_to_first(values: FloatArray, axis: int) -> FloatArray:
    """Divide by the first sublayer's value along `axis`; NaN where that is zero."""
    first = np.take(values, [0], axis=axis)
    return np.divide(values, first, out=np.full_like(values, np.nan), where=first != 0)


def require_ratio(ratios: FloatArray, values: FloatArray, quantity: str) -> None:
    """Raise `Absent` when none of `ratios` to the first sublayer exists though there are `values`."""
    if np.isnan(ratios).all() and not np.isnan(values).all():
        label = look_up(quantity).label.partition(",")[0].lower()
        raise Absent(
            f"its first sublayer's {label} is zero or missing, so there is no ratio to it; "
            "choose Absolute, or Difference to compare runs"
        )


def difference(values: FloatArray, baseline: FloatArray, *, signed: bool) -> FloatArray:
    """Return log2(values / baseline), or values − baseline where values may be negative."""
    if signed:
        return values - baseline
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.log2(values) - np.log2(baseline))


def require(run: ReadableRun, quantity: str) -> None:
    """Raise `Absent` with the reason when `run` does not hold `quantity`."""
    if quantity in run.quantities:
        return
    reason = run.missing.get(quantity)
    raise Absent(reason or f"{look_up(quantity).label.lower()} was not recorded")


def comparison(quantity: str, baseline: str) -> str:
    """Return what a difference shows: ``log₂ ratio to a``, or ``difference to a`` where values may be negative."""
    return f"{'difference' if is_signed(quantity) else 'log₂ ratio'} to {baseline}"


def heading(quantity: str, mode: Mode) -> tuple[str, str]:
    """Return a panel's title and the few words beside it: ``State after each write``, ``rms``."""
    entry = look_up(quantity_shown(quantity, mode))
    tensor, _, reduction = entry.name.rpartition("_")
    if tensor in _TENSORS and reduction in ("rms", "logrms"):
        title, norm = _TENSORS[tensor]
        note = f"typical token, {norm}/√d" if reduction == "logrms" else f"rms, {entry.units}"
    else:
        title, note = entry.label, "" if entry.units == "1" else entry.units
    if entry.name.startswith("grad_"):
        note = "per token"
    if mode == "ratio":
        note = "over the first sublayer's"
    return title, note


def short_label(quantity: str, mode: Mode) -> str:
    """Return the name of the shown quantity without its reduction: ``State``."""
    return look_up(quantity_shown(quantity, mode)).label.partition(",")[0]
