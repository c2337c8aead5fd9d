"""Text for the demo: the source of Python's own standard library, present everywhere and never downloaded."""

from __future__ import annotations

import hashlib
import sysconfig
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

VOCABULARY = 256
"""Token ids are bytes."""

_LEFT_OUT = frozenset({"site-packages", "dist-packages", "test", "tests", "idle_test", "__pycache__"})
# Written at build time or by the administrator: they differ between machines of one Python version.
_LOCAL = ("_sysconfigdata", "sitecustomize", "usercustomize")
_VALIDATION_SHARE = 0.05


class CorpusError(ValueError):
    """No text to train on; the message says where it was looked for."""


@dataclass(frozen=True, kw_only=True)
class Corpus:
    """Bytes to train on and bytes held out, each one tensor uint8 [n]."""

    train: Tensor
    validation: Tensor
    train_files: tuple[str, ...]
    """Paths below the root, in the order their bytes are joined."""
    validation_files: tuple[str, ...]
    digest: str
    """SHA-256 over all bytes: two runs with one digest saw the same text."""


def is_held_out(name: str) -> bool:
    """Return whether a file belongs to the validation part.

    It depends on nothing but the file's path below the root, so that adding a file moves no other one.
    """
    draw = int.from_bytes(hashlib.sha256(name.encode()).digest()[:4]) / 2**32
    return draw < _VALIDATION_SHARE


def read_corpus(root: Path | None = None) -> Corpus:
    """Read all ``*.py`` below `root`, by default the standard library without its tests and without site-packages.

    Files are taken in the order of their names; a file whose text occurred before is left out, so that nothing
    held out was trained on.
    """
    folder = Path(sysconfig.get_path("stdlib")) if root is None else root
    names = sorted(
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*.py")
        if not _LEFT_OUT.intersection(path.relative_to(folder).parts) and not path.name.startswith(_LOCAL)
    )
    parts: dict[bool, list[bytes]] = {True: [], False: []}
    files: dict[bool, list[str]] = {True: [], False: []}
    seen: set[bytes] = set()
    total = hashlib.sha256()
    for name in names:
        text = (folder / name).read_bytes()
        digest = hashlib.sha256(text).digest()
        if not text or digest in seen:
            continue
        seen.add(digest)
        total.update(digest)
        held_out = is_held_out(name)
        parts[held_out].append(text)
        files[held_out].append(name)
    for held_out, what in ((False, "train on"), (True, "hold out")):
        if not files[held_out]:
            raise CorpusError(
                f"{folder}: found {len(names)} Python files and none to {what}; the demo reads the source text of "
                "Python's standard library, so use a Python that ships its .py files"
            )
    return Corpus(
        train=_join(parts[False]),
        validation=_join(parts[True]),
        train_files=tuple(files[False]),
        validation_files=tuple(files[True]),
        digest=total.hexdigest(),
    )


def _join(texts: list[bytes]) -> Tensor:
    return torch.from_numpy(np.frombuffer(bytearray(b"".join(texts)), dtype=np.uint8))
