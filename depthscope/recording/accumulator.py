"""Sums and maxima that compiled code adds into, one set for each place that probes look at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from depthscope.probes import Activation, Array, Probe, Site
from depthscope.recording.arming import keep_address
from depthscope.recording.merge import Visit


class Accumulator:
    """The moments of some probes at one site, added up where they are made.

    Every site has tensors of its own. One buffer with an index would make one graph for each index.
    """

    def __init__(
        self,
        site: Site,
        probes: Sequence[tuple[int, Probe]],
        example: Mapping[str, Activation],
        device: torch.device,
    ) -> None:
        """`example` holds activations of one token, with the widths to come: they fix names and sizes."""
        self.site = site
        self.probes: tuple[tuple[Probe, frozenset[str]], ...] = ()
        """Each probe with the names of the moments that merge by their maximum."""
        self.visits: list[Visit] = []
        self._places: list[list[tuple[bool, int, int]]] = []
        added = largest = 0
        for index, probe in probes:
            moments = probe.moments(site, example)
            if not moments:
                continue
            maxima = frozenset(name for name in moments if probe.merges[name] == "max")
            self.probes = (*self.probes, (probe, maxima))
            named = tuple((name, value.numel() if value.dim() else 0) for name, value in moments.items())
            self.visits.append(Visit(probe=index, site=site, moments=named))
            held = []
            for name, size in named:
                numbers = max(1, size)
                if name in maxima:
                    held.append((True, largest, numbers))
                    largest += numbers
                else:
                    held.append((False, added, numbers))
                    added += numbers
            self._places.append(held)
        self.sums = torch.zeros(added + 2, device=device)
        """Moments that add up, in the order of the probes; then tokens, and tokens times width."""
        self.maxima = torch.full((largest,), -torch.inf, device=device)
        self.length = added + 2 + largest
        keep_address(self.sums, self.maxima)

    def add(self, seen: Mapping[str, Activation], counted: Activation, gate: Tensor | None) -> None:
        """Add the moments of `seen` where `gate` is above 0, or anyway. Traced into the graph."""
        sums: list[Tensor] = []
        maxima: list[Tensor] = []
        for probe, largest in self.probes:
            for name, value in probe.moments(self.site, seen).items():
                (maxima if name in largest else sums).append(value.reshape(-1))
        if counted.counted is None:
            counts = (
                self.sums.new_full((1,), counted.tokens),
                self.sums.new_full((1,), counted.tokens * counted.width),
            )
        else:
            tokens = counted.counted.to(counted.dtype).sum().reshape(1)
            counts = tokens, tokens * counted.width
        new = torch.cat([*sums, *counts])
        self.sums.add_(new if gate is None else torch.where(gate > 0, new, torch.zeros_like(new)))
        if maxima:
            larger = torch.maximum(self.maxima, torch.cat(maxima))
            self.maxima.copy_(larger if gate is None else torch.where(gate > 0, larger, self.maxima))

    def move(self, device: torch.device) -> None:
        """Go on, empty, on another device."""
        self.sums = torch.zeros_like(self.sums, device=device)
        self.maxima = torch.full_like(self.maxima, -torch.inf, device=device)
        keep_address(self.sums, self.maxima)

    def read(self, numbers: Array) -> tuple[int, int, list[list[Array]]]:
        """Return tokens, width, and for each visit the values of its moments, from `sums` and then `maxima`."""
        end = self.sums.numel()
        tokens = float(numbers[end - 2])
        width = round(float(numbers[end - 1]) / tokens) if tokens else 0
        values = [
            [
                numbers[end + at : end + at + size] if largest else numbers[at : at + size]
                for largest, at, size in held
            ]
            for held in self._places
        ]
        return round(tokens), width, values
