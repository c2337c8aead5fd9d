"""Several streams in place of one: what hyper-connections, virtual width networks and AltUp share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from depthscope.marks import Port, StreamMixing, coefficient
from depthscope.models.config import DecoderConfig
from depthscope.models.precision import at_least_float32
from depthscope.models.residual import Residual, State, tensor

MOST_STREAMS = 1000
"""Far above any that was ever tried; more is taken for a slip of the hand."""


def combine(weights: Tensor, parts: Tensor) -> Tensor:
    """Return sum_j weights_ij parts_j: [..., i, j] and [..., j, k] -> [..., i, k], in float32 or better."""
    with torch.autocast(device_type=parts.device.type, enabled=False):
        return at_least_float32(weights) @ at_least_float32(parts)


class Spread(nn.Module):
    """Door through which a write f_l passes: what each stream gets of an output, one stream after the other, [..., n k]."""

    def forward(self, weights: Tensor, parts: Tensor) -> Tensor:
        return combine(weights, parts).flatten(-2).to(parts.dtype)


class Connection(nn.Module):
    """How one sublayer of `segments` m parts reads and writes n streams of width k, H [..., n, k].

    h = A H, the m parts [m, k] one after the other; H <- P H + B o, o cut into m parts. Each of A [..., m, n],
    P [..., n, n] and B [..., n, m] passes a door, `reading`, `mixing`, `writing`, where a forward hook sees it as it
    is applied; leading axes are batch and time where it depends on the token, else there are none.
    """

    def __init__(self, streams: int, segments: int = 1) -> None:
        super().__init__()
        self.streams, self.segments = streams, segments
        self.reading, self.mixing, self.writing = nn.Identity(), nn.Identity(), nn.Identity()
        self.spread = Spread()

    @abstractmethod
    def reading_weights(self, streams: Tensor) -> Tensor:
        """Return A from H, [..., m, n]."""

    @abstractmethod
    def mixing_weights(self, streams: Tensor) -> Tensor:
        """Return P from H, [..., n, n]."""

    @abstractmethod
    def writing_weights(self, streams: Tensor) -> Tensor:
        """Return B from H, [..., n, m]."""

    def read(self, state: Tensor) -> Tensor:
        """Return h [batch, time, m k] from the streams one after the other, [batch, time, n k]."""
        streams = self._cut(state, self.streams)
        weights = self.reading(self._coefficient(self.reading_weights, streams))
        return combine(weights, streams).flatten(-2).to(state.dtype)

    def write(self, state: Tensor, output: Tensor) -> Tensor:
        """Return the streams after `output` [batch, time, m k] was written."""
        streams = self._cut(state, self.streams)
        mixing = self.mixing(self._coefficient(self.mixing_weights, streams))
        writing = self.writing(self._coefficient(self.writing_weights, streams))
        carried = combine(mixing, streams).flatten(-2).to(state.dtype)
        written: Tensor = self.spread(writing, self._cut(output.to(state.dtype), self.segments))
        return carried + written

    @staticmethod
    def _cut(x: Tensor, parts: int) -> Tensor:
        return x.reshape(*x.shape[:-1], parts, -1)

    @staticmethod
    def _coefficient(function: Callable[[Tensor], Tensor], streams: Tensor) -> Tensor:
        with torch.autocast(device_type=streams.device.type, enabled=False):
            return coefficient(function, streams)


class StreamResidual(Residual):
    """A state of n streams, kept one after the other in one tensor [batch, time, n k].

    `connections.{l}` connects sublayer l. The write f_l is what all streams get, B o, as wide as the state.
    """

    doubly_stochastic: ClassVar[bool] = False
    """P is meant to have rows and columns that sum to 1."""

    def __init__(self, config: DecoderConfig, streams: int) -> None:
        super().__init__(config)
        if not 1 <= streams <= MOST_STREAMS:
            raise ValueError(f"{streams} streams: expected 1 to {MOST_STREAMS}")
        self.streams = streams
        self.connections = nn.ModuleList(self.connection(layer) for layer in range(config.layers))

    @abstractmethod
    def connection(self, layer: int) -> Connection:
        """Return a new connection for sublayer `layer` (from 0)."""

    @property
    def by_token(self) -> bool:
        """Whether A, P and B depend on the token."""
        return True

    def begin(self, embedding: Tensor) -> State:
        return torch.cat([embedding] * self.streams, dim=-1)

    def read(self, state: State, layer: int) -> Tensor:
        return self._connection(layer).read(tensor(state))

    def write(self, state: State, layer: int, output: Tensor) -> State:
        return self._connection(layer).write(tensor(state), output)

    def end(self, state: State) -> Tensor:
        streams = tensor(state)
        return streams.reshape(*streams.shape[:-1], self.streams, -1).sum(-2)

    def _connection(self, layer: int) -> Connection:
        connection = self.connections[layer]
        assert isinstance(connection, Connection)
        return connection

    def additive(self, layer: int) -> bool:
        return False  # a read is a combination of streams, and the write goes to all of them

    def fresh(self, layer: int) -> Literal["state", "mixer"] | None:
        return None

    def made_port(self, layer: int) -> Port | None:
        return Port(module=f"layers.{layer}.read", side="output")

    def write_port(self, layer: int) -> Port:
        return Port(module=f"residual.connections.{layer}.spread", side="output")

    def state_port(self, layer: int) -> Port | None:
        return Port(module=f"layers.{layer}.write", side="output")

    def stream_mixings(self) -> Sequence[StreamMixing]:
        return tuple(
            StreamMixing(
                layer=layer + 1,
                weights=Port(module=f"residual.connections.{layer}.mixing", side="output"),
                streams=self.streams,
                by_token=self.by_token,
                doubly_stochastic=self.doubly_stochastic,
            )
            for layer in range(self.layers)
        )
