"""The outline of a run's depth axis, and which entries of each quantity it can reach."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias

from depthscope.quantities.quantity import Quantity

Mask: TypeAlias = "bool | tuple[Mask, ...]"


@dataclass(frozen=True, kw_only=True)
class DepthLayout:
    """What a design offers to record, as plain data that travels in the store.

    Layers are counted from 1; tuples hold one entry per layer in order. Targets are the layers and then
    the final read, called ``output``.
    """

    design: str
    layer_names: tuple[str, ...]
    layer_kinds: tuple[str, ...]
    transformer_block: tuple[int, ...]
    residual_block: tuple[int, ...]
    """0 where the design has no residual blocks."""
    additive: tuple[bool, ...]
    """s_l = h_l + f_l."""
    reads: tuple[bool, ...]
    """h_l is seen."""
    states: tuple[bool, ...]
    """s_l is seen."""
    fresh: tuple[bool, ...]
    """The share of the newest write in the next read is known."""
    embedding: bool = True
    final_read: bool = True
    source_names: tuple[str, ...] = ()
    sources: tuple[tuple[int, ...], ...] = ()
    """For each target, the columns of the source axis it can read; all empty without depth mixers."""
    partial: tuple[int, ...] = ()
    """For each target, the column that holds the unfinished sum of its block; -1 for none."""
    normalised: bool = True
    """The weights with which a target reads its sources sum to 1."""
    heads: int = 1
    """Parts of the features that have weights of their own in a depth mixer."""
    outer_blocks: int = 0
    outer_width: int = 0
    summed: tuple[bool, ...] = ()
    """s_l = something + f_l, so that dL/ds_l = dL/df_l; empty in runs written before it was known: everywhere."""
    outputs: tuple[bool, ...] = ()
    """o_l is seen beside the write, which is something else; empty: nowhere."""
    prenorm_states: tuple[bool, ...] = ()
    """s_l is seen in front of the norm that ends it; empty: nowhere."""
    streams: int = 0
    """n streams that the state is made of; 0 where they and their mixing are not seen."""
    doubly_stochastic: bool = False
    """The matrices that mix the streams are meant to have rows and columns that sum to 1."""
    mixing: tuple[bool, ...] = ()
    """For each target, whether its mixing contributions are taken; empty where they can't be, or are not."""

    @property
    def layers(self) -> int:
        return len(self.layer_names)

    @property
    def target_names(self) -> tuple[str, ...]:
        return (*self.layer_names, "output")

    @property
    def origin_names(self) -> tuple[str, ...]:
        """Where a part of a read comes from: the embedding, a sublayer's output, or the design's own biases."""
        return ("embedding", *self.layer_names, "constant")

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> DepthLayout:
        """Build from what `to_json` wrote; unknown keys of a newer writer are ignored."""
        return cls(**{key: _tuples(data[key]) for key in cls.__dataclass_fields__ if key in data})


def _tuples(value: Any) -> Any:
    return tuple(_tuples(item) for item in value) if isinstance(value, list | tuple) else value


def readable_layers(quantity: Quantity, layout: DepthLayout) -> tuple[bool, ...]:
    """Return which entries a quantity over layers can have for a reader: `reachable`, or held by another quantity."""
    recorded = reachable(quantity, layout)
    assert isinstance(recorded, tuple)
    held = bool(quantity.held_by) and not any(recorded) and any(layout.mixing)
    return layout.mixing[1:] if held else tuple(map(bool, recorded))


def reachable(quantity: Quantity, layout: DepthLayout) -> Mask:
    """Return, nested like the quantity's dims after ``step``, which entries a run of this layout can record.

    A dim of size 0 (no mixers, no outer state) gives an empty tuple. ``given`` quantities depend on what the
    training loop passes (a loss, a loss scale), so they are never promised.
    """
    layers = layout.layers
    match quantity.reach:
        case "step":
            return True
        case "given":
            return False
        case "embedding":
            return layout.embedding
        case "final_read":
            return layout.final_read
        case "has_mixer":
            return bool(layout.sources)
        case "has_outer":
            return layout.outer_blocks > 0
        case "layer":
            return (True,) * layers
        case "read":
            return layout.reads
        case "state":
            return layout.states
        case "fresh":
            return layout.fresh
        case "output":
            return layout.outputs or (False,) * layers
        case "state_prenorm":
            return layout.prenorm_states or (False,) * layers
        case "mixed_layer":
            return tuple(bool(columns) for columns in layout.sources[:layers])
        case "target":
            return tuple(bool(columns) for columns in layout.sources)
        case "target_of_two":
            return tuple(len(columns) > 1 and layout.normalised for columns in layout.sources)
        case "source":
            everything = range(len(layout.source_names))
            return tuple(tuple(column in columns for column in everything) for columns in layout.sources)
        case "source_head":
            heads = layout.heads if layout.heads > 1 else 0
            everything = range(len(layout.source_names))
            return tuple(
                tuple((column in columns,) * heads for column in everything) for columns in layout.sources
            )
        case "mixing":
            return layout.mixing
        case "mixing_origin":
            # Target l reads the embedding, the sublayers before it and the constant.
            return tuple(
                tuple(taken and (origin < target or origin == layers + 1) for origin in range(layers + 2))
                for target, taken in enumerate(layout.mixing, start=1)
            )
        case "block":
            return (True,) * layout.outer_blocks
        case "block_side":
            return ((True, True),) * layout.outer_blocks
        case "block_interface":
            return ((True, True, True),) * layout.outer_blocks
        case "block_channel":
            return ((True,) * layout.outer_width,) * layout.outer_blocks
        case "later_block":
            blocks = range(layout.outer_blocks)
            return tuple(tuple(later > block for later in blocks) for block in blocks)
        case "stream":
            return ((True,) * layout.streams,) * layers
        case "stream_pair":
            return (((True,) * layout.streams,) * layout.streams,) * layers
        case "stream_layer":
            return (layout.streams > 0,) * layers
        case "doubly_stochastic":
            return (layout.streams > 0 and layout.doubly_stochastic,) * layers
