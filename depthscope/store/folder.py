"""The folders and files of a run, and ``run.json``, which is written once when all the rest is there."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from depthscope.quantities import DepthLayout
from depthscope.store.errors import FORMAT, corrupt, newer_format, not_a_run
from depthscope.store.files import read_json, replace_json
from depthscope.store.jsonable import jsonable

RECORD, RANK, LOGS, STORE = "run.json", "rank00000", "tail", "data.zarr"
ATTEMPTS = "attempts"
"""In the rank's folder: the chunks that earlier attempts do not share with later ones, a folder for each."""

KEPT = "kept.json"
"""In an attempt's folder: for each array the first chunk that it holds itself, be it the same later or not."""


def attempt_folder(rank: Path, number: int) -> Path:
    return rank / ATTEMPTS / f"{number:05d}"


@dataclass(frozen=True, kw_only=True)
class RunRecord:
    """What ``run.json`` says."""

    id: str
    name: str
    created: str
    """UTC, ISO 8601."""
    config: Mapping[str, Any]
    tags: tuple[str, ...]
    layout: DepthLayout
    versions: Mapping[str, str]
    world_size: int


def write_record(
    path: Path,
    *,
    id: str,
    name: str,
    config: Mapping[str, Any],
    tags: Sequence[str],
    layout: DepthLayout,
    versions: Mapping[str, str],
    world_size: int,
    fsync: bool,
) -> None:
    record = {
        "format": FORMAT,
        "id": id,
        "name": name,
        "created": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "configuration": jsonable(config),
        "tags": [str(tag) for tag in tags],
        "layout": jsonable(layout.to_json()),
        "versions": {**_versions(), **{str(key): str(text) for key, text in versions.items()}},
        "world_size": world_size,
    }
    replace_json(path / RECORD, record, fsync=fsync)


def read_record(path: Path) -> RunRecord:
    """Read ``run.json`` of the run at `path`; RunError says why there is none."""
    try:
        data = read_json(path / RECORD)
    except (FileNotFoundError, NotADirectoryError):
        raise not_a_run(path) from None
    except (OSError, ValueError) as error:
        raise corrupt(path, str(error)) from None
    found = data.get("format")
    if isinstance(found, bool) or not isinstance(found, int) or found < 1:
        raise corrupt(path, f"{RECORD} has format {found!r}; expected a number, {FORMAT} or less")
    if found > FORMAT:
        raise newer_format(path, found)
    try:
        config, versions = data["configuration"], data["versions"]
        if not isinstance(config, dict) or not isinstance(versions, dict):
            raise TypeError("configuration and versions are objects")
        return RunRecord(
            id=str(data["id"]),
            name=str(data["name"]),
            created=str(data["created"]),
            config=config,
            tags=tuple(map(str, data["tags"])),
            layout=DepthLayout.from_json(data["layout"]),
            versions=versions,
            world_size=int(data["world_size"]),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise corrupt(path, f"{RECORD} lacks what a run holds ({type(error).__name__}: {error})") from None


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for package in ("depthscope", "numpy", "zarr", "xarray"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
