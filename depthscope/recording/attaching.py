"""What is refused, early and by name, when a recorder is attached."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from torch import nn

from depthscope.recording import registry
from depthscope.store import holds_rows, refuse_existing_rows


def checked_model(model: nn.Module) -> nn.Module:
    if not isinstance(model, nn.Module):
        raise TypeError(
            f"model is a {type(model).__name__}; expected the torch.nn.Module that the loop calls"
        )
    return model


def checked_optimizers(
    given: torch.optim.Optimizer | Sequence[torch.optim.Optimizer] | None,
) -> tuple[torch.optim.Optimizer, ...]:
    """Return one or several optimizers as a tuple."""
    if given is None:
        return ()
    several = tuple(given) if isinstance(given, list | tuple) else (given,)
    for each in several:
        if not isinstance(each, torch.optim.Optimizer):
            raise TypeError(f"optimizer is {each!r}; expected a torch.optim.Optimizer, or a list of them")
    return several


def unheld_parameters(
    optimizers: Sequence[torch.optim.Optimizer], parameters: Mapping[str, nn.Parameter]
) -> str:
    """Say which trainable parameters of the model no optimizer holds; empty where they hold all of them.

    Raises:
        ValueError: one of the optimizers holds none of the parameters at all.
    """
    held: set[int] = set()
    known = {id(parameter) for parameter in parameters.values()}
    for optimizer in optimizers:
        its = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
        if not its & known:
            raise ValueError(
                f"the optimizer {type(optimizer).__name__} holds {len(its)} parameters, none of them the model's: "
                "make it from model.parameters(), after what replaces them (fully_shard, LoRA, a copy of the model), "
                "and give the recorder that model"
            )
        held |= its
    lacking = [name for name, each in parameters.items() if each.requires_grad and id(each) not in held]
    if not optimizers or not lacking:
        return ""
    trainable = sum(parameter.requires_grad for parameter in parameters.values())
    more = f" and {len(lacking) - 3} more" if len(lacking) > 3 else ""
    whose = "the optimizer holds" if len(optimizers) == 1 else "the optimizers hold"
    return (
        f"{whose} {trainable - len(lacking)} of the model's {trainable} trainable parameters, so gradients of the "
        f"others are not recorded, and grad_norm is without them: {', '.join(lacking[:3])}{more}. Give the recorder "
        "every optimizer of the model, optimizer=[first, second], or freeze what is not trained"
    )


def checked_path(path: str | Path) -> Path:
    """Return the run's folder as an absolute path."""
    if not str(path):
        raise ValueError("path is empty; give the folder of the run, e.g. 'runs/first'")
    return Path(path).absolute()


def check_resume(resume: str, path: Path) -> None:
    """Refuse what cannot be: no run to go on with, or one that shall not be touched."""
    if resume not in ("auto", "never", "must"):
        raise ValueError(f"resume={resume!r}: expected 'auto', 'never' or 'must'")
    if resume == "must" and not holds_rows(path):
        found = "a run without rows" if (path / "run.json").exists() else "no run"
        raise FileNotFoundError(
            f"resume='must', but there is {found} at {path}; use resume='auto' to begin one"
        )
    if resume == "never" or path.is_file():
        refuse_existing_rows(path)


def displace(model: nn.Module, path: Path) -> None:
    """Close earlier recorders of this model or path."""
    for other in registry.displaced_by(model, path):
        other.close()
        print(f"depthscope: closed the earlier recorder of {other.path}, which this one replaces")
