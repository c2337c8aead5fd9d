"""depthscope: a flight recorder and viewer for the depth axis of deep networks.

Public names load what they need on first use, so the viewer runs without torch and a training loop never
loads the viewer.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from depthscope.analysis import Finding, findings
    from depthscope.anatomy import Anatomy, inspect_model
    from depthscope.figures import figure, list_figures
    from depthscope.mixing import measure_mixing
    from depthscope.recording import Recorder, Schedule
    from depthscope.report import export
    from depthscope.store import Run, find_runs
    from depthscope.store import open_run as open

_HOMES = {
    "Anatomy": ("anatomy", "Anatomy"),
    "Finding": ("analysis", "Finding"),
    "Recorder": ("recording", "Recorder"),
    "Run": ("store", "Run"),
    "Schedule": ("recording", "Schedule"),
    "export": ("report", "export"),
    "figure": ("figures", "figure"),
    "find_runs": ("store", "find_runs"),
    "findings": ("analysis", "findings"),
    "inspect_model": ("anatomy", "inspect_model"),
    "list_figures": ("figures", "list_figures"),
    "measure_mixing": ("mixing", "measure_mixing"),
    "open": ("store", "open_run"),
}
_ROOMS = ("causal", "models", "testing")
"""Used by their own names: ``depthscope.causal.ablate_sources``."""

__version__ = "0.1.0"

__all__ = [
    "Anatomy",
    "Finding",
    "Recorder",
    "Run",
    "Schedule",
    "export",
    "figure",
    "find_runs",
    "findings",
    "inspect_model",
    "list_figures",
    "measure_mixing",
    "open",
]


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return import_module(f"depthscope.{name}")
    try:
        room, attribute = _HOMES[name]
    except KeyError:
        raise AttributeError(
            f"module 'depthscope' has no attribute {name!r}; it has {', '.join((*__all__, *_ROOMS))}"
        ) from None
    value = getattr(import_module(f"depthscope.{room}"), attribute)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_ROOMS})
