"""Token ids held to the vocabulary of a model, before a device meets one that is not there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor, nn

from depthscope.causal.batch import WHOLE, refuse_beyond
from depthscope.marks import DepthAxis


def refuse_unknown_tokens(
    model: nn.Module, axis: DepthAxis, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> None:
    """Raise BatchError where a forward is given an id beyond its embedding; nothing where that is not known."""
    rows = [
        parameter.shape[0]
        for name, parameter in model.named_parameters(remove_duplicate=False)
        if parameter.ndim == 2
        and any(name == known or name.startswith(f"{known}.") for known in axis.embedding_parameters)
    ]
    ids = args[0] if args else kwargs.get("input_ids")
    if rows and isinstance(ids, Tensor) and ids.dtype in WHOLE and ids.numel():
        refuse_beyond("token", ids, max(rows))
