"""The arrays of a run, from its probes and the outline of its depth axis."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from depthscope.probes import Gradient, Probe, definitions_of
from depthscope.quantities import DepthLayout, Mask, Quantity, reachable
from depthscope.store import ArraySpec, StreamSpec

NAMED_BY_THE_USER = ("metrics", "evaluation")
"""Streams whose arrays appear with the first value of their name."""

_ABSENT = {
    "mixed_layer": "the model has no depth mixer",
    "target": "the model has no depth mixer",
    "target_of_two": "the model has no depth mixer whose weights sum to 1",
    "source": "the model has no depth mixer",
    "source_head": "the model has no depth mixer with several heads",
    "mixing": "the residual network of this model is not replayed",
    "mixing_origin": "the residual network of this model is not replayed",
    "block": "the model has no wide outer state",
    "block_side": "the model has no wide outer state",
    "block_interface": "the model has no wide outer state",
    "block_channel": "the model has no wide outer state",
    "later_block": "the model has no wide outer state of several blocks",
    "has_outer": "the model has no wide outer state",
    "fresh": "no next read is known to hold the newest write",
    "read": "no module shows what the sublayers read",
    "state": "no module shows the stream after a write",
    "output": "what the sublayer gives is the write itself",
    "state_prenorm": "no norm ends the state",
    "stream": "the model has no streams",
    "stream_pair": "the model has no streams",
    "stream_layer": "the model has no streams",
    "doubly_stochastic": "the model has no streams that doubly stochastic matrices mix",
    "embedding": "no module shows the embedding's output",
    "final_read": "no module shows the last read",
}


def absence(quantity: Quantity) -> str:
    """Return why a model can lack a quantity, or some entries of it."""
    return _ABSENT[quantity.reach]


def _any(mask: Mask) -> bool:
    return mask if isinstance(mask, bool) else any(_any(part) for part in mask)


def _sizes(layout: DepthLayout) -> dict[str, int]:
    return {
        "layer": layout.layers,
        "target": len(layout.sources) or len(layout.mixing),
        "source": len(layout.source_names),
        "head": layout.heads,
        "origin": len(layout.origin_names),
        "block": layout.outer_blocks,
        "side": 2,
        "interface": 3,
        "later_block": layout.outer_blocks,
        "channel": layout.outer_width,
        "stream": layout.streams,
        "stream_out": layout.streams,
        "stream_in": layout.streams,
    }


def absent(probes: Sequence[Probe], layout: DepthLayout) -> dict[str, str]:
    """Return, for each quantity that the probes know but this model can't have, the reason."""
    known = definitions_of(probes)
    return {
        name: absence(known[name])
        for probe in probes
        for name in probe.quantities
        if not _any(reachable(known[name], layout))
    }


def held(
    definitions: Mapping[str, Quantity], missing: Collection[str], recorded: Collection[str]
) -> dict[str, str]:
    """Return, of the quantities that are missing, those that a reader finds in a recorded one, with words for it."""
    return {
        name: f"{name} is read from {holder}: at steps of its {definitions[holder].stream} stream, over a sample of tokens"
        for name in missing
        if (holder := definitions[name].held_by) in recorded
    }


def streams(
    probes: Sequence[Probe],
    layout: DepthLayout,
    every: Mapping[str, int],
    *,
    mantissa_bits: int | None = None,
    ranks: int = 1,
) -> list[StreamSpec]:
    """Return the streams with every array that some entry of this model can reach, merged over `ranks`.

    f4 arrays over the depth axis keep `mantissa_bits`; scalars keep all.
    """
    sizes, missing = _sizes(layout), absent(probes, layout)
    by_probe = {name for probe in probes for name in probe.quantities}
    specs = []
    for stream in every:
        recorded = [
            quantity
            for quantity in definitions_of(probes).values()
            if quantity.stream == stream
            and not quantity.derived
            and quantity.name not in missing
            and (quantity.name in by_probe or not quantity.dims)
            and (quantity.name in by_probe or stream == "fast")
        ]
        if recorded:
            specs.append(
                StreamSpec(
                    name=stream,
                    arrays=tuple(_array(quantity, sizes, mantissa_bits, ranks) for quantity in recorded),
                    every=every[stream],
                )
            )
    return [*specs, *(StreamSpec(name=name) for name in NAMED_BY_THE_USER)]


def _array(quantity: Quantity, sizes: Mapping[str, int], mantissa_bits: int | None, ranks: int) -> ArraySpec:
    attributes: dict[str, Any] = dict(quantity.attributes())
    if ranks > 1:
        attributes["ranks"] = ranks
        if quantity.name in Gradient.quantities:
            attributes["rank_factor"] = 1 / ranks  # each rank's backward knows its own mean loss only
    exact = quantity.units in ("tokens", "bytes") and not quantity.dims
    dtype = (
        "f2"
        if quantity.reach in ("source", "source_head") and quantity.units == "1"
        else "f8"
        if exact
        else "f4"
    )
    return ArraySpec(
        name=quantity.name,
        dims=quantity.dims,
        shape=tuple(sizes[dim] for dim in quantity.dims),
        dtype=dtype,
        attributes=attributes,
        mantissa_bits=mantissa_bits if quantity.dims and dtype == "f4" else None,
    )
