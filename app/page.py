"""What a page is: its place in the header, its controls, its panels, and which runs it can show."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from depthscope.app.answer import Answer
from depthscope.app.export import PageFigure
from depthscope.app.reading import CachedRun
from depthscope.app.state import Ask

AnswerPanel: TypeAlias = Callable[[Ask, list[CachedRun], Mapping[str, int]], Answer]


@dataclass(frozen=True, kw_only=True)
class Panel:
    """One panel: what it is called before it has an answer, and who answers."""

    title: str
    answer: AnswerPanel
    table: bool = False
    """It shows the rows of a table instead of a figure."""
    keyed: bool = True
    """Its answers fill a key, in its header or elsewhere on the page."""


def shows_every_run(run: CachedRun) -> str:
    """Say of each run that nothing keeps it from the page."""
    return ""


@dataclass(frozen=True, kw_only=True)
class Page:
    """One page. Every page is in the document; the scripts show the one that the address names."""

    name: str
    """Its last part of the address, and what findings call it."""
    title: str
    head: Callable[[], list[Any]]
    """The controls beside the title."""
    body: Callable[[], Any]
    panels: Mapping[str, Panel]
    """By name, unique over all pages."""
    figure: PageFigure | None = None
    """What Export saves; None where the page has no figure of its own."""
    effects: PageFigure | None = None
    """What Export saves instead where measured effects are asked for."""
    lacks: Callable[[CachedRun], str] = shows_every_run
    """In three or four words, why a run has nothing to show here; empty where it has."""
