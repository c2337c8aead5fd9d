"""Bits that flip on the disk: an error that names the file, never another number."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from depthscope.store import CorruptRun, RunWriter, open_run
from depthscope.store.checking import check_run
from tests.store.runs import MakeWriter
from tests.store.test_resume import write

STORE = Path("rank00000") / "data.zarr"


def closed(make_writer: MakeWriter, path: Path, rows: int) -> Path:
    writer = make_writer()
    write(writer, range(rows))
    writer.close()
    return path / "run"


def flip(file: Path, bit: int) -> None:
    content = bytearray(file.read_bytes())
    content[bit // 8 % len(content)] ^= 1 << bit % 8
    file.write_bytes(bytes(content))


@pytest.mark.parametrize("bit", range(0, 4000, 379))
def test_one_flipped_bit_is_named_by_the_reader_and_by_check(
    make_writer: MakeWriter, tmp_path: Path, bit: int
) -> None:
    run = closed(make_writer, tmp_path, 40)
    flip(run / STORE / "fast" / "write_rms" / "c.0.0", bit)
    with pytest.raises(CorruptRun, match=r"fast/write_rms/c\.0\.0"):
        open_run(run)["write_rms"]
    assert any("write_rms" in check.found for check in check_run(run) if not check.passed)


def test_a_flipped_bit_in_a_level_is_named(make_writer: MakeWriter, tmp_path: Path) -> None:
    run = closed(make_writer, tmp_path, 200)
    (chunk,) = (run / STORE / "pyramid" / "fast" / "L1" / "loss").glob("c.0.*")
    flip(chunk, 901)
    with pytest.raises(CorruptRun, match="L1/loss"):
        open_run(run).read("loss", columns=5)
    (wrong,) = (check for check in check_run(run) if not check.passed)
    assert (wrong.part, "loss" in wrong.found) == ("levels fast", True)


def test_a_chunk_that_an_earlier_attempt_lost_is_missed_and_not_taken_from_a_later_one(
    make_writer: MakeWriter, tmp_path: Path
) -> None:
    run = closed(make_writer, tmp_path, 40)
    writer = RunWriter.resume(run, step=20)
    write(writer, range(20, 60), shift=0.5)
    writer.close()
    np.testing.assert_array_equal(open_run(run, attempt=1)["loss"].values, np.arange(40.0))
    own = run / "rank00000" / "attempts" / "00001" / "fast" / "loss"
    min(own.glob("c.*")).unlink()
    with pytest.raises(CorruptRun, match="loss lacks its rows from"):
        open_run(run, attempt=1)["loss"]
    assert any(check.part == "attempt 1, fast" for check in check_run(run) if not check.passed)
