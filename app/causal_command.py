"""The line to type for a sweep that a run does not have yet."""

from __future__ import annotations

import shlex
from typing import Literal

from depthscope.app.reading import CachedRun

Kind = Literal["sources", "lens"]
CHECKPOINTS = "checkpoints"
"""The folder of a run in which ``depthscope demo`` keeps weights: reading runs needs no torch, so none of its code."""


def causal_command(run: CachedRun, kind: Kind = "sources", mode: str | None = None) -> str:
    """Return the command that measures `kind` on a run, typed beside the folder that is served.

    A run that keeps checkpoints of its own, as those of ``depthscope demo`` do, needs no more; of others the model,
    the weights and the data are yet to be named.
    """
    words = ["depthscope", "causal", run.place]
    words += [] if kind == "sources" else ["--kind", kind]
    words += [] if mode is None else ["--mode", mode]
    if not (run.run.path / CHECKPOINTS).is_dir():
        words += [
            "--checkpoint",
            "FILE",
            "--model",
            "MODULE:FACTORY",
            "--data",
            "MODULE:FUNCTION",
            "--step",
            "N",
        ]
    return shlex.join(words)
