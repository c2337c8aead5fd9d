"""Rows in which some forward dropped a layer (stochastic depth): what can't be told from its neighbours' is left out.

A state is seen where the next layer reads it, and in compiled code the gradient of a read where the write before it is
made. Both belong to one layer as long as the two run one after the other. How many token positions each showed tells.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from depthscope.probes import Array

Mask: TypeAlias = npt.NDArray[np.bool_]

REASON = (
    "in steps that drop a layer (stochastic depth), the state and the gradients of its neighbours are missing where code "
    "without a graph (compiled, or in a checkpoint) does not tell them from those of the layer that was dropped"
)
_STATES = ("state_rms", "state_logrms", "abs_max", "nonfinite")


@dataclass(frozen=True, kw_only=True)
class Unsure:
    """Which layers' values may hold what another layer's forward or backward left."""

    state: Mask
    write_gradient: Mask
    read_gradient: Mask

    wrote: Mask
    """Layers that ran in some forward of the row."""

    @property
    def lost(self) -> bool:
        """Whether a layer that ran lacks something."""
        return bool((self.wrote & (self.state | self.write_gradient | self.read_gradient)).any())

    def leave_out(self, values: dict[str, Array]) -> None:
        """Take these values out of a row."""
        held = {name: self.state for name in _STATES}
        held |= {"grad_write_rms": self.write_gradient, "grad_read_rms": self.read_gradient}
        for name in held.keys() & values.keys():
            values[name] = np.where(held[name], np.nan, values[name])


def unsure(tokens: Sequence[Mapping[str, Array]], *, traced: bool) -> Unsure | None:
    """Return what is unsure in a row of these token positions, by probe and site kind; None when every layer ran.

    `traced` says that compiled code ran, where what a port shows is not followed to the layer that made it.
    """
    write = _of(tokens, "write")
    if write is None:
        return None
    # What passes once in a forward, unless it is seen inside of a block that was dropped; most layers run in most.
    once = [float(seen[0]) for kind in ("embedding", "final_read") if (seen := _of(tokens, kind)) is not None]
    if (write == write[0]).all() and write[0] >= max(once, default=0.0):
        return None
    short = write < max([*once, np.median(write)])
    if not short.any():
        return None
    before = np.concatenate([[False], short[:-1]])
    return Unsure(
        state=_differs(write, _of(tokens, "state")) | (short & traced),
        write_gradient=_differs(write, _of(tokens, "write_gradient")),
        read_gradient=(short | before) & traced,
        wrote=write > 0,
    )


def _of(tokens: Sequence[Mapping[str, Array]], kind: str) -> Array | None:
    """Return the token positions of a site kind; the probe that saw most of them tells."""
    held = [counts[kind] for counts in tokens if kind in counts]
    return max(held, key=np.sum) if len(held) > 1 else held[0] if held else None


def _differs(write: Array, seen: Array | None) -> Mask:
    other: Mask = write != (np.zeros_like(write) if seen is None else seen)
    return other
