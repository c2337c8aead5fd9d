"""The axis of origins: embedding and constant as columns wide enough to read, the sublayers between them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Strip = Literal["embedding", "sublayers", "constant"]
STRIPS: tuple[Strip, ...] = ("embedding", "sublayers", "constant")
_WIDE, _APART = 0.045, 0.012
"""Of all columns: the least width of the outer two, and the gap that parts them from the sublayers."""
_DIGIT, _BETWEEN, _WORD = 7, 6, 28
"""px of a digit, of the gap that keeps numbers apart, and of `emb` and `const`."""
_MOST_TICKS = 8


@dataclass(frozen=True, kw_only=True)
class OriginAxis:
    """Places along origins, in columns: sublayer i has its middle at i."""

    layers: int

    @property
    def wide(self) -> float:
        """The width of the embedding's and of the constant's column."""
        return max(1.0, _WIDE * self.layers)

    @property
    def apart(self) -> float:
        return max(0.12, _APART * self.layers)

    @property
    def ends(self) -> tuple[float, float]:
        return self.edges("embedding")[0], self.edges("constant")[1]

    def edges(self, strip: Strip) -> tuple[float, float]:
        """Return where a strip begins and ends."""
        if strip == "sublayers":
            return 0.5, self.layers + 0.5
        if strip == "embedding":
            return 0.5 - self.apart - self.wide, 0.5 - self.apart
        return self.layers + 0.5 + self.apart, self.layers + 0.5 + self.apart + self.wide

    def columns(self, strip: Strip) -> slice:
        """Return the origins of a strip."""
        return {
            "embedding": slice(0, 1),
            "sublayers": slice(1, self.layers + 1),
            "constant": slice(self.layers + 1, self.layers + 2),
        }[strip]

    def middle(self, origin: int) -> float:
        """Return the middle of the column of an origin: 0 the embedding, L + 1 the constant."""
        if 0 < origin <= self.layers:
            return float(origin)
        low, high = self.edges("embedding" if origin == 0 else "constant")
        return (low + high) / 2

    def ticks(self, room: float, *, inward: bool = False) -> tuple[list[float], list[str]]:
        """Return places and labels that do not touch in `room` px: ``emb``, round sublayers, ``const``.

        `inward`: the outer two begin and end in the middle of their columns.
        """
        each = room / (self.ends[1] - self.ends[0])
        number = _DIGIT * len(str(self.layers))
        step = 1
        while step < self.layers and (step * each < number + _BETWEEN or self.layers // step > _MOST_TICKS):
            step *= 2
        beside = number / 2 + _WORD / (1 if inward else 2) + _BETWEEN
        ends = self.middle(0), self.middle(self.layers + 1)
        inner = [
            layer
            for layer in range(step, self.layers + 1, step)
            if (layer - ends[0]) * each >= beside and (ends[1] - layer) * each >= beside
        ]
        return [ends[0], *map(float, inner), ends[1]], ["emb", *map(str, inner), "const"]
