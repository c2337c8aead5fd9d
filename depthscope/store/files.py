"""Whole files written so that a reader or a crash sees the old or the new content, never a mixture."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import Any

PARTIAL = ".partial"
_LARGEST_JSON = 64 * 2**20


def replace_file(path: Path, content: bytes, *, fsync: bool) -> None:
    """Write `content` beside `path` and move it there. With `fsync` the content survives a power cut."""
    partial = f"{path}.{os.getpid()}{PARTIAL}"
    handle = os.open(partial, os.O_CREAT | os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC, 0o666)
    try:
        try:
            view = memoryview(content)
            while len(view):
                view = view[os.write(handle, view) :]
            if fsync:
                os.fsync(handle)
        finally:
            os.close(handle)
        os.replace(partial, path)
    except OSError:
        # On a full disk, half a file would keep room that the next attempt needs.
        with contextlib.suppress(OSError):
            os.unlink(partial)
        raise


def replace_json(path: Path, value: Any, *, fsync: bool) -> str:
    """Write `value` as JSON, and return the text."""
    text = json.dumps(value, separators=(",", ":"))
    replace_file(path, text.encode(), fsync=fsync)
    return text


def sync_folder(path: Path) -> None:
    """Make the names in a folder survive a power cut; file systems that cannot are left alone."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return
    try:
        os.fsync(handle)
    except OSError:
        pass
    finally:
        os.close(handle)


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object; ValueError says what is wrong with it, FileNotFoundError when it is not there."""
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size > _LARGEST_JSON:
            raise ValueError(f"{path.name} is {size} bytes long, more than {_LARGEST_JSON}")
        content = file.read(_LARGEST_JSON)
    try:
        value = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path.name} is not JSON ({error})") from None
    if isinstance(value, dict):
        return value
    raise ValueError(f"{path.name} holds a {type(value).__name__}, not an object")
