"""What is refused, early and by name, when a recorder is attached."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn

from depthscope.recording import registry


def checked_model(model: nn.Module) -> nn.Module:
    if not isinstance(model, nn.Module):
        raise TypeError(
            f"model is a {type(model).__name__}; expected the torch.nn.Module that the loop calls"
        )
    if type(model).__name__ == "OptimizedModule":
        raise ValueError(
            "the model is compiled already, and a compiled model ignores hooks attached later: attach the "
            "recorder to the module first, then call torch.compile"
        )
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        ranks = torch.distributed.get_world_size()
        if ranks > 1:
            raise RuntimeError(
                f"this version records one process and found {ranks} ranks; it refuses rather than record one "
                "rank's numbers as if they were the run's"
            )
    return model


def check_resume(resume: str, path: Path) -> None:
    if resume not in ("auto", "never", "must"):
        raise ValueError(f"resume={resume!r}: expected 'auto', 'never' or 'must'")
    if resume == "must" and not (path / "run.json").exists():
        raise FileNotFoundError(
            f"resume='must', but there is no run at {path}; use resume='auto' to begin one"
        )


def displace(model: nn.Module, path: Path) -> None:
    for other in registry.displaced_by(model, path):
        other.close()
        print(f"depthscope: closed the earlier recorder of {other.path}, which this one replaces")
