"""What a probe is: a pure reduction at sites of the depth axis, and what becomes of it on the host."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from depthscope.probes.activation import Activation
from depthscope.quantities import DepthLayout

Merge = Literal["sum", "max", "min", "norm"]
"""How the values of one moment become one. ``norm`` is for the L2 norm of a parameter or of its gradient: the
largest within a rank, and across ranks the root of the sum of squares over the shards, each counted once."""
SiteKind = Literal[
    "embedding",
    "final_read",
    "write",
    "state",
    "residual",
    "mixed_write",
    "write_gradient",
    "read_gradient",
    "mixer",
    "replay",
    "query",
    "outer_block",
    "outer_direct",
    "gates",
    "parameters",
]
Array: TypeAlias = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Site:
    """One place on the depth axis where a probe looks: entry `position` (from 0) of the kind's own axis."""

    kind: SiteKind
    position: int
    fresh: bool = False
    """At a write: the next read is the state that this write makes."""
    columns: tuple[int, ...] = ()
    """At a mixer: the column on the source axis of each source, in order; at a replay, that on the origin axis."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """What the host knows about one optimizer step when its moments are merged."""

    step: int
    layout: DepthLayout
    loss_tokens: float
    """N: tokens that count in the loss over the whole optimizer step, summed over all ranks."""
    loss_scale: float
    """What activation gradients are divided by: the GradScaler's scale times the number of ranks, since the loss
    is the mean of theirs and each backward knows only its own."""
    tokens: Mapping[str, Array]
    """For each site kind, the token positions merged into each entry; 0 where a site did not fire."""
    width: Mapping[str, Array]
    """For each site kind, the feature width at each entry."""


class Probe(Protocol):
    """A frozen dataclass that reduces tensors to moments and moments to quantities.

    Positions that do not count (`Activation.counted`) stay out of every moment: `totals`, `sum_over_tokens` and
    `largest_entry` see to that. What is not counted may be NaN.

    `moments` is pure and returns fp32 tensors of a shape fixed by the site; micro-batches and ranks merge
    by the rule that `merges` declares for each moment, and by nothing else. `finish` gets, for every moment, an
    fp64 array with one entry per site position (NaN where no site fired; a moment over sources is laid
    out on the source axis) and returns arrays shaped like the quantities' dims after ``step``.
    """

    @property
    def name(self) -> str: ...
    @property
    def stream(self) -> str: ...
    @property
    def quantities(self) -> tuple[str, ...]: ...
    @property
    def sites(self) -> tuple[SiteKind, ...]: ...
    @property
    def merges(self) -> Mapping[str, Merge]: ...

    def moments(self, site: Site, seen: Mapping[str, Activation]) -> dict[str, Tensor]: ...

    def finish(self, merged: Mapping[str, Array], row: Row) -> dict[str, Array]: ...


class Totals(dict[str, Tensor]):
    """Moments of which the first were made as one vector, which is how they travel on."""

    __slots__ = ("count", "together")
    together: Tensor
    """Shape [count]: the first moments."""
    count: int


def totals(per_token: Mapping[str, Tensor], counted: Tensor | None) -> dict[str, Tensor]:
    """Sum every [tokens] vector over the positions that count: one stacked reduction, not one launch a moment.

    In eager code they are `Totals`.
    """
    if len(per_token) == 1:
        ((name, values),) = per_token.items()
        together = sum_over_tokens(values, counted).reshape(1)
        sums = {name: together[0]}
    else:
        together = sum_over_tokens(torch.stack(tuple(per_token.values())), counted)
        sums = dict(zip(per_token, together.unbind(), strict=True))
    if torch.compiler.is_compiling():  # where a vector taken apart and put together again costs nothing
        return sums
    moments = Totals(sums)
    moments.together, moments.count = together, len(sums)
    return moments


def sum_over_tokens(values: Tensor, counted: Tensor | None) -> Tensor:
    """Sum [..., tokens] over the positions that count."""
    # Not a product with the mask: a position that does not count may be NaN.
    return (values if counted is None else torch.where(counted, values, 0)).sum(-1)


def largest_entry(seen: Activation) -> Tensor:
    """Return the largest absolute entry over the positions that count; minus infinity without one."""
    if seen.counted is None and not torch.compiler.is_compiling():
        low, high = torch.aminmax(seen.tensor)
        return torch.maximum(-low, high)
    # Token by token, which in compiled code shares the pass over the tensor with the norms.
    low, high = torch.aminmax(seen.tensor.reshape(-1, seen.width), dim=-1)
    largest = torch.maximum(-low, high)
    return (largest if seen.counted is None else torch.where(seen.counted, largest, -torch.inf)).amax()
