"""What a model looks up for its tokens: taken out of a replay in which the embedding gives nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

_TABLES = frozenset({F.embedding, torch.embedding, F.embedding_bag})
_PICKS = frozenset({Tensor.__getitem__, torch.index_select, Tensor.index_select})


def is_lookup(function: Callable[..., Any], args: tuple[Any, ...]) -> bool:
    """Return whether a call takes rows of a table by numbers of tokens or positions."""
    if function in _TABLES:
        return True
    picked = function in _PICKS and len(args) > 1 and isinstance(args[0], nn.Parameter)
    return picked and any(
        isinstance(index, Tensor) and not (index.is_floating_point() or index.dtype == torch.bool)
        for index in args[1:]
    )


class NoLookups(TorchFunctionMode):
    """Let every lookup give zeros: what then is left of a read comes from no token."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        value = func(*args, **(kwargs or {}))
        return torch.zeros_like(value) if is_lookup(func, args) else value
