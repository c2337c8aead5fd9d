"""Delta Attention Residuals: a plain stream, and depth attention over what was added to it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

from torch import Tensor

from depthscope.marks import Mixer, Port
from depthscope.models.attnres import BlockAttnRes
from depthscope.models.config import DecoderConfig
from depthscope.models.residual import State, tensors


class DeltaAttnRes(BlockAttnRes):
    """h_l = s_{l-1} + sum_i alpha_i v_i, s <- s + f, alpha as in AttnRes ("Delta Attention Residuals", arXiv 2605.18855).

    The v_i are deltas: what a block of S sublayers added to the stream, S = 1 for each by itself. The state is (s,
    v_0, v_1, ...).

    Taken here: the embedding is the first delta, so that the first sublayer has one, and the last read is s plus a
    mix of its own. The recorder is told of no mixers: alpha weighs only a part of the read, and a map that
    is read as all of it would mislead; `mix.{t}.weights` shows alpha to an ordinary hook.
    """

    name: ClassVar[str] = "delta-attnres"
    label: ClassVar[str] = "AttnRes delta"

    def __init__(
        self,
        config: DecoderConfig,
        *,
        block_size: int | None = None,
        boundaries: Sequence[int] | None = None,
    ) -> None:
        super().__init__(config, block_size=block_size, boundaries=boundaries)

    def begin(self, embedding: Tensor) -> State:
        return (embedding, embedding)

    def read(self, state: State, layer: int) -> Tensor:
        stream, *deltas = tensors(state)
        return stream + super().read(tuple(deltas), layer)

    def write(self, state: State, layer: int, output: Tensor) -> State:
        stream, *deltas = tensors(state)
        return (stream + output, *super().write(tuple(deltas), layer, output))

    def end(self, state: State) -> Tensor:
        stream, *deltas = tensors(state)
        return stream + super().end(tuple(deltas))

    def residual_block(self, layer: int) -> int:
        return 0  # the stream runs through: no sum that is recorded restarts

    def fresh(self, layer: int) -> Literal["state", "mixer"] | None:
        return None  # the next read holds f_l twice: in the stream, and weighed

    def state_port(self, layer: int) -> Port | None:
        return Port(module=f"layers.{layer}.write", side="output", path=(0,))

    def made_port(self, layer: int) -> Port | None:
        return Port(module=f"layers.{layer}.read", side="output")

    def source_names(self) -> Sequence[str]:
        return ()

    def mixers(self) -> Sequence[Mixer]:
        return ()
