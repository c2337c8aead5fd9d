"""Sizes and choices of the reference decoder."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, kw_only=True)
class DecoderConfig:
    """What the reference decoder is made of; the residual design is given apart from it.

    Raises ValueError when the sizes do not fit together.
    """

    vocabulary: int = 256
    """Number of token ids; 256 for bytes."""
    width: int = 64
    """d, the width of what a sublayer reads and writes."""
    layers: int = 24
    """L, the number of sublayers: attention and MLP each count as one, so a transformer block is two."""
    heads: int = 4
    context: int = 128
    """Longest sequence in tokens."""
    positions: Literal["rotary", "learned"] = "rotary"
    """Rotary angles inside attention, or a learned vector added to the token's embedding."""
    mlp: Literal["swiglu", "gelu"] = "swiglu"
    mlp_width: int | None = None
    """Hidden width of the MLP; None: 4 d for GELU, 8/3 d rounded up to a multiple of 8 for SwiGLU."""
    experts: int = 1
    """MLPs beside each other in every MLP sublayer; 1: a plain MLP. Each is `mlp_width` wide."""
    active_experts: int = 2
    """Experts that compute a token, the best by its router, where there is more than one."""
    tied_head: bool = False
    """Share one matrix between the token embedding and the LM head."""
    norm_eps: float = 1e-6
    """Added to the mean square in every RMSNorm, that of a depth mixer's keys included."""
    init_std: float = 0.02
    """Standard deviation of every matrix at the start."""
    embedding_std: float | None = None
    """Standard deviation of the token embedding at the start; None: init_std. With a tied head leave it out."""
    depth_scaled_init: bool = False
    """Start the last matrix of each sublayer at init_std / sqrt(L), as GPT-2 does."""
    checkpoint: bool = False
    """Recompute each layer in the backward pass instead of keeping its activations."""

    def __post_init__(self) -> None:
        sizes = {
            "vocabulary": self.vocabulary,
            "width": self.width,
            "layers": self.layers,
            "heads": self.heads,
            "context": self.context,
            "experts": self.experts,
            "mlp_width": self.mlp_width,
        }
        for name, size in sizes.items():
            if size is not None and size < 1:
                raise ValueError(f"{name}={size}: expected 1 or more")
        if self.layers % 2:
            raise ValueError(
                f"layers={self.layers}: attention and MLP sublayers alternate, so the number of sublayers "
                f"is even; try layers={self.layers + 1}"
            )
        if self.width % self.heads:
            raise ValueError(
                f"width={self.width} does not divide into heads={self.heads}; choose heads from the divisors "
                f"of {self.width}"
            )
        if self.positions not in ("rotary", "learned"):
            raise ValueError(f"positions={self.positions!r}: expected 'rotary' or 'learned'")
        if self.mlp not in ("swiglu", "gelu"):
            raise ValueError(f"mlp={self.mlp!r}: expected 'swiglu' or 'gelu'")
        if self.experts > 1 and not 1 <= self.active_experts <= self.experts:
            raise ValueError(
                f"active_experts={self.active_experts}: expected 1 to {self.experts}, the number of experts"
            )
        if self.positions == "rotary" and self.head_width % 2:
            raise ValueError(
                f"width={self.width} over heads={self.heads} gives heads of odd width {self.head_width}; rotary "
                "positions turn pairs of features: choose an even head width or positions='learned'"
            )

    @property
    def head_width(self) -> int:
        return self.width // self.heads

    @property
    def hidden_width(self) -> int:
        """Hidden width of the MLP."""
        if self.mlp_width is not None:
            return self.mlp_width
        return 4 * self.width if self.mlp == "gelu" else -(-8 * self.width // 3 // 8) * 8
