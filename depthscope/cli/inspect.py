"""`depthscope inspect`: the depth axis of a model, as the recorder would find it."""

from __future__ import annotations

import argparse
import importlib.util
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from depthscope.cli.command import Command
from depthscope.cli.errors import CliError, UsageError, did_you_mean
from depthscope.cli.target import call, load

if TYPE_CHECKING:
    from torch import nn

TOKENS = 16


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "model",
        metavar="MODEL",
        help="module:factory, a function without arguments that returns the model; or a design such as "
        "block-attnres:S=6",
    )
    parser.add_argument(
        "--example",
        metavar="module:function",
        help="a function that returns the forward's arguments (a tensor, a tuple, or a dict of keywords): the "
        "guess is then checked on one forward",
    )
    parser.add_argument("--blocks", metavar="NAME", help="module path of the list of transformer blocks")
    parser.add_argument("--attention", metavar="NAME", help="name of the attention sublayer inside a block")
    parser.add_argument("--mlp", metavar="NAME", help="name of the MLP sublayer inside a block")


def run(arguments: argparse.Namespace) -> int:
    if importlib.util.find_spec("torch") is None:
        raise CliError("inspect needs torch, which is not installed; type: pip install 'depthscope[record]'")
    from depthscope.anatomy import AnatomyError, inspect_model

    model, example = _model(arguments.model)
    if arguments.example:
        example = call(load(arguments.example, "--example"), arguments.example, "--example")
    overrides = {
        name: value
        for name in ("blocks", "attention", "mlp")
        if (value := getattr(arguments, name)) is not None
    }
    try:
        anatomy = inspect_model(model, example, **overrides)
    except AnatomyError as error:
        raise CliError(f"inspect {arguments.model}: {error}") from None
    except Exception as error:
        if example is None:
            raise
        source = arguments.example or arguments.model
        raise CliError(
            f"inspect {arguments.model}: a forward with the arguments of {source!r} raised "
            f"{type(error).__name__}: {error}"
        ) from None
    print(anatomy)
    return 0


def _model(text: str) -> tuple[nn.Module, Any]:
    """Return the model that `text` names and, for a design of the project, an example input."""
    import torch
    from torch import nn

    from depthscope.models import DESIGNS, Decoder, DecoderConfig, DesignError, residual_from_string

    name = text.partition(":")[0]
    if name in DESIGNS:
        config = DecoderConfig()
        try:
            model = Decoder(config, residual_from_string(text, config))
        except DesignError as error:
            raise UsageError(f"inspect: {error}") from None
        return model, torch.zeros(1, TOKENS, dtype=torch.long)
    meant = get_close_matches(name, DESIGNS, n=1, cutoff=0.75) and importlib.util.find_spec(name) is None
    if ":" not in text or "=" in text or meant:
        raise UsageError(
            f"inspect: {text!r} is neither module:factory nor a design; for a design, {did_you_mean(name, DESIGNS)}"
        )
    made = load(text, "inspect")
    if not isinstance(made, nn.Module):
        if not callable(made):
            raise UsageError(
                f"inspect {text!r} is a {type(made).__name__}; expected a function that returns a model"
            )
        made = call(made, text, "inspect")
    if not isinstance(made, nn.Module):
        raise CliError(f"inspect {text!r} returned a {type(made).__name__}; expected a torch.nn.Module")
    return made, None


INSPECT = Command(
    name="inspect",
    summary="the depth axis of a model, as the recorder would find it",
    description="Print which modules of a model are transformer blocks and sublayers, where their reads and "
    "writes pass, and what could not be found and why.",
    examples=(
        ("depthscope inspect my_models:build", "the model that build() returns, from the current folder"),
        ("depthscope inspect my_models:build --example my_models:batch", "checked on one forward of batch()"),
        ("depthscope inspect block-attnres:S=6", "a reference design"),
    ),
    add_arguments=add_arguments,
    run=run,
)
