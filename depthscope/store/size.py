"""What a run takes on disk."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from stat import S_ISREG


def bytes_on_disk(folder: Path) -> int:
    """Return the bytes of all files below a folder; a file that goes while it is counted counts 0.

    An earlier attempt shares its files with the run by hard links: a file of two names counts once.
    """
    sizes: dict[tuple[int, int], int] = {}
    for path in folder.rglob("*"):
        with suppress(OSError):
            found = path.stat()
            if S_ISREG(found.st_mode):
                sizes[found.st_dev, found.st_ino] = found.st_size
    return sum(sizes.values())
