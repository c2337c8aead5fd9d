"""How many threads a demo takes on the CPU."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def half_the_threads() -> Iterator[None]:
    """Run torch on half its threads inside the block, unless OMP_NUM_THREADS says how many there are to be.

    The other half serves the page and the browser. Models of the demo's size hardly gain from the second half, and
    threads that wait for a busy core cost several times more than they bring.
    """
    before = torch.get_num_threads()
    if "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(max(1, before // 2))
    try:
        yield
    finally:
        torch.set_num_threads(before)
