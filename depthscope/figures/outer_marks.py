"""Marks of an outer state's values, the same on the page and on paper: a word and a shape for each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from depthscope.figures.ticks import layer_ticks

_PLAIN_TICKS = 8
_GLYPHS = {"square": "■□", "circle": "●○", "diamond": "◆◇", "tick": "––"}
_PAPER = {"square": "s", "circle": "o", "diamond": "D", "tick": "_"}
_PLOTLY = {"square": "square", "circle": "circle", "diamond": "diamond", "tick": "line-ew"}
MOST_MARKED = 16
"""Blocks above which only some carry a mark: marks that touch hide the line."""


@dataclass(frozen=True, kw_only=True)
class Mark:
    """How one value of `outer_state_data` is marked and called."""

    words: str
    shape: Literal["square", "circle", "diamond", "tick"]
    filled: bool = True

    @property
    def label(self) -> str:
        """The words behind the shape itself: ``● write``."""
        return f"{_GLYPHS[self.shape][0 if self.filled else 1]} {self.words}"

    @property
    def plotly(self) -> str:
        return _PLOTLY[self.shape]

    @property
    def paper(self) -> str:
        return _PAPER[self.shape]


MARKS: Mapping[str, Mark] = {
    "energy": Mark(words="before the norm", shape="square"),
    "write": Mark(words="write", shape="circle"),
    "carry": Mark(words="carry", shape="circle", filled=False),
    "write_ratio": Mark(words="ratio", shape="diamond"),
    "write_cosine": Mark(words="cosine", shape="diamond", filled=False),
    "gate_read": Mark(words="read", shape="circle"),
    "gate_write": Mark(words="write", shape="circle", filled=False),
    "gate_read_initial": Mark(words="first record", shape="tick"),
    "gate_write_initial": Mark(words="first record", shape="tick"),
    "extra_share": Mark(words="share", shape="square"),
}


def block_ticks(blocks: int) -> list[int]:
    """Return the blocks to label: all of a few, else the first, round numbers and the last."""
    return list(range(1, blocks + 1)) if blocks <= _PLAIN_TICKS else layer_ticks(blocks, [0] * blocks)


def marked_every(blocks: int) -> int:
    """Return the distance in blocks of marks along a line."""
    return -(-blocks // MOST_MARKED)
