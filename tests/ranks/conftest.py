"""Ranks are launched once for all tests of a session: starting them costs seconds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.ranks.launching import launch, launch_once, launch_without_watch

TWO = (
    "one_step/prenorm/ddp",
    "one_step/block-attnres:S=3/ddp",
    "one_step/foreign/ddp",
    "one_step/full-attnres/fsdp",
    "one_step/hires:B=2,n=2/fsdp",
    "one_step/foreign/fsdp",
    "streams/hc:n=2,dynamic=yes/ddp",
    "inner/foreign/ddp",
    "apart/prenorm/ddp",
    "apart/prenorm/fsdp",
    "mixed/foreign/fsdp",
    "accumulated/prenorm/ddp",
    "accumulated/foreign/fsdp",
    "masked/prenorm/ddp",
    "masked/foreign/fsdp",
    "discarded/prenorm/ddp",
    "discarded/foreign/fsdp",
    "probed/block-attnres:S=3/ddp",
    "probed/block-attnres:S=3/fsdp",
    "probed_before_an_update/foreign/fsdp",
    "unchanged/foreign/ddp",
    "unchanged/block-attnres:S=3/ddp",
    "unchanged/foreign/fsdp",
    "unchanged/block-attnres:S=3/fsdp",
)
TROUBLES = (
    "late/foreign/none",
    "unused/foreign/ddp",
    "early/prenorm/ddp",
    "failed/prenorm/ddp",
    "dropped/prenorm/ddp",
    "stuck/prenorm/none",
    "closed_alone/prenorm/0",
    "closed_alone/prenorm/1",
    "disagreeing/foreign/none",
    "refused/foreign/none",
    "alone/prenorm/none",
    "destroyed/prenorm/ddp",
)
THREE = (
    "one_step/prenorm/fsdp",
    "one_step/block-attnres:S=3/fsdp",
    "one_step/hires:B=2,n=2/fsdp",
    "one_step/narrow/fsdp",
    "one_step/foreign/ddp",
    "accumulated/narrow/fsdp",
    "accumulated/foreign/ddp",
)
FOUR = ("one_step/narrow/hsdp", "accumulated/prenorm/hsdp")


@pytest.fixture(scope="session")
def two_ranks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Launch two ranks; return the folder that holds what they left."""
    return launch_once(tmp_path_factory, "two", lambda folder: launch(2, list(TWO), folder))


@pytest.fixture(scope="session")
def troubled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return launch_once(tmp_path_factory, "troubled", lambda folder: launch(2, list(TROUBLES), folder))


@pytest.fixture(scope="session")
def three_ranks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return launch_once(tmp_path_factory, "three", lambda folder: launch(3, list(THREE), folder))


@pytest.fixture(scope="session")
def four_ranks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return launch_once(tmp_path_factory, "four", lambda folder: launch(4, list(FOUR), folder))


@pytest.fixture(scope="session")
def killed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[int]]:
    """Rank 1 killed under way; returns the folder and the exit codes."""
    codes: list[int] = []

    def start(folder: Path) -> None:
        codes.extend(launch_without_watch(2, "killed/prenorm/none", folder))
        (folder / "codes").write_text(" ".join(map(str, codes)))

    folder = launch_once(tmp_path_factory, "killed", start)
    return folder, [int(code) for code in (folder / "codes").read_text().split()]


@pytest.fixture
def on_ranks(request: pytest.FixtureRequest) -> Callable[[int], Path]:
    """Return the folder of a world size, launching it the first time."""
    return lambda world: request.getfixturevalue({2: "two_ranks", 3: "three_ranks", 4: "four_ranks"}[world])
