"""LayerScale: a small learned factor for every feature of what a sublayer gives."""

from __future__ import annotations

from typing import ClassVar

from torch import nn

from depthscope.models.branch import BranchResidual
from depthscope.models.config import DecoderConfig
from depthscope.models.gain import Gain
from depthscope.models.option import Design, Option, typed
from depthscope.models.precision import in_float32


class LayerScale(BranchResidual):
    """h = s, s <- s + diag(lambda_l) o_l (Touvron et al., "Going deeper with image Transformers", arXiv 2103.17239, Section 2).

    All of lambda starts at 0.1 in models of at most 18 transformer blocks, at 1e-5 up to 24, and at 1e-6 in deeper
    ones, the paper's values for image models; `start` sets another.
    """

    name: ClassVar[str] = "layerscale"
    label: ClassVar[str] = "LayerScale"

    def __init__(self, config: DecoderConfig, *, start: float | None = None) -> None:
        self.start = usual_start(config.layers // 2) if start is None else start
        if not (self.start > 0 and in_float32(self.start)):
            raise ValueError(f"start={self.start:g}: expected a finite number above 0, e.g. start=0.1")
        super().__init__(config)

    @property
    def design(self) -> str:
        return typed(self.name, start=self.start)

    def branch(self, layer: int) -> nn.Module:
        return Gain(self.config.width, self.start)


def usual_start(transformer_blocks: int) -> float:
    """Return the paper's lambda at the start for a depth."""
    if transformer_blocks <= 18:
        return 0.1
    return 1e-5 if transformer_blocks <= 24 else 1e-6


LAYERSCALE = Design(
    name=LayerScale.name,
    label=LayerScale.label,
    build=LayerScale,
    options={"start": Option(argument="start", parse=float, example="start=0.1")},
    example="layerscale:start=0.1",
)
