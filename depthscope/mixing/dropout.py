"""Dropout that is no module, switched off while a depth axis is looked for that is read in evaluation only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch.overrides import TorchFunctionMode

_DROPOUTS = frozenset(
    {
        F.dropout, F.dropout1d, F.dropout2d, F.dropout3d, F.alpha_dropout, F.feature_alpha_dropout,
        torch.dropout, torch.alpha_dropout, torch.feature_dropout, torch.feature_alpha_dropout,
    }
)  # fmt: skip


class DropoutOff(TorchFunctionMode):
    """Let every dropout give what it took.

    A recorder needs an axis that holds while the model trains, so the search for it runs blocks in training mode. A
    replay runs in evaluation mode, where a function called with ``training=False`` does nothing; one that drops there
    too leaves a gap in the replay, which is looked at.
    """

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if func in _DROPOUTS:
            return args[0] if args else kwargs["input"]
        return func(*args, **kwargs)
