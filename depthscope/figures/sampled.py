"""Values that are read from another quantity, which is taken over a sample of tokens: which runs have such, in words."""

from __future__ import annotations

from depthscope.figures.bands import runs_words
from depthscope.figures.labelled import Labelled
from depthscope.figures.readable import ReadableRun
from depthscope.quantities import quantity as look_up


def is_sampled(run: ReadableRun, quantity: str) -> bool:
    """Return whether `run` holds `quantity` among the entries of another one, at the slow stream's steps."""
    entry = look_up(quantity)
    return bool(entry.held_by) and run.stream_of(quantity) != entry.stream


def sampled_words(data: Labelled) -> str:
    """Return of which runs the values are means over a sample of tokens only; empty where of none."""
    names = [data.names[run] for run, array in data.arrays.items() if array.attrs.get("sampled")]
    return f"{runs_words(names)}: a sample of tokens" if names else ""
