"""The shapes of a run's parameters, kept beside it: a model of another width may have as many sublayers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from depthscope.store.errors import SchemaError
from depthscope.store.files import read_json, replace_json

PARAMETERS = "parameters.json"

Shapes = Mapping[str, Sequence[int]]


def keep_parameters(path: Path, shapes: Shapes) -> None:
    """Write down the shapes of the parameters with which the run at `path` begins."""
    replace_json(path / PARAMETERS, {name: list(shape) for name, shape in shapes.items()}, fsync=False)


def refuse_other_parameters(path: Path, shapes: Shapes) -> None:
    """Raise SchemaError when a parameter of the run at `path` has another shape now.

    One that came or went is no contradiction (an adapter, say); nor is anything where a run of an earlier version
    kept no shapes, or its file is damaged.
    """
    try:
        kept = read_json(path / PARAMETERS)
    except (OSError, ValueError):
        return
    for name, shape in shapes.items():
        if name in kept and kept[name] != list(shape):
            raise SchemaError(
                path,
                f"{path} was recorded with another model: {name} has shape {kept[name]} in the run and {list(shape)} "
                "now. Record to another path, or resume with the model of that run",
            )
