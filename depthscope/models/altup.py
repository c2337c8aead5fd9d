"""AltUp: a wide state of which each sublayer computes one block and the rest is predicted."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn

from depthscope.models.config import DecoderConfig
from depthscope.models.option import Design, Option, typed
from depthscope.models.residual import State
from depthscope.models.streams import Connection, StreamResidual


class PredictCorrect(Connection):
    """Predict xhat_i = sum_j p_ij x_j, compute x~ = x_c + o on block c, correct x_i = xhat_i + g_i (x~ - xhat_c).

    In one step x <- (p + g (e_c - p_c)^T) x + g o. `prediction` is p [K, K], `gain` is g [K]; they don't depend on
    the token.
    """

    def __init__(self, blocks: int, computed: int) -> None:
        super().__init__(blocks)
        self.computed = computed
        self.prediction = nn.Parameter(torch.eye(blocks))
        self.gain = nn.Parameter(torch.ones(blocks))

    def reading_weights(self, streams: Tensor) -> Tensor:
        return self._computed().unsqueeze(0)

    def mixing_weights(self, streams: Tensor) -> Tensor:
        surprise = self._computed() - self.prediction[self.computed]
        return self.prediction + self.gain.unsqueeze(-1) * surprise

    def writing_weights(self, streams: Tensor) -> Tensor:
        return self.gain.unsqueeze(-1)

    def _computed(self) -> Tensor:
        chosen = torch.zeros_like(self.gain)
        chosen[self.computed] = 1.0
        return chosen


class AltUp(StreamResidual):
    """K blocks of width d, computed in turns (Baykal et al., "Alternating Updates", arXiv 2301.13310, Algorithm 1).

    Taken here: each sublayer predicts and corrects by itself, and transformer block m computes block m mod K; p = I and
    g = 1 at the start, PreNorm; the state begins with K copies of the embedding (the paper's Recycled-AltUp) and
    ends in the mean of the blocks, where the paper adds them: the final norm takes the factor out. p is the
    whole prediction; Gemma 3n's coefficients are p - I.
    """

    name: ClassVar[str] = "altup"
    label: ClassVar[str] = "AltUp"

    def __init__(self, config: DecoderConfig, *, K: int = 2) -> None:
        transformer_blocks = config.layers // 2
        if not 1 <= K <= transformer_blocks:
            raise ValueError(
                f"K={K}: expected 1 to {transformer_blocks}, the number of transformer blocks; each computes one of the "
                "K blocks, and what is left over would never be computed"
            )
        super().__init__(config, K)

    @property
    def by_token(self) -> bool:
        return False

    @property
    def design(self) -> str:
        return typed(self.name, K=self.streams)

    def connection(self, layer: int) -> Connection:
        return PredictCorrect(self.streams, layer // 2 % self.streams)

    def end(self, state: State) -> Tensor:
        return super().end(state) / self.streams


ALTUP = Design(
    name=AltUp.name,
    label=AltUp.label,
    build=AltUp,
    options={"K": Option(argument="K", parse=int, example="K=2")},
    example="altup:K=2",
)
