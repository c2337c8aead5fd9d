"""What a rule is: the needs of one kind of finding, and the function that looks for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from depthscope.analysis.finding import Finding
from depthscope.analysis.records import Records
from depthscope.quantities import DepthLayout


@dataclass(frozen=True, kw_only=True)
class Rule:
    """One kind of finding."""

    kind: str
    question: str
    """What the rule asks, in words."""
    find: Callable[[Records], list[Finding]]
    needs: tuple[str, ...]
    """Quantities without which nothing can be said; the reason is then given in place of a finding."""
    excludes: Callable[[DepthLayout], str] = lambda layout: ""
    """Why the question makes no sense for a layout; empty where it does."""


def one_stream(layout: DepthLayout) -> bool:
    """Return whether every write goes to one accumulated stream: s_l = h_l + f_l all the way up."""
    return bool(layout.additive) and all(layout.additive) and not layout.sources and not layout.outer_blocks


def no_wide_state(layout: DepthLayout) -> str:
    """Return why questions about an outer state make no sense for a layout; empty where they do."""
    return "" if layout.outer_blocks else "the design has no wide outer state"


def restarts(layout: DepthLayout) -> bool:
    """Return whether the sum of writes starts anew in each residual block (Block Attention Residuals)."""
    blocks = set(layout.residual_block)
    return 0 not in blocks and len(blocks) > 1 and not layout.outer_blocks and not all(layout.additive)
