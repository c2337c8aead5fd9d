"""What the browser asks for, checked: ids must be known, names must exist, numbers must be numbers."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar, get_args

from depthscope.figures import (
    AGAINST,
    ALIGNMENTS,
    CUTS,
    MODES,
    RANGES,
    SHARES,
    TARGETS,
    VIEWS,
    Against,
    Alignment,
    Cut,
    MixingMode,
    Mode,
    Range,
    Share,
    Targets,
    ThemeName,
    View,
)
from depthscope.quantities import QUANTITIES

LAYER_QUANTITIES: tuple[str, ...] = tuple(
    name for name, entry in QUANTITIES.items() if entry.dims == ("layer",)
)
DEFAULT_QUANTITY = "state_logrms"
_MOST_RUNS = 200
_MOST_PINS = 8
_MOST_PATHS = 60
_MOST_PARTS = 10
_AXIS = re.compile(r"[xy]axis[0-9]{0,2}")
Choice = TypeVar("Choice", bound=str)
Entry: TypeAlias = tuple[int | None, int | None]


@dataclass(frozen=True, kw_only=True)
class Ask:
    """One panel's question."""

    runs: tuple[str, ...]
    """Opaque ids of the selected runs, in slot order; unknown ones are left out."""
    base: str | None
    focus: str | None
    metric: str
    mode: Mode
    log: bool
    range: Range
    align: Alignment
    step: int | None
    pins: tuple[int, ...]
    end: int | None
    theme: ThemeName
    changed: tuple[str, ...] | None
    """None: everything is new. Otherwise the figure is on the page, and these runs have new rows."""
    zoom: Mapping[str, tuple[float, float]]
    """Ranges of axes, by their name in the layout, that the reader has chosen by zooming."""
    shape: str
    """Which traces the figure on the page has."""
    held: tuple[str, ...]
    """What the page holds of the panel beside its figure: one digest a part, as sent with the last answer."""
    page: str
    """The page that asks, for what depends on it."""
    shown: str | None
    """Id of the one run among `runs` that the panel is about."""
    ordered: tuple[str, ...]
    """The same ids, those that come first in a figure first."""
    targets: Targets
    view: View
    cell: tuple[int, int] | None
    """Target (from 1) and source column (from 0) that are followed over steps."""
    share: Share
    mixing: MixingMode
    entry: Entry
    """Target (None: the final read) and origin (None: the constant) that are followed in every run."""
    sort: str
    """Column of a table, with a minus in front for largest first."""
    top: int
    """Most skip paths of one run."""
    least_weight: float
    least_distance: int
    against: Against
    """What effects are drawn against."""
    cut: Cut
    """Whose effects: what stands in place of a source that is cut."""
    mark: Mapping[str, Any]
    """Sent back with the answer, so that the page knows what it got."""


def read_ask(data: Any, known: Collection[str]) -> Ask:
    """Return the question in `data`, whatever the browser sent; what makes no sense becomes the default."""
    given: Mapping[str, Any] = data if isinstance(data, Mapping) else {}
    runs = _ids(given.get("runs"), known)[:_MOST_RUNS]
    changed = given.get("changed")
    return Ask(
        runs=runs,
        base=_one_of(given.get("base"), runs, None),
        focus=_one_of(given.get("focus"), runs, None),
        metric=_one_of(given.get("metric"), LAYER_QUANTITIES, DEFAULT_QUANTITY),
        mode=_one_of(given.get("mode"), MODES, "absolute"),
        log=given.get("scale") != "linear",
        range=_one_of(given.get("range"), RANGES, "shared"),
        align=_one_of(given.get("align"), ALIGNMENTS, "step"),
        step=_step(given.get("step")),
        pins=tuple(step for step in map(_step, _list(given.get("pins"))) if step is not None)[:_MOST_PINS],
        end=_step(given.get("end")),
        theme=_one_of(given.get("theme"), get_args(ThemeName), "light"),
        changed=None if changed is None else _ids(changed, runs),
        zoom=_zoom(given.get("zoom")),
        shape=str(given.get("shape", "")),
        held=tuple(map(str, _list(given.get("held"))[:_MOST_PARTS])),
        page=str(given.get("page", "")),
        shown=_one_of(given.get("shown"), runs, None),
        ordered=tuple(dict.fromkeys((*_ids(given.get("ordered"), runs), *runs))),
        targets=_one_of(given.get("targets"), TARGETS, "together"),
        view=_one_of(given.get("weights"), VIEWS, "mean"),
        cell=_cell(given.get("cell")),
        share=_one_of(given.get("share"), SHARES, "contribution"),
        mixing="difference" if given.get("mixing") == "difference" else "absolute",
        entry=_entry(given.get("entry")),
        sort=str(given.get("sort") or ""),
        top=_count(given.get("top"), 1, _MOST_PATHS, 12),
        least_weight=_count(given.get("threshold"), 0, 100, 0) / 100,
        least_distance=_count(given.get("distance"), 2, 1000, 2),
        against=_one_of(given.get("against"), AGAINST, "weight"),
        cut=_one_of(given.get("cut"), CUTS, "any"),
        mark={"panel": given.get("panel"), "key": given.get("key"), "versions": given.get("versions")},
    )


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _ids(value: Any, known: Collection[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(item for item in _list(value) if isinstance(item, str) and item in known))


def _one_of(value: Any, choices: Collection[Choice], otherwise: Any) -> Any:
    return value if isinstance(value, str) and value in choices else otherwise


def _step(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**53 else None


def _count(value: Any, least: int, most: int, otherwise: int) -> int:
    """Return a whole number from `least` to `most`; menus send theirs as text."""
    text = value.strip() if isinstance(value, str) else value
    number = int(text) if isinstance(text, str) and text.isascii() and text.isdecimal() else text
    whole = _step(number)
    return otherwise if whole is None or not least <= whole <= most else whole


def _cell(value: Any) -> tuple[int, int] | None:
    numbers = [_step(number) for number in _list(value)]
    if len(numbers) != 2 or numbers[0] is None or numbers[1] is None or not 1 <= numbers[0] < 10**6:
        return None
    return numbers[0], numbers[1]


def _entry(value: Any) -> Entry:
    """Return target and origin of ``12:3``, ``output:0`` or ``12:constant``; else the embedding in the final read."""
    target, _, origin = value.partition(":") if isinstance(value, str) else ("", "", "")
    last = _count(target, 1, 10**6, 0)
    found = _count(origin, 0, 10**6, -1)
    if (not last and target != "output") or (found < 0 and origin != "constant"):
        return None, 0
    return last or None, None if found < 0 else found


def _zoom(value: Any) -> dict[str, tuple[float, float]]:
    """Return the axes with a usable range: two different finite numbers."""
    found = {}
    for name, ends in value.items() if isinstance(value, Mapping) else ():
        if isinstance(name, str) and _AXIS.fullmatch(name) and isinstance(ends, list) and len(ends) == 2:
            numbers = [float(end) for end in ends if isinstance(end, int | float) and abs(end) < 1e300]
            if len(set(numbers)) == 2:
                found[name] = (numbers[0], numbers[1])
    return found
