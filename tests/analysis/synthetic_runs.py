"""Layouts and arrays of small runs, with numbers chosen by hand."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from depthscope.quantities import DepthLayout
from depthscope.store import Run

WriteRun = Callable[..., Run]
LAYERS = 8


def prenorm_layout(layers: int = LAYERS) -> DepthLayout:
    return DepthLayout(
        design="prenorm",
        layer_names=tuple(f"layers.{index}" for index in range(layers)),
        layer_kinds=("attention", "mlp") * (layers // 2),
        transformer_block=tuple(index // 2 + 1 for index in range(layers)),
        residual_block=(0,) * layers,
        additive=(True,) * layers,
        reads=(True,) * layers,
        states=(True,) * layers,
        fresh=(True,) * layers,
    )


def block_layout(layers: int = LAYERS, size: int = 4) -> DepthLayout:
    """Block AttnRes: target t reads the embedding, the finished blocks, and the unfinished one if there is one."""
    blocks = layers // size
    sources, partial = [], []
    for target in range(layers):
        done, inside = divmod(target, size)
        sources.append(tuple(range(done + 1 + (inside > 0))))
        partial.append(done + 1 if inside else -1)
    plain = prenorm_layout(layers)
    return DepthLayout(
        **{
            **vars(plain),
            "design": f"block-attnres:S={size}",
            "residual_block": tuple(index // size + 1 for index in range(layers)),
            "additive": (False,) * layers,
            "source_names": ("embedding", *(f"block {number}" for number in range(1, blocks + 1))),
            "sources": (*sources, tuple(range(blocks + 1))),
            "partial": (*partial, -1),
        }
    )


def uniform_attention(layout: DepthLayout) -> np.ndarray:
    """Uniform weights [target, source], unreachable entries NaN."""
    weight = np.full((len(layout.sources), len(layout.source_names)), np.nan)
    for target, columns in enumerate(layout.sources):
        weight[target, list(columns)] = 1 / len(columns)
    return weight
