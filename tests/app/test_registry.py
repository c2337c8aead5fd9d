"""The runs below the root: ids, slots, and runs that come, go or break."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from depthscope.app import registry as registry_module
from depthscope.app.registry import Registry, total_steps
from tests.figures.runs import record, rows, start


@pytest.fixture(autouse=True)
def always_rescan(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry_module, "_RESCAN_SECONDS", 0.0)


def names(registry: Registry) -> list[tuple[str, int]]:
    return [(entry.folder.name, entry.slot) for entry in registry.entries()]


def test_slots_follow_creation_and_never_change(tmp_path: Path) -> None:
    record(tmp_path / "b")
    record(tmp_path / "a")
    registry = Registry(tmp_path)
    assert names(registry) == [("b", 1), ("a", 2)]
    record(tmp_path / "group" / "c")
    assert names(registry) == [("b", 1), ("a", 2), ("c", 3)]
    shutil.rmtree(tmp_path / "b")
    assert names(registry) == [("a", 2), ("c", 3)]


def test_an_id_outlives_a_restart_and_tells_no_path(tmp_path: Path) -> None:
    record(tmp_path / "a")
    (first,) = Registry(tmp_path).entries()
    (again,) = Registry(tmp_path).entries()
    assert first.id == again.id
    assert len(first.id) == 10
    int(first.id, 16)


def test_a_copied_run_gets_an_id_of_its_own(tmp_path: Path) -> None:
    record(tmp_path / "a")
    shutil.copytree(tmp_path / "a", tmp_path / "copy")
    entries = Registry(tmp_path).entries()
    assert len({entry.id for entry in entries}) == 2


def test_a_run_of_a_newer_format_is_named_and_comes_back_when_it_can_be_read(tmp_path: Path) -> None:
    record(tmp_path / "a")
    written = (tmp_path / "a" / "run.json").read_text()
    (tmp_path / "a" / "run.json").write_text(
        written.replace('"format": 1', '"format": 99').replace('"format":1', '"format":99')
    )
    registry = Registry(tmp_path)
    (run,) = registry.catalogue()["runs"]
    assert (run["status"], run["last_step"]) == ("unreadable", None)
    assert run["problem"].startswith("a has format 99")
    (tmp_path / "a" / "run.json").write_text(written)
    (run,) = registry.catalogue()["runs"]
    assert (run["status"], run["last_step"], run["problem"]) == ("finished", 300, None)


def test_the_catalogue_says_how_old_the_newest_row_is(tmp_path: Path) -> None:
    registry = Registry(tmp_path)
    assert registry.catalogue()["age"] is None
    record(tmp_path / "a")
    assert 0 <= registry.catalogue()["age"] < 60


@pytest.mark.parametrize(
    ("config", "total"),
    [
        ({"steps": 300}, 300),
        ({"schedule": {"total": 40}, "steps": 9}, 40),
        ({"steps": "many"}, None),
        ({}, None),
    ],
)
def test_the_planned_end_comes_from_the_configuration(config: dict[str, object], total: int | None) -> None:
    assert total_steps(config) == total


def test_a_run_that_breaks_later_leaves_the_others_and_says_why(tmp_path: Path) -> None:
    record(tmp_path / "a")
    record(tmp_path / "b")
    registry = Registry(tmp_path)
    first, second = (entry.id for entry in registry.entries())
    (tmp_path / "b" / "rank00000" / "data.zarr" / "zarr.json").write_text("{")
    assert [run.name for run in registry.runs([first, second])] == ["a"]
    told = registry.catalogue()["runs"][1]
    assert (told["status"], told["name"]) == ("unreadable", "b")
    assert told["problem"].startswith("the run b is damaged")


def test_a_validation_loss_after_the_last_row_is_no_step_of_the_page(tmp_path: Path) -> None:
    writer = start(tmp_path / "a")
    writer.append("fast", 20, rows(20, 8))
    writer.append("evaluation", 30, {"validation": 1.0})
    writer.close()
    (run,) = Registry(tmp_path).catalogue()["runs"]
    assert run["last_step"] == 20


def test_runs_of_the_same_name_are_told_apart_by_their_folder(tmp_path: Path) -> None:
    for day in ("monday", "tuesday"):
        record(tmp_path / day / "prenorm")
    record(tmp_path / "tuesday" / "hires")
    names = [about["name"] for about in Registry(tmp_path).catalogue()["runs"]]
    assert sorted(names) == ["hires", "prenorm (monday)", "prenorm (tuesday)"]
