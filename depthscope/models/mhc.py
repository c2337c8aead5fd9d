"""Manifold-constrained hyper-connections: streams are mixed by doubly stochastic matrices only."""

from __future__ import annotations

from itertools import permutations
from typing import ClassVar

import torch
from torch import Tensor, nn

from depthscope.models.config import DecoderConfig
from depthscope.models.norm import RMSNorm
from depthscope.models.option import Design, Option, switch, typed
from depthscope.models.precision import at_least_float32
from depthscope.models.streams import Connection, StreamResidual

ITERATIONS = 20
MOST_LITE = 5
"""Streams whose permutations are still few enough: 120."""
START = 4.0
"""Logit at the start of the stream that is read and of the identity in H_res; the read's others have its negative."""


def sinkhorn(logits: Tensor, iterations: int = ITERATIONS) -> Tensor:
    """Return exp(logits) [..., n, n] scaled to a doubly stochastic matrix: columns, then rows, `iterations` times.

    Rows sum to 1; columns nearly, the further from it the sharper the logits.
    """
    # A constant factor changes nothing in the end, and exp does not overflow.
    matrix = torch.exp(logits - logits.amax((-1, -2), keepdim=True))
    for _ in range(iterations):
        matrix = matrix / matrix.sum(-2, keepdim=True)
        matrix = matrix / matrix.sum(-1, keepdim=True)
    return matrix


class ManifoldConnection(Connection):
    """alpha (x phi) + b for H_pre, H_post and H_res, x the norm over all n d features; then their constraints.

    `alpha` [3], `read_map` and `write_map` [n d, n], `mix_map` [n d, n^2] (with `lite` [n d, n!]), and b as `read_bias`,
    `write_bias`, `mix_bias`.
    """

    permutations: Tensor | None

    def __init__(self, streams: int, width: int, first: int, *, lite: bool, eps: float, std: float) -> None:
        super().__init__(streams)
        everywhere = torch.eye(streams)
        wide = streams * width
        self.norm = RMSNorm(wide, eps)
        self.alpha = nn.Parameter(torch.full((3,), 0.01))
        self.register_buffer("permutations", all_permutations(streams) if lite else None, persistent=False)
        choices = torch.zeros(len(all_permutations(streams))) if lite else everywhere.flatten().clone()
        if lite:
            choices[0] = 1.0
        self.read_map = nn.Parameter(std * torch.randn(wide, streams))
        self.write_map = nn.Parameter(std * torch.randn(wide, streams))
        self.mix_map = nn.Parameter(std * torch.randn(wide, len(choices)))
        self.read_bias = nn.Parameter(2 * START * everywhere[first] - START)
        self.write_bias = nn.Parameter(torch.zeros(streams))
        self.mix_bias = nn.Parameter(START * choices)

    def reading_weights(self, streams: Tensor) -> Tensor:
        return torch.sigmoid(self._logits(streams, 0, self.read_map, self.read_bias)).unsqueeze(-2)

    def mixing_weights(self, streams: Tensor) -> Tensor:
        logits = self._logits(streams, 2, self.mix_map, self.mix_bias)
        if self.permutations is None:
            return sinkhorn(logits.reshape(*logits.shape[:-1], self.streams, self.streams))
        return torch.einsum("...p,pij->...ij", torch.softmax(logits, -1), at_least_float32(self.permutations))

    def writing_weights(self, streams: Tensor) -> Tensor:
        return 2 * torch.sigmoid(self._logits(streams, 1, self.write_map, self.write_bias)).unsqueeze(-1)

    def _logits(self, streams: Tensor, place: int, learned: Tensor, bias: Tensor) -> Tensor:
        normed = at_least_float32(self.norm(at_least_float32(streams).flatten(-2)))
        return self.alpha[place] * (normed @ at_least_float32(learned)) + bias


class MHC(StreamResidual):
    """h = H_pre H, H <- H_res H + H_post^T o (Xie et al., "mHC", arXiv 2512.24880, Eq. 3, Eqs. 7-9 for the matrices).

    H_pre = sigmoid, H_post = 2 sigmoid, H_res = Sinkhorn-Knopp of exp with 20 iterations, all of alpha (x phi) + b with
    x the norm over all streams and alpha = 0.01 at the start. `lite` takes H_res as a convex combination of all n!
    permutations, softmax weights: exactly doubly stochastic (Yang and Gao, "mHC-lite", arXiv 2601.05732).

    The paper does not give b at the start; taken here: sublayer l reads stream l mod n by sigmoid(4), the others by
    sigmoid(-4); H_post = 1; H_res is near the identity (logit 4). phi starts as the decoder's matrices do, and
    streams begin as copies of the embedding and end in their sum, as in hyper-connections.
    """

    name: ClassVar[str] = "mhc"
    label: ClassVar[str] = "mHC"
    doubly_stochastic: ClassVar[bool] = True

    def __init__(self, config: DecoderConfig, *, n: int = 4, lite: bool = False) -> None:
        if lite and n > MOST_LITE:
            raise ValueError(f"n={n} with lite: {n}! permutations are too many; choose n up to {MOST_LITE}")
        self.lite = lite
        super().__init__(config, n)

    @property
    def design(self) -> str:
        return typed(self.name, n=self.streams, lite=True if self.lite else None)

    def connection(self, layer: int) -> Connection:
        config = self.config
        return ManifoldConnection(
            self.streams,
            config.width,
            layer % self.streams,
            lite=self.lite,
            eps=config.norm_eps,
            std=config.init_std,
        )


def all_permutations(n: int) -> Tensor:
    """Return all permutation matrices [n!, n, n], the identity first."""
    return torch.stack([torch.eye(n)[list(order)] for order in permutations(range(n))])


MANIFOLD_HYPER_CONNECTIONS = Design(
    name=MHC.name,
    label=MHC.label,
    build=MHC,
    options={"n": Option(argument="n", parse=int, example="n=4"), "lite": switch("lite", "lite")},
    example="mhc:n=4",
)
