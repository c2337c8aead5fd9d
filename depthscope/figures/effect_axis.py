"""The axis of effects: linear within the noise, logarithmic beyond it, on both sides of zero."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from depthscope.figures.effect_pairs import EffectPairs, noise_of
from depthscope.figures.shown import FloatArray
from depthscope.figures.ticks import round_ticks, short_number

_ROOM = 0.05
_MOST_TICKS = 8


@dataclass(frozen=True, kw_only=True)
class EffectAxis:
    """Where effects are drawn: at asinh(effect / noise) when `log`, else at the effect itself.

    A few targets lose ten times what the others do, and half of the effects are as small as their intervals and of
    either sign: a linear axis shows the former alone, a logarithm has no place for the latter.
    """

    noise: float
    log: bool
    low: float
    """Ends of the axis, in units of the effect."""
    high: float

    def place(self, effect: npt.ArrayLike) -> FloatArray:
        """Return where effects lie on the axis."""
        values = np.asarray(effect, dtype=np.float64)
        return np.arcsinh(values / self.noise) if self.log else values

    @property
    def ends(self) -> list[float]:
        """The ends of the axis as drawn, with room beyond the outermost interval."""
        low, high = self.place([self.low, self.high]).tolist()
        room = _ROOM * (high - low)
        return [low - room, high + room]

    @property
    def ticks(self) -> list[float]:
        """Ticks in units of the effect."""
        if not self.log:
            return round_ticks(self.low, self.high, 5)
        size = max(abs(self.low), abs(self.high))
        powers = range(math.floor(math.log10(self.noise)), math.ceil(math.log10(size)) + 1)
        steps = [float(f"{factor}e{power}") for power in powers for factor in (1, 3)]
        inside = [sign * step for step in steps for sign in (1, -1) if self.low <= sign * step <= self.high]
        kept, apart = [0.0], (self.ends[1] - self.ends[0]) / _MOST_TICKS
        for tick in sorted(inside, key=lambda each: (f"{abs(each):e}"[0] == "3", -abs(each))):
            places = self.place([*kept, tick])
            if np.min(np.abs(places[:-1] - places[-1])) >= apart:
                kept.append(tick)
        return sorted(kept)

    @property
    def tick_text(self) -> list[str]:
        return [short_number(tick).replace("-", "−") for tick in self.ticks]

    @property
    def words(self) -> str:
        """What the scale is, for a label."""
        return f"log beyond ±{short_number(float(f'{self.noise:.1g}'))}" if self.log else "linear"


def effect_axis(pairs: Sequence[EffectPairs], *, log: bool) -> EffectAxis:
    """Return the axis that holds zero and every interval of `pairs`."""
    ends = [0.0]
    for each in pairs:
        half = np.nan_to_num(each.interval)
        if each.effect.size:
            ends += [float((each.effect - half).min()), float((each.effect + half).max())]
    low, high = min(ends), max(ends)
    if low == high:
        low, high = -1.0, 1.0
    return EffectAxis(noise=noise_of(list(pairs)), log=log, low=low, high=high)
