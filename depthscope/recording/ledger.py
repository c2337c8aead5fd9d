"""What compiled code added up during a step: packed for the way to the host, and taken apart there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from depthscope.probes import Array
from depthscope.recording.accumulator import Accumulator
from depthscope.recording.arming import Arming
from depthscope.recording.packet import Looks, Packet


class Ledger:
    """All accumulators of a recording, in one order."""

    def __init__(self, accumulators: Sequence[Accumulator], arming: Arming) -> None:
        self.accumulators, self.arming = tuple(accumulators), arming

    def pack(self) -> Tensor:
        """Return everything as one vector: the accumulators, then the forwards and positions counted."""
        parts = [part for each in self.accumulators for part in (each.sums, each.maxima)]
        return torch.cat([*parts, self.arming.counted])

    def follow(self) -> bool:
        """Go where the model went since, before or between forwards; True when it did."""
        moved = self.arming.follow()
        if moved:
            for each in self.accumulators:
                each.move(self.arming.device)
        return moved

    def clear(self) -> None:
        """Start the next step."""
        if self.accumulators:
            torch._foreach_zero_([each.sums for each in self.accumulators])
        for each in self.accumulators:
            if each.maxima.numel():
                each.maxima.fill_(-torch.inf)
        self.arming.forget()


def expand(packet: Packet, flat: Array) -> tuple[Packet, Array]:
    """Return the packet and its vector as they would be, had every number been made by eager code."""
    if packet.traced is None:
        return packet, flat
    size = sum(each.length for each in packet.traced) + 2
    eager, tail = flat[: len(flat) - size], flat[len(flat) - size :]
    split = sum(not count for visit in packet.visits for _, count in visit.moments)
    ends = sum(max(1, count) for visit in packet.visits for _, count in visit.moments)
    scalars, vectors = [eager[:split]], [eager[split:ends]]
    looks = Looks()
    for each in packet.traced:
        here, tail = tail[: each.length], tail[each.length :]
        count, width, values = each.read(here)
        if not count:
            continue  # nothing passed here
        for visit, moments in zip(each.visits, values, strict=True):
            looks.visits.append(visit)
            looks.tokens.append(count)
            looks.widths.append(width)
            for (_, numbers), value in zip(visit.moments, moments, strict=True):
                (vectors if numbers else scalars).append(value)
    _, positions = tail
    known = dict(packet.host_scalars)
    if not known.get("loss_tokens"):
        known["loss_tokens"] = float(positions)
    expanded = replace(packet, looks=(*packet.looks, looks), host_scalars=known)
    return expanded, np.concatenate([*scalars, *vectors, eager[ends:]])
