"""Words that several definitions share."""

from __future__ import annotations

OURS = "depthscope definitions"
ATTNRES = "Attention Residuals, arXiv 2603.15031"
TOKENS = "all tokens of the optimizer step"
TOKEN_MASK = "all positions, unless the run's note 'token_mask' says otherwise"
"""What a mask left out; on reading, the note takes this attribute's place."""
SAMPLE = "a sample of tokens, its size in sample_tokens"
SAMPLE_TOKENS = "as many as the run's note 'sample_tokens' says"
"""How many tokens a sample had; on reading, the note takes this attribute's place."""
