"""Two-phase Block AttnRes: all reads of a block over the finished blocks at once, the unfinished sum merged later."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, TypeAlias

import torch
from torch import Tensor, nn

from depthscope.marks import Port, coefficient
from depthscope.models.attnres import BlockAttnRes
from depthscope.models.config import DecoderConfig
from depthscope.models.mixer import depth_logits
from depthscope.models.norm import RMSNorm
from depthscope.models.precision import at_least_float32
from depthscope.models.residual import State, tensors

Statistics: TypeAlias = tuple[Tensor, Tensor, Tensor]
"""Of queries over finished blocks: m, the largest logit [..., batch, time]; e = exp(logit - m) [..., n, batch, time];
o = sum_i e_i b_i [..., batch, time, d]. The sum z of e is left to be taken where it is needed."""


def exponentials(sources: Tensor, queries: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """Return m [S, batch, time] and e [S, n, batch, time] of `queries` [S, d] over `sources` [n, batch, time, d]."""
    ones = torch.ones_like(queries[0])
    logits = torch.stack([depth_logits(sources, query, ones, eps) for query in queries])
    largest = logits.amax(dim=1)
    return largest, torch.exp(logits - largest.unsqueeze(1))


def merge(
    partial: Tensor, query: Tensor, largest: Tensor, total: Tensor, eps: float
) -> tuple[Tensor, Tensor]:
    """Return what o of phase 1 and the unfinished sum are multiplied by, each [batch, time].

    The unfinished sum is phase 2's only source, so its own o and z are itself and 1. With m = max(m_1, m_2) both are
    brought to one scale: exp(m_1 - m) / z and exp(m_2 - m) / z, z = exp(m_1 - m) z_1 + exp(m_2 - m).
    """
    logit = depth_logits(partial, query, torch.ones_like(query), eps)
    larger = torch.maximum(largest, logit)
    finished, unfinished = torch.exp(largest - larger), torch.exp(logit - larger)
    whole = finished * total + unfinished
    return finished / whole, unfinished / whole


class WeightsDoor(nn.Module):
    """Door through which alpha [n_sources, batch, time] passes, with the sources that it weighs."""

    def forward(self, sources: Sequence[Tensor], weights: Tensor) -> Tensor:
        return weights


class TwoPhaseMixer(nn.Module):
    """The read of one target from both phases; parameters as in `DepthMixer`."""

    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.eps = eps
        self.query = nn.Parameter(torch.zeros(width))
        self.key_norm = RMSNorm(width, eps)
        self.weights = WeightsDoor()

    @property
    def effective_query(self) -> Tensor:
        """Key-norm gain times query [d], in float32 or better."""
        return at_least_float32(self.query * self.key_norm.weight)

    def forward(self, sources: Sequence[Tensor], statistics: Statistics) -> Tensor:
        """Return the read [batch, time, d] from the finished blocks and, where there is one, the unfinished sum."""
        largest, e, summed = statistics
        total = e.sum(0)
        with torch.autocast(device_type=e.device.type, enabled=False):
            if len(sources) == len(e):
                self.weights(sources, e / total)
                read = summed / total.unsqueeze(-1)
            else:
                partial = at_least_float32(sources[-1])
                a, b = coefficient(merge, partial, self.effective_query, largest, total, self.eps)
                self.weights(sources, torch.cat((a * e, b.unsqueeze(0))))
                read = a.unsqueeze(-1) * summed + b.unsqueeze(-1) * partial
        return read.to(sources[0].dtype)


class TwoPhaseAttnRes(BlockAttnRes):
    """Block AttnRes computed in two phases (arXiv 2603.15031, Section 4.1, Algorithm 1; the merge of Milakov and Gimelshein, arXiv 1805.02867).

    Phase 1, where a block begins: the queries of its S sublayers over the finished blocks at once, which are read
    from memory once and not S times. Phase 2, at each sublayer but the first: its query over the unfinished sum, merged
    with phase 1 by the online softmax. The same function as `BlockAttnRes`, gradients too; the weights are rebuilt
    from the statistics. The state is (finished blocks, unfinished sum or nothing, statistics of the block's queries).
    """

    name: ClassVar[str] = "two-phase-attnres"
    label: ClassVar[str] = "AttnRes two-phase"

    def __init__(
        self,
        config: DecoderConfig,
        *,
        block_size: int | None = None,
        boundaries: Sequence[int] | None = None,
    ) -> None:
        super().__init__(config, block_size=block_size, boundaries=boundaries)

    def new_mixer(self, target: int) -> nn.Module:
        return TwoPhaseMixer(self.config.width, self.config.norm_eps)

    def begin(self, embedding: Tensor) -> State:
        return ((embedding,), (), self._phase_one((embedding,), 0))

    def read(self, state: State, layer: int) -> Tensor:
        return self._read(state, layer, layer - self.blocks.start(self.blocks.of(layer)))

    def write(self, state: State, layer: int, output: Tensor) -> State:
        finished, partial, statistics = parts(state)
        total = partial[0] + output if partial else output.to(finished[0].dtype)
        if not self.blocks.finishes(layer):
            return (finished, (total,), statistics)
        finished = (*finished, total)
        return (finished, (), self._phase_one(finished, self.blocks.of(layer) + 1))

    def end(self, state: State) -> Tensor:
        return self._read(state, self.layers, 0)

    def state_port(self, layer: int) -> Port | None:
        path = (0, -1) if self.blocks.finishes(layer) else (1, 0)
        return Port(module=f"layers.{layer}.write", side="output", path=path)

    def _phase_one(self, finished: tuple[Tensor, ...], block: int) -> Statistics:
        """Return the statistics of block `block`'s queries; past the last block, of the final query."""
        past = block == len(self.blocks)
        targets = range(self.layers, self.layers + 1) if past else self.blocks.members(block)
        queries = torch.stack([self._mixer(target).effective_query for target in targets])
        sources = at_least_float32(torch.stack(finished))
        with torch.autocast(device_type=sources.device.type, enabled=False):
            largest, e = coefficient(exponentials, sources, queries, self.config.norm_eps)
            return largest, e, torch.einsum("snbt,nbtd->sbtd", e, sources)

    def _read(self, state: State, target: int, place: int) -> Tensor:
        finished, partial, (largest, e, summed) = parts(state)
        mixer = self._mixer(target)
        read: Tensor = mixer((*finished, *partial), (largest[place], e[place], summed[place]))
        return read

    def _mixer(self, target: int) -> TwoPhaseMixer:
        mixer = self.mix[target]
        assert isinstance(mixer, TwoPhaseMixer)
        return mixer


def parts(state: State) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...], tuple[Tensor, ...]]:
    """Return finished blocks, unfinished sum and statistics of a state."""
    finished, partial, statistics = (tensors(part) for part in state)
    return finished, partial, statistics
