"""Which sublayers form a residual block."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from depthscope.models.option import joined


@dataclass(frozen=True)
class ResidualBlocks:
    """Consecutive blocks of sublayers; sublayers and blocks are counted from 0 here."""

    ends: tuple[int, ...]
    """How many sublayers lie before the end of each block; the last entry is L."""

    @classmethod
    def of_size(cls, layers: int, size: int) -> ResidualBlocks:
        """Return blocks of `size` sublayers, the last one shorter where `size` does not divide `layers`."""
        if not 1 <= size <= layers:
            raise ValueError(
                f"S={size}: expected the sublayers of a block, from 1 to {layers}, the number of all sublayers"
            )
        return cls((*range(size, layers, size), layers))

    @classmethod
    def at(cls, layers: int, boundaries: Sequence[int]) -> ResidualBlocks:
        """Return blocks that end after the given numbers of sublayers; the end of the last may be left out."""
        ends = tuple(boundaries)
        if ends[-1:] != (layers,):
            ends = (*ends, layers)
        if ends[0] < 1 or any(after <= before for before, after in pairwise(ends)):
            raise ValueError(
                f"boundaries={joined(boundaries)}: expected rising numbers of sublayers from 1 to {layers}, "
                "one for the end of each block"
            )
        return cls(ends)

    def __len__(self) -> int:
        return len(self.ends)

    def of(self, layer: int) -> int:
        """Return the block that holds a sublayer."""
        return next(block for block, end in enumerate(self.ends) if layer < end)

    def start(self, block: int) -> int:
        """Return the first sublayer of a block."""
        return self.ends[block - 1] if block else 0

    def members(self, block: int) -> range:
        """Return the sublayers of a block."""
        return range(self.start(block), self.ends[block])

    def starts(self, layer: int) -> bool:
        """Return whether a sublayer is the first of its block."""
        return layer == 0 or layer in self.ends

    def finishes(self, layer: int) -> bool:
        """Return whether a sublayer is the last of its block."""
        return layer + 1 in self.ends
