"""How many interventions fit beside each other."""

from __future__ import annotations

import os
from pathlib import Path

import torch

from depthscope.causal.batch import Batch
from depthscope.causal.error import CausalError
from depthscope.causal.subject import Subject

SHARE = 0.5
"""Of the free memory."""
ON_CPU = 4
"""Most interventions in one forward of a CPU: past it nothing gets faster."""
ON_DEVICE = 64


def interventions_at_once(subject: Subject, batch: Batch, free: int | None = None) -> int:
    """Return how many copies of `batch` one forward may hold in half of the `free` bytes, at least 1.

    Raises:
        CausalError: not even one fits.
    """
    device = next((parameter.device for parameter in subject.model.parameters()), torch.device("cpu"))
    free = free_bytes(device) if free is None else free
    needed = subject.bytes_per_sequence * batch.sequences
    fitting = int(SHARE * free / max(needed, 1))
    if fitting < 1:
        raise CausalError(
            f"a batch of {batch.sequences} sequences takes about {needed / 2**30:.2f} GiB and {free / 2**30:.2f} GiB are "
            f"free on {device}: half of that at most is used. Give smaller batches, and more of them"
        )
    return min(fitting, ON_CPU if device.type == "cpu" else ON_DEVICE)


def free_bytes(device: torch.device) -> int:
    """Return the free memory of a device; of the CPU what the system says can be had without swapping."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    try:
        lines = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
        return int(lines["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
