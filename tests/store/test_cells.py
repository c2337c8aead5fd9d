"""Arrays filled chunk by chunk: what is read of them, and how a reader hears of one more chunk."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from depthscope.store import CellArray, CellStore, Coordinate, CorruptRun, open_sweep


@pytest.fixture
def store(tmp_path: Path) -> CellStore:
    """Two arrays of two rows, of which the first has its first row."""
    arrays = [
        CellArray(name=name, dims=("row", "column"), shape=(2, 3), chunk=(1, 3)) for name in ("one", "other")
    ]
    made = CellStore.create(
        tmp_path / "a.zarr",
        arrays,
        coordinates=[Coordinate(name="row_name", dim="row", values=("first", "second"))],
        attributes={"kind": "test"},
    )
    made.put("one", (0, 0), np.array([[1.0, 2.0, 3.0]]))
    return made


def test_only_the_arrays_asked_for_are_read_with_all_labels(store: CellStore) -> None:
    (store.path / "other" / "c.0.0").write_bytes(b"no chunk")
    data = store.read(("one", "unknown"))
    assert list(data.data_vars) == ["one"]
    assert data["row_name"].values.tolist() == ["first", "second"]
    np.testing.assert_array_equal(data["one"].values, [[1, 2, 3], [np.nan] * 3])
    with pytest.raises(CorruptRun, match=r"other/c\.0\.0"):
        store.read()
    assert open_sweep(store.path).read(("one",)).sizes == {"row": 2, "column": 3}


def test_a_finished_chunk_changes_the_mark_and_nothing_else_does(store: CellStore) -> None:
    os.utime(store.path / "other", ns=(0, 0))  # a clock that ticks coarsely may give two chunks one time
    before = store.mark()
    assert store.mark() == before
    store.read(("one",))
    assert store.mark() == before
    store.put("other", (1, 0), np.ones((1, 3)))
    assert store.mark() != before
    assert store.mark()[0] == before[0]
    shutil.rmtree(store.path / "one")
    assert store.mark()[0] == 0
