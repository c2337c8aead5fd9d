"""The public surface, and what importing it loads."""

from __future__ import annotations

import subprocess
import sys

import pytest

import depthscope

HEAVY = ("torch", "nnsight", "dash", "plotly", "matplotlib", "transformers")


def test_the_public_names_are_these() -> None:
    assert depthscope.__all__ == [
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
    assert all(getattr(depthscope, name) is not None for name in depthscope.__all__)


def loaded_after(code: str) -> set[str]:
    """Return which heavy packages a fresh interpreter has loaded after `code`."""
    script = f"import sys; {code}; print(*[name for name in {HEAVY!r} if name in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=120
    )
    return set(done.stdout.split())


def test_importing_depthscope_loads_nothing_heavy() -> None:
    assert loaded_after("import depthscope") == set()


def test_reading_needs_no_torch_and_no_viewer() -> None:
    assert (
        loaded_after("import depthscope; depthscope.open; depthscope.find_runs; depthscope.findings") == set()
    )


def test_recording_loads_torch_and_no_viewer() -> None:
    assert loaded_after("import depthscope; depthscope.Recorder") == {"torch"}


def test_a_room_with_names_of_its_own_is_there_without_an_import_of_it() -> None:
    code = "import depthscope; depthscope.causal.ablate_sources; depthscope.models.Decoder; depthscope.testing.check_probe"
    assert loaded_after(code) == {"torch"}


def test_the_viewer_loads_no_torch() -> None:
    assert loaded_after("import depthscope.app") <= {"dash", "plotly"}


def test_exporting_loads_matplotlib_only_when_it_draws() -> None:
    assert loaded_after("import depthscope; depthscope.export") <= {"plotly"}


def test_an_unknown_name_says_what_there_is() -> None:
    with pytest.raises(AttributeError, match="find_runs"):
        depthscope.recorder  # noqa: B018
