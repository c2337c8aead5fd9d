"""Words that several definitions share."""

from __future__ import annotations

OURS = "depthscope definitions"
ATTNRES = "Attention Residuals, arXiv 2603.15031"
TOKENS = "all tokens of the optimizer step"
