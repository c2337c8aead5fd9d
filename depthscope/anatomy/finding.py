"""What was found in one block."""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import Tensor

from depthscope.anatomy.sample import close
from depthscope.anatomy.words import Kind
from depthscope.marks import Port


@dataclass(frozen=True, kw_only=True)
class Check:
    """One identity that was looked at in the model's own numbers."""

    name: str
    block: str
    """Module path of the block that it was looked at in."""
    value: float
    """Relative error."""
    tolerance: float
    passed: bool

    def __str__(self) -> str:
        verdict = "passed" if self.passed else "failed"
        return f"{self.block}, {self.name}: {self.value:.1e} (tolerance {self.tolerance:g}, {verdict})"


@dataclass(frozen=True, kw_only=True)
class FoundSublayer:
    """One sublayer of a block; module paths are those of the model."""

    name: str
    kind: Kind
    read: Port | None
    write: Port
    state: Port | None
    """Where the stream after this write is seen inside the block; for the last one always None."""
    writes_before: int | None
    """How many of the block's writes the stream holds that is read."""
    parameters: tuple[str, ...]


@dataclass(eq=False, kw_only=True)
class BlockFinding:
    """One transformer block: its sublayers, or the reason why there are none."""

    path: str
    entry: Port | None = None
    """Where the stream goes in."""
    leave: Port | None = None
    sublayers: tuple[FoundSublayer, ...] = ()
    reason: str = ""
    checks: list[Check] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    entering: Tensor | None = None
    """Sample of the stream in the model's own forward."""
    leaving: Tensor | None = None

    def continues(self, entering: Tensor | None, tolerance: float) -> bool:
        """Whether a later tensor is what leaves this block."""
        return (
            self.leaving is not None
            and entering is not None
            and self.leaving.shape == entering.shape
            and close(self.leaving, entering, tolerance)
        )
