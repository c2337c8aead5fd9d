"""Ways to compile the foreign GPT."""

from __future__ import annotations

from typing import Any

import pytest
import torch

FROM_TORCH_ITSELF = pytest.mark.filterwarnings(
    # Also without a recorder: for a compiled module whose input is no leaf.
    "ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning"
)


def eager(model: Any) -> Any:
    return model


def whole(model: Any) -> Any:
    return torch.compile(model, fullgraph=True, backend="aot_eager")


def in_place(model: Any) -> Any:
    model.compile(fullgraph=True, backend="aot_eager")
    return model


def each_block(model: Any) -> Any:
    for stage in model.tower:
        stage.compile(fullgraph=True, backend="aot_eager")
    return model
