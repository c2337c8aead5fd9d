"""What cannot be measured, in words."""

from __future__ import annotations


class CausalError(ValueError):
    """An intervention or a lens that a model does not allow; the message says what was found and expected."""


class BatchError(CausalError):
    """Batches that nothing can be measured on: of another form, without a target, or refused by the model."""
