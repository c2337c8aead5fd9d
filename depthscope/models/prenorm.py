"""PreNorm, the design that the others are compared with."""

from __future__ import annotations

from depthscope.models.residual import Residual

PreNorm = Residual
"""h = s, s <- s + f (Xiong et al., arXiv 2002.04745): the protocol's base class as it is."""
