"""Sources of a plain residual stream: h_l = v_0 + sum of the writes before l."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from torch import Tensor

from depthscope.causal.depth_sources import DepthSources, block_of, target_names
from depthscope.causal.values import Values
from depthscope.marks import Port


class StreamSources(DepthSources):
    """The embedding and every write, as each later read holds them. The stream itself goes on with all of them."""

    what: ClassVar[str] = "the writes of a residual stream"

    @property
    def target_names(self) -> tuple[str, ...]:
        return target_names(self.axis)

    @property
    def source_names(self) -> tuple[str, ...]:
        return ("embedding", *(f"sublayer {sublayer.index}" for sublayer in self.axis.sublayers))

    def readable(self, target: int) -> tuple[int, ...]:
        return tuple(range(target + 1)) if self._read(target) is not None else ()

    def current(self, target: int) -> tuple[int, ...]:
        if target >= len(self.axis.sublayers):
            return ()
        own = block_of(self.axis, target + 1)
        return tuple(column for column in range(1, target + 1) if block_of(self.axis, column) == own)

    def read(self, target: int) -> Port:
        port = self._read(target)
        assert port is not None, "only targets with readable sources are asked for"
        return port

    def source_ports(self, target: int) -> tuple[Port, ...]:
        assert self.axis.embedding is not None, "it is refused without"
        return (self.axis.embedding, *(sublayer.write for sublayer in self.axis.sublayers[:target]))

    def total(self, target: int, sources: Sequence[Tensor], values: Values) -> Tensor:
        first, *writes = sources
        for write in writes:
            first = first + write
        return first

    def parts(self, target: int, values: Values) -> list[Tensor]:
        return [values[port] for port in self.source_ports(target)]

    def _read(self, target: int) -> Port | None:
        axis = self.axis
        return axis.final_read if target == len(axis.sublayers) else axis.sublayers[target].read
