"""The page and its export are one picture: the same panels with the same titles, axes and lines."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes

from depthscope.app.page import Page
from depthscope.app.pages.block_boundaries import BLOCK_BOUNDARIES
from depthscope.app.pages.depth_profile import DEPTH_PROFILE
from depthscope.app.reading import CachedRun
from depthscope.app.state import Ask, read_ask
from depthscope.figures import draw_paper, figure_data, paper_panels
from depthscope.figures.paper import type_settings
from depthscope.figures.typed import untyped
from depthscope.store import open_run
from tests.figures.runs import LAYER_ARRAYS, STEPS, record

ARRAYS = (*LAYER_ARRAYS, "read_rms")
Panels = dict[str, dict[str, Any]]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[CachedRun]:
    """Two runs with blocks, one of them with an outlier at step 10, and one without."""
    folder = tmp_path_factory.mktemp("pictures")
    reads = {step: {"read_rms": np.full(8, 1.0 + step)} for step in STEPS}
    spike = {10: {"state_rms": np.full(8, 1e6), "read_rms": np.full(8, 1.0)}}
    record(folder / "blocks", block=4, arrays=ARRAYS, changes={**reads, **spike})
    record(folder / "small", block=2, scale=0.3, arrays=ARRAYS, changes=reads)
    record(folder / "plain", arrays=ARRAYS, changes=reads)
    found = [open_run(folder / name) for name in ("blocks", "small", "plain")]
    return [CachedRun(run, run.id) for run in found]


def asked(runs: list[CachedRun], **more: object) -> Ask:
    ids = [run.id for run in runs]
    return read_ask({"runs": ids, "base": ids[0], "focus": ids[0], "step": 300, "end": 300, **more}, ids)


def on_page(page: Page, ask: Ask, runs: list[CachedRun]) -> Panels:
    """Return what each panel of lines shows: title, scale and range of the value axis, values of each line."""
    slots = {run.id: place for place, run in enumerate(runs, start=1)}
    found = {}
    for name, panel in page.panels.items():
        answer = panel.answer(ask, runs, slots)
        if name == "maps" or answer.figure is None:
            continue
        figure = untyped(dict(answer.figure))
        axis = figure["layout"]["yaxis"]
        lines = [
            np.asarray(trace["y"], dtype=np.float64)
            for trace in figure["data"]
            if str(trace.get("mode")).startswith("lines")
        ]
        ends = [10.0**end for end in axis["range"]] if axis["type"] == "log" else axis["range"]
        marks = sum(len(trace["x"]) for trace in figure["data"] if trace["meta"]["role"] == "mark")
        found[name] = {
            "title": answer.title,
            "scale": axis["type"],
            "ends": ends,
            "lines": lines,
            "marks": marks,
            "ticks": axis["ticktext"],
            "shaded": sum(shape["type"] == "rect" for shape in figure["layout"].get("shapes", [])),
        }
    return found


def on_paper(page: Page, ask: Ask, runs: list[CachedRun]) -> list[tuple[str, Axes]]:
    """Return the axes of the page's export with the title of each."""
    assert page.figure is not None
    options: Mapping[str, Any] = page.figure.options(ask, runs)
    with type_settings():
        panels = paper_panels(page.figure.name, runs, **options)
        drawing = draw_paper(
            page.figure.name, panels, width=6.75, order=[run.id for run in runs], log=ask.log, scale=ask.range
        )
    return [
        (axes.get_title(loc="left").replace("\n", " "), axes) for axes in drawing.axes if axes.get_visible()
    ]


def compare(shown: dict[str, Any], axes: Axes) -> None:
    """Fail where the two renderers differ in the value axis, the lines or the marks."""
    assert axes.get_yscale() == shown["scale"]
    np.testing.assert_allclose(axes.get_ylim(), shown["ends"], rtol=1e-9)
    assert [text.get_text() for text in axes.get_yticklabels()] == shown["ticks"]
    kinds = ("line ", "pin ", "block ", "boundary ", "reference ")
    lines = [line for line in axes.get_lines() if str(line.get_gid()).startswith(kinds)]
    assert len(lines) == len(shown["lines"])
    drawn = sorted(np.asarray(line.get_ydata(), dtype=np.float64).tobytes() for line in lines)
    assert drawn == sorted(line.tobytes() for line in shown["lines"])
    marks = [line for line in axes.get_lines() if str(line.get_gid()).startswith("mark ")]
    assert sum(np.size(line.get_xdata()) for line in marks) == shown["marks"]
    assert len(axes.patches) == shown["shaded"]


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"scale": "linear", "range": "full"},
        {"pins": [50, 100], "metric": "state_rms", "step": 200},
        {"mode": "ratio"},
        {"mode": "fresh"},
        {"mode": "write"},
        {"mode": "difference"},
        {"metric": "write_cosine"},
        {"metric": "fresh_share"},
    ],
    ids=str,
)
def test_the_depth_profile_on_paper_is_that_of_the_page(more: dict[str, Any], runs: list[CachedRun]) -> None:
    ask = asked(runs, **more)
    page = on_page(DEPTH_PROFILE, ask, runs)
    paper = on_paper(DEPTH_PROFILE, ask, runs)
    assert len(paper) == len(page) == 3
    for name, (title, axes) in zip(("loss", "profile", "gradient"), paper, strict=True):
        assert page[name]["title"] in title
        compare(page[name], axes)


@pytest.mark.parametrize("more", [{}, {"scale": "linear"}], ids=str)
def test_block_boundaries_on_paper_are_those_of_the_page(more: dict[str, Any], runs: list[CachedRun]) -> None:
    ask = asked(runs, **more)
    page = on_page(BLOCK_BOUNDARIES, ask, runs)
    paper = on_paper(BLOCK_BOUNDARIES, ask, runs)
    folded, over_steps = paper[:-3], paper[-3:]
    assert [title.partition(") ")[2] for title, _ in folded] == ["blocks", "small", "plain (control)"]
    count = len(page["boundary-folded"]["lines"])
    assert count == sum(len(axes.get_lines()) for _, axes in folded)
    for _, axes in folded:
        assert axes.get_yscale() == page["boundary-folded"]["scale"]
        np.testing.assert_allclose(axes.get_ylim(), page["boundary-folded"]["ends"])
    shown = [page[f"boundary-{show}"] for show in ("sums", "reset", "read") if f"boundary-{show}" in page]
    assert len(shown) == len(over_steps) == 3
    for expected, (title, axes) in zip(shown, over_steps, strict=True):
        assert expected["title"] in title
        compare(expected, axes)


def test_the_page_opens_on_the_scale_that_a_figure_has_by_default(runs: list[CachedRun]) -> None:
    ask = asked(runs)
    page = on_page(BLOCK_BOUNDARIES, ask, runs)
    with type_settings():
        panels = paper_panels("block-boundaries", runs, step=300)
        drawing = draw_paper("block-boundaries", panels, width=6.75, order=[run.id for run in runs])
    assert {axes.get_yscale() for axes in drawing.axes if axes.get_visible()} == {"log"}
    assert {panel["scale"] for panel in page.values()} == {"log"}


def test_what_a_panel_is_called_and_defined_as_comes_from_the_figure(runs: list[CachedRun]) -> None:
    slots = {run.id: place for place, run in enumerate(runs, start=1)}
    for show in ("folded", "sums", "reset", "read"):
        answer = BLOCK_BOUNDARIES.panels[f"boundary-{show}"].answer(asked(runs), runs, slots)
        data = figure_data("block-boundaries", runs, show=show)
        assert answer.title == BLOCK_BOUNDARIES.panels[f"boundary-{show}"].title == data.attributes["title"]
    for page in (DEPTH_PROFILE, BLOCK_BOUNDARIES):
        for panel in page.panels.values():
            answer = panel.answer(asked(runs), runs, slots)
            assert "Source: " in answer.definition, answer.title
            assert answer.definition.count("\n") >= 2, "what it is, its reduction, its source"


@pytest.mark.parametrize("name", ["sums", "reset", "read"])
def test_boundaries_end_at_the_last_step_of_the_runs_that_are_drawn(runs: list[CachedRun], name: str) -> None:
    longer_run_selected = asked(runs, end=5000)
    slots = {run.id: place for place, run in enumerate(runs, start=1)}
    answer = BLOCK_BOUNDARIES.panels[f"boundary-{name}"].answer(longer_run_selected, runs, slots)
    assert answer.figure is not None
    assert untyped(dict(answer.figure))["layout"]["xaxis"]["range"][1] == STEPS[-1]
