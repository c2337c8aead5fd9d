"""The depth axis of a model as plain data: where each tensor of it can be seen.

A model of the project returns a `DepthAxis` from `describe_depth()`; for any other model, anatomy builds
one by looking. Symbols follow docs/definitions: h_l read, f_l write, s_l state, v_i source.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Side = Literal["input", "output"]
Kind = Literal["attention", "mlp", "other"]


@dataclass(frozen=True, kw_only=True)
class Port:
    """A place where a tensor passes: an input or output of a module.

    `path` selects inside what passes: for an output, indices into the returned object (empty: the object
    itself, or its first floating tensor); for an input, the first element is a position or a keyword
    (empty: position 0) and the rest index into it. Negative positions count from the end.
    """

    module: str
    side: Side
    path: tuple[int | str, ...] = ()

    def __str__(self) -> str:
        where = "".join(f"[{part!r}]" for part in self.path)
        return f"{self.module or '(root)'}.{self.side}{where}"


@dataclass(frozen=True, kw_only=True)
class Sublayer:
    """One attention, MLP or other sublayer: layer `index` of the depth axis, counted from 1."""

    index: int
    name: str
    kind: Kind
    transformer_block: int
    """Counted from 1."""
    residual_block: int
    """Counted from 1; 0 where the design has no residual blocks."""
    read: Port | None
    """Where h_l passes, before the sublayer's own norm."""
    write: Port
    """Where f_l passes, as it is added to the stream."""
    state: Port | None
    """Where s_l passes, after the write."""
    additive: bool
    """True where s_l = h_l + f_l: the write goes to the very stream that is read."""
    fresh: Literal["state", "mixer"] | None
    """How the next read holds f_l: it is the state itself, or a mix whose weights are seen; None: neither."""
    parameters: tuple[str, ...]
    """Module paths (or parameter names) whose parameters belong to this sublayer, its norm included."""
    summed: bool = True
    """True where s_l = something + f_l, so that dL/ds_l = dL/df_l; False where a norm or an average follows."""
    output: Port | None = None
    """Where o_l comes out of the sublayer, before the design scales, gates or norms it. None: it is the write."""
    state_prenorm: Port | None = None
    """Where the stream passes after the write and in front of the norm that ends it. None: no norm follows."""
    made: Port | None = None
    """Where h_l comes from with all its uses still ahead, for its gradient in compiled code. None: it is the sum that
    the sublayer before it made (`fresh` is "state"), a mixer's output, a block's read or the embedding."""
    carried: Port | None = None
    """Where all that the rest of the model knows of the depth so far passes, after this sublayer: a tensor or nested
    tuples of tensors [batch, time, ...]."""


@dataclass(frozen=True, kw_only=True)
class Mixer:
    """A depth mixer: target `target` (layer, or L + 1 for the final read) reads h = sum_i alpha_i v_i."""

    target: int
    module: str
    """Path of the mixer module; its forward takes the sequence of sources and returns the read."""
    weights: Port
    """Where alpha passes, shape [n_sources, batch, time]; with several heads [..., heads]."""
    sources: tuple[int, ...]
    """Column on the source axis of each source, in the order the mixer takes them."""
    partial: bool
    """True where the newest source is the unfinished sum of the current residual block."""
    query: str | None
    """Name of the query parameter w_l, shape [d]; None when the weights need no query."""
    key_norm: str | None
    """Name of the key norm's gain, shape [d]."""
    parameters: tuple[str, ...]
    normalised: bool = True
    """The weights of a token, and of a head, sum to 1."""
    heads: int = 1
    """Parts of the features, one after the other, that have weights of their own."""


@dataclass(frozen=True, kw_only=True)
class OuterBlock:
    """Residual block `index` (from 1) of a wide outer state: h_b = norm(h_{b-1} + W_b Phi_b)."""

    index: int
    carry: Port
    """h_{b-1}, shape [batch, time, D]."""
    read: Port
    """R_b h_{b-1}, shape [batch, time, d]."""
    write: Port
    """W_b Phi_b, shape [batch, time, D]."""
    boundary: Port
    """h_{b-1} + W_b Phi_b, before the boundary norm."""
    state: Port
    """h_b, after the boundary norm."""
    read_parameters: tuple[str, ...]
    write_parameters: tuple[str, ...]
    read_gate: str | None
    """Name of the scalar parameter whose sigmoid is the gate of R_b."""
    write_gate: str | None
    width: int = 0
    """D; 0: that of the write's matrix."""
    linear: bool = False
    """`read` and `write` are outputs of modules that are R_b and W_b and nothing else: linear maps without a bias."""


@dataclass(frozen=True, kw_only=True)
class StreamMixing:
    """How layer `layer` mixes the n streams of a wide state: H <- P H + what the sublayer writes."""

    layer: int
    weights: Port
    """Where P passes as it is applied: [batch, time, n, n]; [n, n] where it does not depend on the token."""
    streams: int
    """n, which are kept one after the other in the state, [batch, time, n k]."""
    by_token: bool
    doubly_stochastic: bool
    """P is meant to have rows and columns that sum to 1."""


@dataclass(frozen=True, kw_only=True)
class DepthAxis:
    """Everything a recorder has to know about a model's depth."""

    design: str
    """The design as a string that can be typed, e.g. ``"block-attnres:S=6"``."""
    embedding: Port | None
    """Where v_0 passes."""
    final_read: Port | None
    """Where the last read passes, before the norm in front of the LM head."""
    sublayers: tuple[Sublayer, ...]
    source_names: tuple[str, ...] = ()
    """Labels of the source axis: ``embedding``, then ``block n`` or ``sublayer i``."""
    mixers: tuple[Mixer, ...] = ()
    outer: tuple[OuterBlock, ...] = ()
    streams: tuple[StreamMixing, ...] = ()
    """Of all layers or of none."""
    outer_end: Port | None = None
    """Where the last outer state h_B passes into the final read; None without an outer state."""
    embedding_parameters: tuple[str, ...] = ()
    head_parameters: tuple[str, ...] = ()
    final_norm_parameters: tuple[str, ...] = ()

    @property
    def without_positions(self) -> frozenset[Port]:
        """Ports where weights pass that are the same for all tokens."""
        return frozenset(mixing.weights for mixing in self.streams if not mixing.by_token)

    @property
    def reads_the_embedding(self) -> bool:
        """Return whether the first sublayer of one plain stream reads v_0 itself."""
        mixed = any(mixer.target == 1 for mixer in self.mixers)
        return not (mixed or self.outer) and self.sublayers[:1] != () and self.sublayers[0].additive
