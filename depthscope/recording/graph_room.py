"""Room for the graphs that recording adds: after so many of one function, dynamo gives up compiling it."""

from __future__ import annotations

import torch

_TIMES = 6
"""Each graph of the loop's, recorded and not; and of compiled blocks the first, the last and those between apart."""
_set: int | None = None
"""The limit as it was set last; another one is the loop's own."""


def make_room() -> None:
    """Raise torch's limit of graphs for one function, once, to `_TIMES` that of the loop.

    Blocks that are compiled one by one share their code, so their graphs add up: recording would use up the limit of 8,
    and later shapes would run uncompiled, with other roundings. It stays so: what is compiled stays compiled, too.
    """
    global _set
    config = torch._dynamo.config
    if config.recompile_limit != _set:
        _set = config.recompile_limit = _TIMES * config.recompile_limit
