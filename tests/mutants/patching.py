"""Applying a unified diff, strictly: what it takes away has to be there, once."""

from __future__ import annotations

import re
from collections.abc import Callable


class DoesNotApply(Exception):
    """A patch speaks of code that is no longer there."""


def applied(patch: str, read: Callable[[str], str]) -> dict[str, str]:
    """Return the new text of every file that `patch` changes; `read` gives the text of a path.

    Line numbers are only hints between equal places: a patch stays good while the lines around its change do.
    """
    changed: dict[str, str] = {}
    for part in re.split(r"^(?=--- a/)", patch, flags=re.MULTILINE)[1:]:
        header, *hunks = re.split(r"^@@ -(?=\d)", part, flags=re.MULTILINE)
        path = header.split()[1].removeprefix("a/")
        text = read(path)
        for hunk in hunks:
            text = _changed(path, text, hunk)
        changed[path] = text
    if not changed:
        raise DoesNotApply("it changes no file: expected the output of git diff")
    return changed


def _changed(path: str, text: str, hunk: str) -> str:
    place, *lines = hunk.splitlines(keepends=True)
    before = "".join(line[1:] for line in lines if line[0] in " -")
    after = "".join(line[1:] for line in lines if line[0] in " +")
    hint = int(re.match(r"\d+", place)[0])  # type: ignore[index]
    found = [match.start() for match in re.finditer("^" + re.escape(before), text, flags=re.MULTILINE)]
    if not found:
        raise DoesNotApply(f"{path} does not hold, near line {hint}:\n{before}")
    start = min(found, key=lambda at: abs(text.count("\n", 0, at) + 1 - hint))
    return text[:start] + after + text[start + len(before) :]
