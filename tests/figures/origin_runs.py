"""Small runs with mixing, their values known in advance: what a design's reads are made of, by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from depthscope.quantities import DepthLayout
from depthscope.store import ArraySpec, Coordinate, RunWriter, StreamSpec
from tests.figures.runs import outline, rows

Floats: TypeAlias = npt.NDArray[np.float64]
Design = Literal["prenorm", "full-attnres", "hires", "cancelling"]
STEPS = tuple(range(0, 301, 10))
NO_NUMBERS = "a matrix of the interface lies between"


def shares(design: Design, step: int, target: int) -> Floats:
    """The contributions [target] to read `target` (from 1) of the embedding and of the sublayers before it.

    PreNorm: the embedding's grows with the step, (1 + s) : 1 : ... : 1 with s = step/100. Attention residuals: as
    their weights. HiRes: the newest has half, and 0.1 is the constant's. Cancelling: the first two are 2 and -2 more
    than PreNorm's.
    """
    parts = np.ones(target)
    parts[0] += step / 100
    parts /= parts.sum()
    if design == "hires" and target > 1:
        parts *= 0.4
        parts[-1] += 0.5
    elif design == "hires":
        parts *= 0.9
    if design == "cancelling" and target > 1:
        parts[:2] += [2.0, -2.0]
    return np.asarray(parts)


def constant(design: Design) -> float:
    return 0.1 if design == "hires" else 0.0


def coefficients(design: Design, step: int, target: int) -> Floats:
    """The coefficients: ones in PreNorm, in attention residuals their weights, NaN in HiRes."""
    if design == "hires":
        return np.full(target, np.nan)
    if design == "full-attnres":
        return shares(design, step, target)
    return np.ones(target)


def mixing_row(design: Design, step: int, layers: int) -> dict[str, Floats]:
    """One record: [target, origin] and [target]."""
    held = {name: np.full((layers + 1, layers + 2), np.nan) for name in ("contribution", "coefficient")}
    for target in range(1, layers + 2):
        held["contribution"][target - 1, :target] = shares(design, step, target)
        held["contribution"][target - 1, -1] = constant(design)
        held["coefficient"][target - 1, :target] = coefficients(design, step, target)
    return {
        "mixing_contribution": held["contribution"],
        "mixing_coefficient": held["coefficient"],
        "mixing_cancellation": np.asarray(np.nansum(np.abs(held["contribution"]), axis=1)),
    }


def origin_outline(design: Design, layers: int, block: int = 0) -> DepthLayout:
    layout = outline(layers, block)
    return replace(
        layout,
        design=design,
        layer_names=tuple(f"{i + 1} {'MLP' if i % 2 else 'attention'}" for i in range(layers)),
        mixing=(True,) * (layers + 1),
    )


def record_origins(
    path: Path,
    *,
    design: Design = "prenorm",
    layers: int = 8,
    block: int = 0,
    steps: Sequence[int] = STEPS,
    name: str | None = None,
    undefined: bool = False,
    untaken: Sequence[int] = (),
) -> Path:
    """Write a finished run with mixing; HiRes has no coefficients, and says why.

    `undefined`: coefficients are recorded, and none of them is defined. `untaken`: targets that are not taken apart.
    """
    layout = origin_outline(design, layers, block)
    shape = (layers + 1, layers + 2)
    maps = ["mixing_contribution", *(["mixing_coefficient"] if design != "hires" else [])]
    with RunWriter.create(
        path,
        name=name or path.name,
        config={"kind": design, "steps": 300},
        layout=layout,
        streams=[
            StreamSpec(
                name="fast",
                arrays=[
                    ArraySpec(name="state_logrms", dims=("layer",), shape=(layers,)),
                    ArraySpec(name="loss"),
                    ArraySpec(name="tokens", dtype="f8"),
                ],
                every=10,
            ),
            StreamSpec(
                name="slow",
                arrays=[
                    *(ArraySpec(name=array, dims=("target", "origin"), shape=shape) for array in maps),
                    ArraySpec(name="mixing_cancellation", dims=("target",), shape=shape[:1]),
                ],
                coordinates=[
                    Coordinate(name="target", dim="target", values=list(range(1, layers + 2))),
                    Coordinate(name="target_name", dim="target", values=layout.target_names),
                    Coordinate(name="origin_name", dim="origin", values=layout.origin_names),
                ],
                every=10,
            ),
        ],
        fsync=False,
    ) as writer:
        if design == "hires":
            writer.annotate("missing", {"mixing_coefficient": NO_NUMBERS})
        for step in steps:
            row = rows(step, layers)
            assert writer.append("fast", step, {key: row[key] for key in ("state_logrms", "loss", "tokens")})
            held = mixing_row(design, step, layers)
            for target in untaken:
                for values in held.values():
                    values[target - 1] = np.nan
            if undefined:
                held["mixing_coefficient"][:] = np.nan
            assert writer.append("slow", step, {key: held[key] for key in (*maps, "mixing_cancellation")})
    return path
