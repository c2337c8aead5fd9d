"""ReZero: every sublayer starts switched off."""

from __future__ import annotations

from typing import ClassVar

from torch import nn

from depthscope.models.branch import BranchResidual
from depthscope.models.gain import Gain
from depthscope.models.option import Design


class ReZero(BranchResidual):
    """h = s, s <- s + a_l o_l with one learned a_l a sublayer, 0 at the start (Bachlechner et al., arXiv 2003.04887, Eq. 1).

    The paper drops the norms of its Transformer; taken here: the sublayer's PreNorm stays, as in every design
    of this decoder. While a_l = 0 no gradient reaches the sublayer's own matrices.
    """

    name: ClassVar[str] = "rezero"
    label: ClassVar[str] = "ReZero"

    def branch(self, layer: int) -> nn.Module:
        return Gain(1, 0.0)


REZERO = Design(name=ReZero.name, label=ReZero.label, build=ReZero, example="rezero")
