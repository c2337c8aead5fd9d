"""Sources of depth mixers: h_l = sum_i alpha_i v_i."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor

from depthscope.causal.depth_sources import DepthSources, block_of, target_names
from depthscope.causal.intervention import Intervention
from depthscope.causal.labels import mixer_sources
from depthscope.causal.replacing import MODES, Mode
from depthscope.causal.values import Values
from depthscope.marks import Mixer, Port


class MixerSources(DepthSources):
    """Every source of every depth mixer. Weights stay as this forward computed them; ``renormalise`` scales them.

    Only the value is cut, never the key: the question is what the read would be without it, not where a mixer that
    never saw it would look.
    """

    what: ClassVar[str] = "depth sources"
    modes: ClassVar[tuple[Mode, ...]] = MODES

    @property
    def target_names(self) -> tuple[str, ...]:
        return target_names(self.axis)

    @property
    def source_names(self) -> tuple[str, ...]:
        return self.axis.source_names

    def readable(self, target: int) -> tuple[int, ...]:
        mixer = self._mixer(target)
        return () if mixer is None else mixer.sources

    def current(self, target: int) -> tuple[int, ...]:
        mixer = self._mixer(target)
        if mixer is None or target >= len(self.axis.sublayers):
            return ()
        if mixer.partial:
            return mixer.sources[-1:]
        if len(self.axis.source_names) != len(self.axis.sublayers) + 1:
            return ()
        own = block_of(self.axis, target + 1)
        return tuple(column for column in mixer.sources if column and block_of(self.axis, column) == own)

    def read(self, target: int) -> Port:
        return Port(module=self._known(target).module, side="output")

    def source_ports(self, target: int) -> tuple[Port, ...]:
        mixer = self._known(target)
        return mixer_sources(mixer.module, len(mixer.sources))

    def weights(self, target: int) -> tuple[Port, ...]:
        return (self._known(target).weights,)

    def total(self, target: int, sources: Sequence[Tensor], values: Values) -> Tensor:
        return mixed(values[self._known(target).weights], sources)

    def parts(self, target: int, values: Values) -> list[Tensor]:
        weights = values[self._known(target).weights]
        ports = self.source_ports(target)
        return [weight.unsqueeze(-1) * values[port] for weight, port in zip(weights, ports, strict=True)]

    def _build(
        self, name: str, target: int, columns: Sequence[int], mode: Mode, donor: Values | None
    ) -> Intervention:
        if mode != "renormalise":
            return super()._build(name, target, columns, mode, donor)
        mixer, ports = self._known(target), self.source_ports(target)
        places = [mixer.sources.index(column) for column in columns]

        def change(read: Tensor, values: Values) -> Tensor:
            return mixed(renormalised(values[mixer.weights], places), [values[port] for port in ports])

        return self._edit(name, target, change)

    def _known(self, target: int) -> Mixer:
        mixer = self._mixer(target)
        assert mixer is not None, "only targets with readable sources are asked for"
        return mixer

    def _mixer(self, target: int) -> Mixer | None:
        return next((mixer for mixer in self.axis.mixers if mixer.target == target + 1), None)


def mixed(weights: Tensor, sources: Sequence[Tensor]) -> Tensor:
    """Return sum_i alpha_i v_i from alpha [n_sources, batch, time] and sources [batch, time, d]."""
    return torch.stack(
        [weight.unsqueeze(-1) * source for weight, source in zip(weights, sources, strict=True)]
    ).sum(0)


def renormalised(weights: Tensor, places: Sequence[int]) -> Tensor:
    """Return the weights [n_sources, batch, time] without some, the others scaled to the sum that all had.

    Where the others were all 0 they stay 0: nothing is left to read.
    """
    kept = weights.clone()
    kept[list(places)] = 0
    left = kept.sum(0)
    return kept * (weights.sum(0) / left.where(left > 0, torch.ones_like(left)))
