"""What an interrupted writer left behind and no reader looks at."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from depthscope.store.commit import Commit
from depthscope.store.files import PARTIAL, read_json, replace_file
from depthscope.store.folder import ATTEMPTS, LOGS, RANK, STORE
from depthscope.store.segment import segment_path
from depthscope.store.tail import log_numbers

_CHUNK = re.compile(r"c\.(\d+)(\.\d+)*")


def leftovers(path: Path, commit: Commit) -> list[Path]:
    """Return the files and folders of a run that belong to no commit."""
    rank, store = path / RANK, path / RANK / STORE
    found = [file for folder in (path, rank) for file in folder.glob(f"*{PARTIAL}")]
    found += store.rglob(f"*{PARTIAL}")
    for stream, state in commit.streams.items():
        found += [
            segment_path(rank / LOGS, stream, number)
            for number in log_numbers(rank / LOGS, stream)
            if commit.closed or number < state.segment
        ]
    known = len(commit.rewinds)
    for attempt in (rank / ATTEMPTS).glob("*"):
        if not attempt.name.isdigit() or int(attempt.name) > known:
            found.append(attempt)
    for name, node in commit.nodes.items():
        found += chunks_beyond(store / name, node)
    return found


def chunks_beyond(folder: Path, node: Mapping[str, Any]) -> list[Path]:
    """Return an array's chunks that hold none of the rows that it has."""
    if node.get("node_type") != "array":
        return []
    size = int(node["chunk_grid"]["configuration"]["chunk_shape"][0])
    count = int(node["shape"][0])
    return [chunk for number, chunk in chunks(folder) if number >= -(-count // size)]


def chunks(folder: Path) -> list[tuple[int, Path]]:
    """Return the chunk files of an array, each with its number along the first dim."""
    matches = [(_CHUNK.fullmatch(path.name), path) for path in folder.glob("c.*")]
    return sorted((int(match[1]), path) for match, path in matches if match)


def remove(paths: list[Path]) -> None:
    for path in paths:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            with contextlib.suppress(OSError):
                path.unlink()


def clean(path: Path, commit: Commit) -> None:
    """Remove what belongs to no commit, and let each array's own metadata say what the commit says."""
    remove(leftovers(path, commit))
    for name, node in commit.nodes.items():
        file = path / RANK / STORE / name / "zarr.json"
        try:
            same = read_json(file) == node
        except (OSError, ValueError):
            same = False
        if not same:
            file.parent.mkdir(parents=True, exist_ok=True)
            replace_file(file, json.dumps(node, separators=(",", ":")).encode(), fsync=False)
