"""PreNorm, the design that the others are compared with."""

from __future__ import annotations

from depthscope.models.option import Design
from depthscope.models.residual import Residual

PreNorm = Residual
"""h = s, s <- s + f (Xiong et al., arXiv 2002.04745): the protocol's base class as it is."""

PRENORM = Design(name=PreNorm.name, label=PreNorm.label, build=PreNorm, example="prenorm")
