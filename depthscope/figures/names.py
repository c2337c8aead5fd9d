"""Run names: told apart where several runs have the same, in one line, and safe in plotly text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import Protocol, Self, TypeVar, cast, runtime_checkable

_LONGEST = 28
_LEAST_OF_A_NAME = 4
_QUALIFIED = re.compile(r"(.+) (\([^()]+\))")
_WORD_END = re.compile(r"[_ ]")
Run = TypeVar("Run")


@runtime_checkable
class OnDisk(Protocol):
    """A run that knows its folder and can be shown under another name."""

    path: Path

    @property
    def name(self) -> str: ...
    def renamed(self, name: str) -> Self: ...


def told_apart(runs: Sequence[Run]) -> list[Run]:
    """Return runs under their shortest unambiguous names; runs that lie on no disk keep theirs."""
    stored = [run for run in runs if isinstance(run, OnDisk)]
    shown = iter(unambiguous([(run.name, run.path.parts) for run in stored]))
    out: list[Run] = []
    for run in runs:
        if isinstance(run, OnDisk):
            name = next(shown)
            out.append(run if name == run.name else cast("Run", run.renamed(name)))
        else:
            out.append(run)
    return out


def unambiguous(runs: Sequence[tuple[str, Sequence[str]]]) -> list[str]:
    """Return a name for each run given as its name and the parts of its folder.

    A name that only one run has stays. Others get the part of their folders that differs, the innermost one:
    ``prenorm (monday)``, and of that the words that differ: of ``2026-11-30_10-12-05`` and ``2026-11-30_10-15-33``
    the times, of two days the dates.
    """
    groups: dict[str, dict[tuple[str, ...], str]] = {}
    for name, folder in runs:
        groups.setdefault(name, {})[tuple(folder)] = name
    taken = {name for name, folders in groups.items() if len(folders) == 1}
    for name, folders in groups.items():
        for folder in folders if len(folders) > 1 else ():
            wanted = f"{name} ({_difference(folder, list(folders))})"
            numbers = (f"{wanted} #{number}" for number in count(2))
            folders[folder] = wanted if wanted not in taken else next(n for n in numbers if n not in taken)
            taken.add(folders[folder])
    return [groups[name][tuple(folder)] for name, folder in runs]


def _difference(folder: Sequence[str], group: Sequence[Sequence[str]]) -> str:
    """Return what tells `folder` from the others of `group`: one part where that is enough, else its end."""
    for place in range(1, max(map(len, group)) + 1):
        parts = [other[-place] if len(other) >= place else "" for other in group]
        if len(set(parts)) == len(group) and all(parts):
            return _telling_words(folder[-place], parts)
    lengths = range(2, max(map(len, group)) + 1)
    length = next(size for size in lengths if len({tuple(other[-size:]) for other in group}) == len(group))
    same = len({other[-1] for other in group}) == 1
    return "/".join(folder[-length:-1] if same else folder[-length:])


def _telling_words(part: str, parts: Sequence[str]) -> str:
    """Return the fewest neighbouring words of `part` that differ in all `parts`; words end at ``_`` or a space."""
    words = [_WORD_END.split(other) for other in parts]
    own = _WORD_END.split(part)
    shortest = min(map(len, words))
    for size in range(1, shortest):
        for start in range(shortest - size + 1):
            if len({tuple(split[start : start + size]) for split in words}) == len(words):
                return " ".join(own[start : start + size])
    return part


def shortened(name: str, longest: int = _LONGEST) -> str:
    """Return `name` in one line of at most `longest` characters, its middle left out.

    What tells runs of one name apart, in brackets at the end, is kept where there is room for it.
    """
    line = " ".join(name.split()) or "(no name)"
    if len(line) <= longest:
        return line
    qualified = _QUALIFIED.fullmatch(line)
    room = longest - len(qualified[2]) - 1 if qualified else 0
    if qualified and room >= _LEAST_OF_A_NAME:
        return f"{shortened(qualified[1], room)} {qualified[2]}"
    tail = longest // 3
    return f"{line[: longest - tail - 1]}…{line[-tail:]}"


def plotly_text(name: str) -> str:
    """Return `name` shortened, as text that plotly shows literally: no tags, entities or %{templates}."""
    text = shortened(name)
    for character, entity in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;")):
        text = text.replace(character, entity)
    return text.replace("%{", "%\u200b{")
