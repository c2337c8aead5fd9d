"""The model that `depthscope causal` measures: weights from a file, put into the module they belong to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from depthscope.cli.errors import CliError, UsageError
from depthscope.cli.target import call, load

if TYPE_CHECKING:
    from torch import nn

_INSIDE = ("model", "state_dict", "model_state_dict")


@dataclass(frozen=True, kw_only=True)
class Measured:
    """A model with its weights, and what is known of them."""

    model: nn.Module
    file: Path
    step: int | None
    demo: bool
    """Whether `depthscope demo` wrote the file."""


def checkpoint_of(run: Path, file: Path | None, factory: str | None, step: int | None) -> Measured:
    """Return the model of a checkpoint; UsageError for what was typed wrong, CliError for what cannot be read."""
    from depthscope.training import CheckpointError, is_checkpoint, newest_checkpoint, restore

    path = file if file is not None else newest_checkpoint(run)
    if path is None:
        raise UsageError(
            f"causal: {run} keeps no checkpoints; name one with --checkpoint FILE, or train a demo that keeps some: "
            "depthscope demo --checkpoint-every 100"
        )
    held = _read(path)
    if factory is None:
        if not is_checkpoint(held):
            raise UsageError(
                f"causal: --model module:factory is needed: {path} does not say what model it belongs to"
            )
        try:
            model, known = restore(held)
        except CheckpointError as error:
            raise CliError(f"causal: {path}: {error}") from None
        return Measured(model=model, file=path, step=_agreed(known, step, path), demo=True)
    agreed = _agreed(_step(held), step, path)
    return Measured(model=_filled(factory, held, path), file=path, step=agreed, demo=False)


def place(model: nn.Module, device: str | None) -> None:
    """Move a model to a device; None: CUDA where there is one. UsageError for a device that is not there."""
    import torch

    chosen = device or ("cuda" if torch.cuda.is_available() else "cpu")
    try:
        model.to(torch.device(chosen))
    except (RuntimeError, AssertionError) as error:
        raise UsageError(f"causal: --device {chosen}: {str(error).splitlines()[0]}") from None


def demo_batches(model: Any, count: int) -> Iterator[Any]:
    """Return the held-out text of the demo in batches of 8 sequences, spread evenly over it."""
    from depthscope.training import CorpusError, read_corpus, validation_batches

    try:
        text = read_corpus().validation
    except CorpusError as error:
        raise CliError(f"causal: {error}; give --data module:function") from None
    return iter(validation_batches(text, count=count, batch=8, context=model.config.context))


def _read(path: Path) -> Any:
    import torch

    try:
        # Weights only: a checkpoint of somebody else's must not run code.
        return torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError:
        raise UsageError(
            f"causal: {path} does not exist; expected a checkpoint written with torch.save"
        ) from None
    except Exception as error:
        raise CliError(
            f"causal: {path} cannot be read as weights ({type(error).__name__}: {error})"
        ) from error


def _filled(factory: str, held: Any, path: Path) -> nn.Module:
    from torch import nn

    made = load(factory, "--model")
    model = made if isinstance(made, nn.Module) else call(made, factory, "--model")
    if not isinstance(model, nn.Module):
        raise CliError(f"--model {factory!r} returned a {type(model).__name__}; expected a torch.nn.Module")
    weights = next(
        (held[name] for name in _INSIDE if isinstance(held, Mapping) and isinstance(held.get(name), Mapping)),
        held,
    )
    try:
        model.load_state_dict(weights)
    except (RuntimeError, TypeError, AttributeError) as error:
        raise CliError(f"causal: the weights of {path} do not fit --model {factory!r}: {error}") from None
    return model


def _agreed(held: int | None, typed: int | None, path: Path) -> int | None:
    """Return the step that the checkpoint says or the user typed; UsageError where they are two."""
    if held is not None and typed is not None and held != typed:
        raise UsageError(f"causal: --step {typed}, but {path} says step {held}; leave --step out")
    return typed if held is None else held


def _step(held: Any) -> int | None:
    found = held.get("step") if isinstance(held, Mapping) else None
    return found if isinstance(found, int) and not isinstance(found, bool) else None
