"""What a user did wrong, as an exception that becomes a few lines on stderr and an exit code."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path

IN_THE_WAY = (NotADirectoryError, FileExistsError)
"""A file where a folder is needed: the place that was typed cannot be; anything else may pass."""


class CliError(Exception):
    """What was asked for failed, though it was asked well. The text says why and what to type; exit code 1."""

    exit_code = 1


class UsageError(CliError):
    """A word of the command line that means nothing: an option, a name, a value, a place without a run.

    Exit code 2, as for any program.
    """

    exit_code = 2


def cannot_write(command: str, place: Path, error: OSError) -> CliError | None:
    """Say that `place` cannot be written; None where the error is about some other file."""
    if error.filename is None:
        return None
    told, wanted = Path(os.fsdecode(error.filename)).absolute(), place.absolute()
    if told != wanted and told not in wanted.parents and told.parent != wanted.parent:
        return None
    kind = UsageError if isinstance(error, IN_THE_WAY) else CliError
    return kind(f"{command}: {place} cannot be written: {os_error_text(error)}")


_MOST = 40


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return `did you mean X?` with the closest of the known words, or the first of them where none is close."""
    words = list(known)
    close = get_close_matches(word, words, n=2, cutoff=0.6)
    if close:
        return f"did you mean {' or '.join(close)}?"
    more = f" and {len(words) - _MOST} more" if len(words) > _MOST else ""
    return f"known are {', '.join(words[:_MOST])}{more}."


def os_error_text(error: OSError) -> str:
    """Say an OSError in words, with the path it is about."""
    reason = os.strerror(error.errno) if error.errno else str(error)
    place = f": {error.filename}" if error.filename else ""
    advice = {
        errno.EACCES: "Choose a place that you may write to, or change its permissions.",
        errno.ENOSPC: "Free some space, or choose another place.",
        errno.ENOTDIR: "A file stands where a folder is needed: choose another place.",
        errno.EEXIST: "Choose another place, or remove what is there.",
    }.get(error.errno or 0, "")
    return f"{reason}{place}" + (f"\n{advice}" if advice else "")
