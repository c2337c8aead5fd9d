"""The residual protocol: how a design keeps its state over depth and what each sublayer reads from it.

One decoder carries every design. A design answers four questions (`begin`, `read`, `write`, `end`), may
choose the norms and the initialisation of sublayers, and says where its tensors can be seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal, TypeAlias

from torch import Tensor, nn

from depthscope.marks import Mixer, OuterBlock, Port, StreamMixing
from depthscope.models.config import DecoderConfig
from depthscope.models.norm import RMSNorm

State: TypeAlias = "Tensor | tuple[State, ...]"
"""A tensor or nested tuples of tensors, so that activation checkpointing can carry it."""


class Residual(nn.Module):
    """The protocol, and its plainest design: PreNorm, h = s and s <- s + f on one stream.

    `layer` counts sublayers from 0 here, as modules do; descriptions and records count from 1. A design keeps
    these promises, and tests hold it to them: `read` is pure; `write` returns a new state and never mutates
    the old one; everything acts on each token by itself; widths come from the tensors; weights that
    depend on the state go through `marks.coefficient`; mixing runs with autocast off or as multiply and sum.
    """

    name: ClassVar[str] = "prenorm"
    """What is typed to get the design."""
    label: ClassVar[str] = "PreNorm"
    """What people call it."""

    def __init__(self, config: DecoderConfig) -> None:
        super().__init__()
        self.config = config

    @property
    def layers(self) -> int:
        """L, the number of sublayers."""
        return self.config.layers

    @property
    def design(self) -> str:
        """The design with its options, as a string that can be typed."""
        return self.name

    # What the decoder computes with.

    def begin(self, embedding: Tensor) -> State:
        """Return the state before the first sublayer, from v_0 [batch, time, d]."""
        return embedding

    def read(self, state: State, layer: int) -> Tensor:
        """Return h_l [batch, time, d], what sublayer `layer` reads before its own norm."""
        return tensor(state)

    def write(self, state: State, layer: int, output: Tensor) -> State:
        """Return the new state after sublayer `layer` gave `output` [batch, time, d]."""
        return tensor(state) + output

    def end(self, state: State) -> Tensor:
        """Return the last read [batch, time, d], before the norm in front of the LM head."""
        return tensor(state)

    def prenorm(self, layer: int) -> nn.Module:
        """Return a new module for the norm between the read and sublayer `layer`."""
        return RMSNorm(self.config.width, self.config.norm_eps)

    def postnorm(self) -> nn.Module:
        """Return a new module for the norm in front of the LM head."""
        return RMSNorm(self.config.width, self.config.norm_eps)

    def init_sublayer(self, sublayer: nn.Module, layer: int) -> None:
        """Change a sublayer's weights after their usual initialisation, where the design asks for it."""

    # Where its tensors can be seen. Paths are those of `Decoder`.

    def residual_block(self, layer: int) -> int:
        """Return the residual block of a sublayer, from 1; 0 where the design has none."""
        return 0

    def additive(self, layer: int) -> bool:
        """Return whether s_l = h_l + f_l."""
        return True

    def summed(self, layer: int) -> bool:
        """Return whether s_l = something + f_l, so that dL/ds_l = dL/df_l."""
        return True

    def fresh(self, layer: int) -> Literal["state", "mixer"] | None:
        """Return how the next read holds f_l; see `marks.Sublayer`."""
        return "state"

    def read_port(self, layer: int) -> Port:
        # As the sublayer's norm takes it: compiled code can't look back past a norm in any other way.
        return Port(module=f"layers.{layer}.norm", side="input")

    def write_port(self, layer: int) -> Port:
        return Port(module=f"layers.{layer}.sublayer", side="output")

    def state_port(self, layer: int) -> Port | None:
        # The state is the very tensor that the next sublayer reads, so both share one visit.
        return self.read_port(layer + 1) if layer + 1 < self.layers else self.final_read_port()

    def state_prenorm_port(self, layer: int) -> Port | None:
        """Return where the stream passes in front of the norm that ends it, if one does."""
        return None

    def made_port(self, layer: int) -> Port | None:
        """Return where h_l is made, unless that is known from elsewhere; see `marks.Sublayer`."""
        return None

    def final_read_port(self) -> Port:
        return Port(module="end", side="output")

    def source_names(self) -> Sequence[str]:
        """Return the labels of the source axis; none without depth mixers."""
        return ()

    def mixers(self) -> Sequence[Mixer]:
        return ()

    def outer(self) -> Sequence[OuterBlock]:
        return ()

    def stream_mixings(self) -> Sequence[StreamMixing]:
        return ()

    def outer_end_port(self) -> Port | None:
        """Return where the last outer state passes into the final read."""
        return None


def tensor(state: State) -> Tensor:
    """Return a state that is one tensor, for designs that keep no more than that."""
    if isinstance(state, tuple):
        raise TypeError(f"expected a state of one tensor, found a tuple of {len(state)}")
    return state


def tensors(state: State) -> tuple[Tensor, ...]:
    """Return a state that is a flat tuple of tensors."""
    if not isinstance(state, tuple):
        raise TypeError("expected a state that is a tuple of tensors, found one tensor")
    return tuple(part for part in state if isinstance(part, Tensor))
