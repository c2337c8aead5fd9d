"""Reading `module:name` from the command line: imports it, with errors that say which part is wrong."""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from depthscope.cli.errors import CliError, UsageError, did_you_mean


def load(target: str, what: str) -> Any:
    """Return the object that `module:name` names; `what` says what it is for. The current folder is searched."""
    module_name, colon, name = target.partition(":")
    if not (colon and module_name and name):
        raise UsageError(
            f"{what} {target!r} is not of the form module:name; type for example my_models:build"
        )
    found: Any = _import(module_name, f"{what} {target!r}")
    for part in name.split("."):
        if not hasattr(found, part):
            public = (
                [entry for entry in vars(found) if not entry.startswith("_")]
                if hasattr(found, "__dict__")
                else []
            )
            raise UsageError(
                f"{what} {target!r}: {module_name} has no {part!r}; {did_you_mean(part, public)}"
            )
        found = getattr(found, part)
    return found


def call(function: Any, target: str, what: str) -> Any:
    """Return what a function without arguments gives; what it raises becomes a CliError with its place."""
    try:
        return function()
    except Exception as error:
        raise CliError(f"{what} {target!r} raised {_told(error)}") from error


def each(entries: Iterator[Any], target: str, what: str) -> Iterator[Any]:
    """Yield what a user's iterator gives; what it raises on the way becomes a CliError with its place."""
    while True:
        try:
            entry = next(entries)
        except StopIteration:
            return
        except Exception as error:
            raise CliError(f"{what} {target!r} raised {_told(error)}") from error
        yield entry


def _import(name: str, what: str) -> ModuleType:
    here = os.getcwd()
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise UsageError(
                f"{what}: no module is called {error.name!r}; looked in {here} and on the Python path. "
                "Type it from the folder that holds it, or install it."
            ) from None
        raise CliError(f"{what}: importing {name} raised {_told(error)}") from error
    except Exception as error:
        raise CliError(f"{what}: importing {name} raised {_told(error)}") from error


def _told(error: Exception) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    place = f"\n  at {frames[-1].filename}:{frames[-1].lineno}" if frames else ""
    return f"{type(error).__name__}: {error}{place}"
