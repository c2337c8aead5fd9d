"""Sources of a wide outer state: what each block reads of the embedding and of each earlier block's write."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from torch import Tensor, nn

from depthscope.causal.depth_sources import DepthSources
from depthscope.causal.frozen_norm import freeze
from depthscope.causal.values import Values
from depthscope.marks import DepthAxis, Port


class OuterSources(DepthSources):
    """h_b = norm(h_{b-1} + W_b Phi_b), read by block b + 1 and, at the end, by the output.

    A cut recomputes, for one reader alone, the outer state from what the blocks wrote in this forward, norms
    included, as if one write had never come; the outer state itself goes on with all of them.
    """

    what: ClassVar[str] = "writes to the outer state"

    def __init__(self, axis: DepthAxis, plain: Mapping[str, nn.Module]) -> None:
        """Give the axis, and modules of the model that can be called at any time, by path."""
        super().__init__(axis)
        self._plain = plain
        self._norms = [plain[block.state.module] for block in axis.outer]

    @property
    def target_names(self) -> tuple[str, ...]:
        return (*(f"block {block.index}" for block in self.axis.outer), "output")

    @property
    def source_names(self) -> tuple[str, ...]:
        return ("embedding", *(f"block {block.index}" for block in self.axis.outer))

    def readable(self, target: int) -> tuple[int, ...]:
        return tuple(range(target + 1))

    def current(self, target: int) -> tuple[int, ...]:
        return ()  # a block's own write comes after its read

    def read(self, target: int) -> Port:
        port = self.axis.outer_end if target == len(self.axis.outer) else self.axis.outer[target].carry
        assert port is not None, "it is refused without"
        return port

    def source_ports(self, target: int) -> tuple[Port, ...]:
        return (self.axis.outer[0].carry, *(block.write for block in self.axis.outer[:target]))

    def total(self, target: int, sources: Sequence[Tensor], values: Values) -> Tensor:
        state, *writes = sources
        for norm, write in zip(self._norms, writes, strict=False):
            state = norm(state + write)
        return state

    def parts(self, target: int, values: Values) -> list[Tensor]:
        first, *writes = [values[port] for port in self.source_ports(target)]
        state, parts = first, [first]
        for block, norm, write in zip(self.axis.outer, self._norms, writes, strict=False):
            before = state + write
            frozen = freeze(norm, before, f"the norm after block {block.index}")
            state, parts = norm(before), [frozen(part) for part in (*parts, write)]
        reader = self._reader(target)
        return [reader(part) for part in parts]

    def _reader(self, target: int) -> nn.Module:
        """Return the linear map from the outer state to what the target reads."""
        return self._plain[self.read(target).module]
