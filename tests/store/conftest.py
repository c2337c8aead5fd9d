from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from depthscope.store import RunWriter, StreamSpec
from tests.store.runs import MakeWriter, fast, outline, slow


@pytest.fixture
def make_writer(tmp_path: Path) -> Iterator[MakeWriter]:
    """Create writers that are closed at the end of the test, without fsync so that tests are quick."""
    made: list[RunWriter] = []

    def make(path: Path | None = None, **changes: Any) -> RunWriter:
        declared: dict[str, Any] = {
            "name": "a run",
            "config": {"seed": 0},
            "layout": outline(),
            "streams": [fast(), slow(), StreamSpec(name="evaluation", chunk_rows=16)],
            "fsync": False,
        }
        writer = RunWriter.create(path or tmp_path / "run", **{**declared, **changes})
        made.append(writer)
        return writer

    yield make
    for writer in made:
        writer.close()
