"""Hyper-connections: n streams with learned connections between them, static or dependent on the token."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn

from depthscope.models.config import DecoderConfig
from depthscope.models.norm import RMSNorm
from depthscope.models.option import Design, Option, switch, typed
from depthscope.models.precision import at_least_float32
from depthscope.models.streams import Connection, StreamResidual


class HyperConnection(Connection):
    """A_m [n], A_r [n, n] and B [n] of one sublayer; with a norm and maps where they depend on the token.

    Static: `read_from`, `mix`, `write_to`. Dynamic adds s_alpha tanh(norm(H) W) to A_m and A_r and s_beta tanh(norm(H) W) to B.
    """

    def __init__(self, streams: int, width: int, first: int, *, dynamic: bool, eps: float) -> None:
        super().__init__(streams)
        self.read_from = nn.Parameter(torch.eye(streams)[first].clone())
        self.mix = nn.Parameter(torch.eye(streams))
        self.write_to = nn.Parameter(torch.ones(streams))
        self.dynamic = dynamic
        if dynamic:
            self.norm = RMSNorm(width, eps)
            self.read_map = nn.Parameter(torch.zeros(width))
            self.mix_map = nn.Parameter(torch.zeros(width, streams))
            self.write_map = nn.Parameter(torch.zeros(width))
            self.width_scale = nn.Parameter(torch.tensor([0.01]))
            self.depth_scale = nn.Parameter(torch.tensor([0.01]))

    def reading_weights(self, streams: Tensor) -> Tensor:
        if not self.dynamic:
            return self.read_from.unsqueeze(-2)
        return (self.read_from + self.width_scale * self._learned(streams, self.read_map)).unsqueeze(-2)

    def mixing_weights(self, streams: Tensor) -> Tensor:
        mix: Tensor = self.mix
        if self.dynamic:
            mix = mix + self.width_scale * self._learned(streams, self.mix_map)
        return mix.transpose(-1, -2)

    def writing_weights(self, streams: Tensor) -> Tensor:
        if not self.dynamic:
            return self.write_to.unsqueeze(-1)
        return (self.write_to + self.depth_scale * self._learned(streams, self.write_map)).unsqueeze(-1)

    def _learned(self, streams: Tensor, learned: Tensor) -> Tensor:
        """Return tanh(norm(H) W): W [k] or [k, n] -> [..., n] or [..., n, n]."""
        normed = at_least_float32(self.norm(at_least_float32(streams)))
        return torch.tanh(normed @ at_least_float32(learned))


class HyperConnections(StreamResidual):
    """n streams H [n, d]: h = A_m^T H, H <- A_r^T H + B^T o (Zhu et al., arXiv 2409.19606, Eqs. 1-5; dynamic: Section 2.2).

    At the start (Section 2.3) A_r = I, B = 1 and sublayer l reads stream l mod n, so every stream is PreNorm's; the
    dynamic maps W are 0 and their scales 0.01. The last read is the sum of the streams.

    Taken here: norm(.) is RMSNorm over one stream, with a gain; the matrices that end a sublayer start smaller by
    1/sqrt(n), since n streams get what they give and are summed.
    """

    name: ClassVar[str] = "hc"
    label: ClassVar[str] = "HC"

    def __init__(self, config: DecoderConfig, *, n: int = 4, dynamic: bool = True) -> None:
        self.dynamic = dynamic
        super().__init__(config, n)

    @property
    def by_token(self) -> bool:
        return self.dynamic

    @property
    def design(self) -> str:
        return typed(self.name, n=self.streams, dynamic=self.dynamic)

    def connection(self, layer: int) -> Connection:
        config = self.config
        first = layer % self.streams
        return HyperConnection(self.streams, config.width, first, dynamic=self.dynamic, eps=config.norm_eps)

    def init_sublayer(self, sublayer: nn.Module, layer: int) -> None:
        for name, matrix in sublayer.named_parameters():
            if name.endswith("out.weight"):
                matrix.mul_(self.streams**-0.5)


HYPER_CONNECTIONS = Design(
    name=HyperConnections.name,
    label=HyperConnections.label,
    build=HyperConnections,
    options={"n": Option(argument="n", parse=int, example="n=4"), "dynamic": switch("dynamic", "dynamic")},
    example="hc:n=4,dynamic=yes",
)
