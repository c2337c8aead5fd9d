"""What `--version` prints."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version


def version_text() -> str:
    """Return name and version; a source tree that is not installed says so."""
    try:
        return f"depthscope {version('depthscope')}"
    except PackageNotFoundError:
        return "depthscope (source tree, not installed)"
