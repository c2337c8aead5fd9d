"""The labels that follow from the outline of the depth axis: layer names, targets, sources, blocks."""

from __future__ import annotations

from collections.abc import Iterable

from depthscope.quantities import DepthLayout
from depthscope.store.specification import Coordinate


def root_coordinates(layout: DepthLayout) -> list[Coordinate]:
    """Return the labels over ``layer``, counted from 1; empty for a layout without layers."""
    if not layout.layers:
        return []
    return [
        Coordinate(name="layer", dim="layer", values=range(1, layout.layers + 1)),
        Coordinate(name="layer_name", dim="layer", values=layout.layer_names),
        Coordinate(name="layer_kind", dim="layer", values=layout.layer_kinds),
        Coordinate(name="transformer_block", dim="layer", values=layout.transformer_block),
        Coordinate(name="residual_block", dim="layer", values=layout.residual_block),
    ]


def stream_coordinates(layout: DepthLayout, dims: Iterable[str]) -> list[Coordinate]:
    """Return the labels of the dims, other than ``layer``, that a stream's arrays use."""
    known = {
        "target": [
            Coordinate(name="target", dim="target", values=range(1, layout.layers + 2)),
            Coordinate(name="target_name", dim="target", values=layout.target_names),
        ],
        "source": [Coordinate(name="source_name", dim="source", values=layout.source_names)],
        "head": [Coordinate(name="head", dim="head", values=range(1, layout.heads + 1))],
        "origin": [Coordinate(name="origin_name", dim="origin", values=layout.origin_names)],
        "block": [Coordinate(name="block", dim="block", values=range(1, layout.outer_blocks + 1))],
        "later_block": [
            Coordinate(name="later_block", dim="later_block", values=range(1, layout.outer_blocks + 1))
        ],
        "side": [Coordinate(name="side", dim="side", values=("read", "write"))],
        "interface": [Coordinate(name="interface", dim="interface", values=("read", "write", "gate"))],
        **{
            dim: [Coordinate(name=dim, dim=dim, values=range(1, layout.streams + 1))]
            for dim in ("stream", "stream_out", "stream_in")
        },
    }
    used = set(dims)
    return [entry for dim, entries in known.items() if dim in used for entry in entries if len(entry.values)]
