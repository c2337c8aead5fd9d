"""Virtual width networks: a state wider than the sublayers, joined to them by generalised hyper-connections."""

from __future__ import annotations

from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from depthscope.models.config import DecoderConfig
from depthscope.models.norm import RMSNorm
from depthscope.models.option import Design, Option, switch, typed
from depthscope.models.precision import at_least_float32
from depthscope.models.residual import State, tensor
from depthscope.models.streams import Connection, StreamResidual


class GeneralisedConnection(Connection):
    """A [n, m + n] and B [m, n] of one sublayer: its width is m segments, the state n segments of the same size.

    `read_and_mix` holds A, `write_to` B. Dynamic adds scale * tanh(norm(H) W) entry by entry, norm over one segment.
    """

    def __init__(self, streams: int, segments: int, width: int, *, dynamic: bool, eps: float) -> None:
        super().__init__(streams, segments)
        total = segments + streams
        self.read_and_mix = nn.Parameter(torch.cat((torch.eye(streams, segments), torch.eye(streams)), 1))
        # Segment j of the state gets segment j mod m of the output.
        self.write_to = nn.Parameter(repeated_identity(streams, segments).T.contiguous())
        self.dynamic = dynamic
        if dynamic:
            self.norm = RMSNorm(width, eps)
            self.read_and_mix_map = nn.Parameter(torch.zeros(width, total))
            self.write_map = nn.Parameter(torch.zeros(width, segments))
            self.read_and_mix_scale = nn.Parameter(torch.ones(streams, total))
            self.write_scale = nn.Parameter(torch.ones(segments, streams))

    def reading_weights(self, streams: Tensor) -> Tensor:
        return self._read_and_mix(streams)[..., : self.segments].transpose(-1, -2)

    def mixing_weights(self, streams: Tensor) -> Tensor:
        return self._read_and_mix(streams)[..., self.segments :].transpose(-1, -2)

    def writing_weights(self, streams: Tensor) -> Tensor:
        weights: Tensor = self.write_to
        if self.dynamic:
            learned = self._learned(streams, self.write_map).transpose(-1, -2)
            weights = weights + self.write_scale * learned
        return weights.transpose(-1, -2)

    def _read_and_mix(self, streams: Tensor) -> Tensor:
        if not self.dynamic:
            return self.read_and_mix
        return self.read_and_mix + self.read_and_mix_scale * self._learned(streams, self.read_and_mix_map)

    def _learned(self, streams: Tensor, learned: Tensor) -> Tensor:
        normed = at_least_float32(self.norm(at_least_float32(streams)))
        return torch.tanh(normed @ at_least_float32(learned))


class VWN(StreamResidual):
    """A state of width (n/m) d under sublayers of width d (Seed, "Virtual Width Networks", arXiv 2511.11238, Section 3).

    The sublayer's width is m segments of d/m and the state n of them; h = A_h^T H, H <- A_r^T H + B^T o. At the start h
    is the first m segments, A_r = I, and segment j gets segment j mod m of o. `wide` and `reduce` lead from the
    embedding to the state and from it to the last read.

    Taken here: the embedding table stays d wide and `wide` begins with its segments repeated; `reduce` begins with
    the first m segments; so the start is PreNorm. Dynamic maps W start at 0 with scales of 1.
    """

    name: ClassVar[str] = "vwn"
    label: ClassVar[str] = "VWN"

    def __init__(self, config: DecoderConfig, *, m: int = 2, n: int = 3, dynamic: bool = True) -> None:
        if m < 1 or config.width % m:
            raise ValueError(f"m={m}: expected a divisor of the width {config.width}")
        self.segments, self.dynamic = m, dynamic
        super().__init__(config, n)
        self.wide = nn.Parameter(repeated_identity(n * self.segment_width, config.width))
        self.reduce = nn.Parameter(torch.eye(config.width, n * self.segment_width))

    @property
    def segment_width(self) -> int:
        return self.config.width // self.segments

    @property
    def by_token(self) -> bool:
        return self.dynamic

    @property
    def design(self) -> str:
        return typed(self.name, m=self.segments, n=self.streams, dynamic=self.dynamic)

    def connection(self, layer: int) -> Connection:
        return GeneralisedConnection(
            self.streams, self.segments, self.segment_width, dynamic=self.dynamic, eps=self.config.norm_eps
        )

    def begin(self, embedding: Tensor) -> State:
        return project(embedding, self.wide)

    def end(self, state: State) -> Tensor:
        return project(tensor(state), self.reduce)


def project(x: Tensor, matrix: Tensor) -> Tensor:
    """Return `matrix` x for every token, with autocast off."""
    with torch.autocast(device_type=x.device.type, enabled=False):
        return F.linear(x, matrix)


def repeated_identity(rows: int, columns: int) -> Tensor:
    """Return [rows, columns] whose row i is 1 at i mod columns."""
    return torch.eye(columns)[torch.arange(rows) % columns]


VIRTUAL_WIDTH = Design(
    name=VWN.name,
    label=VWN.label,
    build=VWN,
    options={
        "m": Option(argument="m", parse=int, example="m=2"),
        "n": Option(argument="n", parse=int, example="n=3"),
        "dynamic": switch("dynamic", "dynamic"),
    },
    example="vwn:m=2,n=3",
)
