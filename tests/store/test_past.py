"""What a run tells of its past: earlier attempts, and rows that were lost."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from depthscope.store import RunWriter, attempts_in_words, gaps_in_words, open_run
from tests.store.runs import fast, outline, write_with_a_past


def test_an_attempt_and_a_gap_in_words(tmp_path: Path) -> None:
    run = open_run(write_with_a_past(tmp_path / "run"))
    assert attempts_in_words(run) == ["attempt 1: up to step 50, taken back to step 30"]
    assert gaps_in_words(run) == ["fast: 5 rows, steps 40 to 44 (No space left on device)"]
    assert run["loss"].values.tolist() == [*range(40), *range(45, 100)]


def test_of_many_attempts_the_newest_are_told(tmp_path: Path) -> None:
    with RunWriter.create(
        tmp_path / "run", name="r", config={}, layout=outline(), streams=[fast()], fsync=False
    ) as writer:
        first = 0
        for step in (10, 9, 8, 7, 6, 5, 4):
            for each in range(first, 12):
                writer.append("fast", each, {"loss": each})
            writer.rewind(step)
            first = step
    told = attempts_in_words(open_run(tmp_path / "run"))
    assert told[0] == "attempt 7: up to step 11, taken back to step 4"
    assert told[4:] == ["attempt 3: up to step 11, taken back to step 8", "and 2 more before"]


def test_an_attempt_whose_files_are_gone_is_told_as_such(tmp_path: Path) -> None:
    run = open_run(write_with_a_past(tmp_path / "run"))
    shutil.rmtree(run.path / "rank00000" / "attempts")
    assert attempts_in_words(run) == ["attempt 1: cannot be read, taken back to step 30"]


def test_a_gap_of_before_reasons_were_noted(tmp_path: Path) -> None:
    path = write_with_a_past(tmp_path / "run")
    root = path / "rank00000" / "data.zarr" / "zarr.json"
    content = json.loads(root.read_text())
    (gap,) = content["attributes"]["depthscope"]["gaps"]["fast"]
    content["attributes"]["depthscope"]["gaps"]["fast"] = [gap[:4]]
    root.write_text(json.dumps(content))
    assert gaps_in_words(open_run(path)) == ["fast: 5 rows, steps 40 to 44 (reason not recorded)"]
