"""The whole row of one process on the global batch, by the slow reference: no probe, no recorder, no ranks."""

from __future__ import annotations

from typing import Any

import numpy as np
from torch import Tensor, nn

from tests.ranks.models import ROWS, batch_of, together, trained
from tests.recording import reference
from tests.recording.loops import LAYERS, TIME


def row_of(model: Any, inputs: Tensor, targets: Tensor, mask: Tensor | None = None) -> dict[str, Any]:
    """Return every quantity of the fast stream, and of the slow one where the design has it.

    Over the positions of `mask`, where one is given: the targets of the others are to be left out of the loss.
    Leaves the gradients of the mean loss in the parameters.
    """
    seen = reference.capture(model, inputs, targets)
    if mask is not None:
        seen = reference.counted_only(seen, mask)
    name = getattr(getattr(model, "residual", None), "name", "")
    attnres = name.endswith("attnres")
    row: dict[str, Any] = reference.over_layers(seen)
    del row["grad_state_rms"]
    for tensor, value in (("embedding", seen.embedding), ("final_read", seen.final_read)):
        row[f"{tensor}_rms"], row[f"{tensor}_logrms"] = reference.rms(value), reference.logrms(value)
    row |= {"loss": seen.loss.item(), "loss_tokens": len(reference.tokens(seen.writes[0])), "tokens": 0}
    alphas = reference.depth_weights(model, seen) if attnres else None
    ends = {i for i in range(LAYERS) if model.residual.blocks.finishes(i)} if name == "hires" else set()
    row["fresh_share"] = reference.fresh_share(seen, alphas, ends)
    row |= parameter_gradients(model)
    if attnres:
        row |= reference.depth_attention(model, seen, len(model.residual.source_names()))
    if name == "hires":
        row |= reference.outer_state(model, seen)
    return row


def parameter_gradients(model: Any) -> dict[str, Any]:
    """Return the norms of the gradients that are in the parameters."""
    if hasattr(model, "tower"):
        layers = [
            [f"tower.{i}.{part}." for part in parts]
            for i in range(len(model.tower))
            for parts in (("u", "alpha"), ("w", "beta"))
        ]
        others = {"embedding": ["letters.", "places."], "head": ["out."], "final_norm": ["last."]}
    else:
        layers = [[f"layers.{index}."] for index in range(LAYERS)]
        others = {"embedding": ["embedding."], "head": ["head."], "final_norm": ["norm."]}
    row: dict[str, Any] = {"param_grad_norm": np.array([_norm(model, parts) for parts in layers])}
    row |= {f"{group}_grad_norm": _norm(model, parts) for group, parts in others.items()}
    return row | {"grad_norm": _norm(model, [""])}


def _norm(model: nn.Module, prefixes: list[str]) -> float:
    return float(np.sqrt(sum(reference.gradient_norms(model, prefix) ** 2 for prefix in prefixes)))


SIGNED = {"write_cosine", "write_dot", "outer_write_cosine", "depth_contribution", "fresh_share"}
"""Means that may vanish: compared on the scale of what is averaged."""


def compare(found: dict[str, Any], expected: dict[str, Any], tolerance: float = 1e-5) -> None:
    for name, value in expected.items():
        relative = 10 * tolerance if name == "depth_attention_std" else tolerance
        scale = tolerance if name in SIGNED or name.startswith("depth_") else 1e-12
        np.testing.assert_allclose(
            found[name], value, rtol=relative, atol=scale, equal_nan=True, err_msg=name
        )


TOKENS = ROWS * TIME
FORWARD = (
    "write_rms",
    "state_rms",
    "read_rms",
    "write_ratio",
    "abs_max",
    "grad_write_rms",
    "grad_read_rms",
    "loss",
)


def alone(place: int) -> dict[str, Any]:
    """What one rank of the prenorm decoder sees on a batch by itself."""
    return row_of(trained("prenorm"), *batch_of(place))


def only_rank_zero(row: dict[str, Any], place: int) -> None:
    wanted = alone(place)
    compare(row, {name: wanted[name] for name in FORWARD})
    assert row["loss_tokens"] == TOKENS


def both_ranks(row: dict[str, Any], place: int) -> None:
    wanted = row_of(trained("prenorm"), *together([batch_of(place), batch_of(place + 1)]))
    compare(row, {name: wanted[name] for name in (*FORWARD, "param_grad_norm", "grad_norm")})
    assert row["loss_tokens"] == 2 * TOKENS
