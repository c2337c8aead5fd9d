"""Small recorded runs with values known in advance: value(step, layer) below."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from depthscope.quantities import DepthLayout
from depthscope.store import ArraySpec, RunWriter, StreamSpec

LAYER_ARRAYS = (
    "state_rms",
    "state_logrms",
    "write_rms",
    "grad_write_rms",
    "fresh_share",
    "write_ratio",
    "write_cosine",
)
KINDS = ("attention", "mlp")
STEPS = tuple(range(0, 301, 10))


def outline(layers: int = 8, block: int = 0, *, unfresh: Sequence[int] = ()) -> DepthLayout:
    """Describe a stack of attention and MLP; `block` sublayers a residual block, 0 for none."""
    return DepthLayout(
        design=f"block-attnres:S={block}" if block else "prenorm",
        layer_names=tuple(f"layers.{i}" for i in range(layers)),
        layer_kinds=tuple(KINDS[i % 2] for i in range(layers)),
        transformer_block=tuple(i // 2 + 1 for i in range(layers)),
        residual_block=tuple(i // block + 1 if block else 0 for i in range(layers)),
        additive=(not block,) * layers,
        reads=(True,) * layers,
        states=(True,) * layers,
        fresh=tuple(i + 1 not in unfresh for i in range(layers)),
    )


def state(step: int, layers: int, scale: float = 1.0) -> npt.NDArray[np.float64]:
    """The state that `record` writes: it grows with depth and with the step."""
    return scale * (1 + np.arange(1, layers + 1) / layers) * (1 + step / 100)


def rows(step: int, layers: int, scale: float = 1.0) -> dict[str, Any]:
    """All values of one row of the fast stream."""
    size = state(step, layers, scale)
    layer = np.arange(1, layers + 1)
    return {
        "state_rms": size,
        "state_logrms": np.log(size),
        "write_rms": size / 2,
        "grad_write_rms": 0.1 / layer,
        "fresh_share": 1 / (layer + 1.0),
        "write_ratio": 0.5 / np.sqrt(layer),
        "write_cosine": np.cos(layer),
        "loss": 5 * np.exp(-step / 100) + scale,
        "tokens": 64.0 * step,
    }


def start(
    path: Path,
    *,
    layers: int = 8,
    block: int = 0,
    config: Mapping[str, Any] | None = None,
    unfresh: Sequence[int] = (),
    name: str | None = None,
    arrays: Sequence[str] = LAYER_ARRAYS,
) -> RunWriter:
    """Create an empty run whose rows stay in the log until it is closed."""
    layout = outline(layers, block, unfresh=unfresh)
    return RunWriter.create(
        path,
        name=name or path.name,
        config={"kind": "AttnRes block" if block else "PreNorm", "steps": 300, **(config or {})},
        layout=layout,
        streams=[
            StreamSpec(
                name="fast",
                arrays=[
                    *(ArraySpec(name=array, dims=("layer",), shape=(layers,)) for array in arrays),
                    ArraySpec(name="loss"),
                    ArraySpec(name="tokens", dtype="f8"),
                ],
                every=10,
            ),
            StreamSpec(name="evaluation"),
        ],
        fsync=False,
    )


def record(
    path: Path,
    *,
    steps: Sequence[int] = STEPS,
    scale: float = 1.0,
    validation: bool = True,
    changes: Mapping[int, Mapping[str, Any]] | None = None,
    **options: Any,
) -> Path:
    """Write a finished run; `changes` replace values of single steps."""
    writer = start(path, **options)
    layers = options.get("layers", 8)
    kept = options.get("arrays", LAYER_ARRAYS)
    for step in steps:
        row = {**rows(step, layers, scale), **(changes or {}).get(step, {})}
        row = {name: value for name, value in row.items() if name in (*kept, "loss", "tokens")}
        assert writer.append("fast", step, row)
        if validation:
            assert writer.append("evaluation", step, {"validation": row["loss"] + 0.1})
    writer.close()
    return path
