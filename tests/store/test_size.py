"""What a run takes on disk."""

from __future__ import annotations

from pathlib import Path

from depthscope.store import bytes_on_disk


def test_a_file_of_two_names_counts_once(tmp_path: Path) -> None:
    (tmp_path / "one").write_bytes(b"x" * 1000)
    (tmp_path / "attempt").mkdir()
    (tmp_path / "attempt" / "one").hardlink_to(tmp_path / "one")
    (tmp_path / "attempt" / "copy").write_bytes(b"x" * 1000)
    assert bytes_on_disk(tmp_path) == 2000
