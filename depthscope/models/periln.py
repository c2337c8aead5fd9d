"""Peri-LN: a norm on both sides of every sublayer."""

from __future__ import annotations

from typing import ClassVar

from torch import nn

from depthscope.models.branch import BranchResidual
from depthscope.models.norm import RMSNorm
from depthscope.models.option import Design


class PeriLN(BranchResidual):
    """h = s, s <- s + Norm(o) with o = F(Norm(h)) (Kim et al., "Peri-LN", arXiv 2502.02732; sandwich norm).

    Taken here: v_0 enters the stream as it is, without the paper's optional norm of the embedding. `branches.{l}`
    is the outer norm.
    """

    name: ClassVar[str] = "peri-ln"
    label: ClassVar[str] = "Peri-LN"

    def branch(self, layer: int) -> nn.Module:
        return RMSNorm(self.config.width, self.config.norm_eps)


PERI_LN = Design(name=PeriLN.name, label=PeriLN.label, build=PeriLN, example="peri-ln")
