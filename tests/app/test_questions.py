"""What comes from the browser is checked, and what goes there stays small."""

from __future__ import annotations

import json
import time
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from dash import html, no_update
from hypothesis import given
from hypothesis import strategies as st
from plotly.utils import PlotlyJSONEncoder

from depthscope.app import create_app
from depthscope.app.answer import Answer, as_outputs
from depthscope.app.page import Page
from depthscope.app.pages import PAGES
from depthscope.app.pages.depth_attention import DEPTH_ATTENTION
from depthscope.app.registry import Registry
from depthscope.app.state import LAYER_QUANTITIES, read_ask
from depthscope.app.timeline import phases, segments
from tests.figures.mixing_runs import record_mixing, record_outer
from tests.figures.runs import record

KNOWN = ("aa", "bb", "cc")
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.sampled_from(KNOWN),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)
fields = (
    "runs",
    "base",
    "focus",
    "metric",
    "mode",
    "scale",
    "range",
    "align",
    "step",
    "pins",
    "end",
    "theme",
    "changed",
    "zoom",
    "ordered",
    "shown",
    "targets",
    "weights",
    "cell",
    "sort",
    "top",
    "threshold",
    "distance",
)


@given(st.dictionaries(st.sampled_from(fields), anything) | anything)
def test_whatever_the_browser_sends_the_question_makes_sense(data: object) -> None:
    ask = read_ask(data, KNOWN)
    assert set(ask.runs) <= set(KNOWN)
    assert len(ask.runs) == len(set(ask.runs))
    assert ask.base in (None, *ask.runs)
    assert ask.focus in (None, *ask.runs)
    assert ask.metric in LAYER_QUANTITIES
    assert ask.mode in ("absolute", "ratio", "fresh", "write", "difference")
    assert ask.step is None or ask.step >= 0
    assert all(low != high for low, high in ask.zoom.values())
    assert set(ask.ordered) == set(ask.runs)
    assert ask.shown in (None, *ask.runs)
    assert ask.targets in ("together", "attention", "mlp")
    assert ask.view in ("mean", "spread", "uniform", "local", "difference")
    assert ask.cell is None or (ask.cell[0] >= 1 and ask.cell[1] >= 0)
    assert 1 <= ask.top <= 60
    assert 0 <= ask.least_weight <= 1
    assert ask.least_distance >= 2
    assert ask.changed is None or set(ask.changed) <= set(ask.runs)


@given(st.lists(st.integers(0, 10**7), unique=True, max_size=60).map(sorted))
def test_segments_hold_exactly_the_recorded_steps(steps: list[int]) -> None:
    found = segments(np.array(steps, dtype=np.int64))
    spread = [step for first, last, distance in found for step in range(first, last + 1, distance)]
    assert spread == steps


def test_a_million_even_steps_are_one_segment() -> None:
    assert segments(np.arange(0, 10**6, dtype=np.int64)) == [[0, 999_999, 1]]
    assert len(segments(np.cumsum(np.arange(5000)))) <= 501


def test_a_few_hundred_gaps_among_a_million_steps_are_found_quickly() -> None:
    steps = np.delete(np.arange(10**6), np.arange(1000, 400_000, 1000))
    started = time.process_time()
    found = segments(steps)
    assert time.process_time() - started < 1
    assert len(found) == 400
    assert found[0] == [0, 999, 1]
    assert found[-1] == [399_001, 999_999, 1]


def test_phases_follow_the_schedule() -> None:
    schedule = {"warmup": 30, "decay_start": 240, "total": 300}
    assert [(entry["name"], entry["start"], entry["stop"]) for entry in phases({"schedule": schedule})] == [
        ("warm-up", 0, 30),
        ("constant", 30, 240),
        ("decay", 240, 300),
    ]
    assert phases({"schedule": "cosine"}) == phases({"schedule": {"warmup": 3}}) == []


def _figure(*runs: str) -> dict[str, object]:
    return {"data": [{"y": [1], "meta": {"run": run, "role": "line"}} for run in runs], "layout": {}}


def test_only_runs_with_new_rows_are_sent_when_the_page_holds_the_figure() -> None:
    shape = "aa:line bb:line"
    ask = read_ask({"runs": ["aa", "bb"], "changed": ["bb"], "shape": shape, "key": "k"}, KNOWN)
    patch = as_outputs(Answer(title="t", figure=_figure("aa", "bb")), ask)[0].to_plotly_json()
    assert [operation["location"] for operation in patch["operations"]] == [["data", 1], ["layout"]]
    assert patch["operations"][1]["params"]["value"]["meta"]["asked"]["shape"] == shape
    other = as_outputs(Answer(title="t", figure=_figure("bb")), ask)[0]
    assert [trace["meta"]["run"] for trace in other["data"]] == ["bb"], "other traces: the whole figure"


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("large")
    for place in range(6):
        record(folder / f"run{place}", layers=128, steps=range(600), block=16, validation=False)
    return folder


def test_six_runs_of_128_sublayers_stay_below_the_payload_limit(large: Path) -> None:
    client = create_app(large).server.test_client()
    headers = {"Host": "127.0.0.1"}
    layout = client.get("/_dash-layout", headers=headers).json
    runs = [run["id"] for run in layout["props"]["children"][0]["props"]["data"]["runs"]]
    outputs = [
        f"{part}-maps.{prop}"
        for part, prop in (
            ("graph", "figure"),
            ("title", "children"),
            ("note", "children"),
            ("warning", "children"),
            ("empty", "children"),
            ("title", "title"),
            ("key", "children"),
        )
    ]
    body = {
        "output": f"..{'...'.join(outputs)}..",
        "outputs": [dict(zip(("id", "property"), output.split("."), strict=True)) for output in outputs],
        "inputs": [{"id": "ask-maps", "property": "data", "value": {"runs": runs, "end": 599}}],
        "changedPropIds": ["ask-maps.data"],
    }
    answer = client.post("/_dash-update-component", json=body, headers=headers)
    assert answer.status_code == 200
    maps = [
        trace
        for trace in json.loads(answer.data)["response"]["graph-maps"]["figure"]["data"]
        if trace["type"] == "heatmap"
    ]
    assert len(maps) == 6
    assert sum(int(trace["z"]["shape"].split(",")[1]) for trace in maps) <= 1500
    assert len(answer.data) <= 1.5e6


@pytest.fixture(scope="module")
def deep_and_shallow(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """1e4 steps of 128 sublayers, a record every ten, beside 12 sublayers and a wide state."""
    folder = tmp_path_factory.mktemp("deep")
    record_mixing(folder / "deep", layers=128, steps=range(0, 10_000, 10))
    record_mixing(folder / "shallow", layers=12)
    record_outer(folder / "wide")
    return folder


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_panel_of_a_deep_beside_a_shallow_run_is_small_and_drawn(
    page: Page, deep_and_shallow: Path
) -> None:
    registry = Registry(deep_and_shallow, {})
    slots = registry.slots()
    runs = registry.runs(slots)
    for name, panel in page.panels.items():
        ask = read_ask({"runs": list(slots), "shown": runs[0].id, "page": page.name, "panel": name}, slots)
        answer = panel.answer(ask, runs, slots)
        sent = as_outputs(answer, ask, table=panel.table, keyed=panel.keyed)
        assert len(json.dumps(sent, cls=PlotlyJSONEncoder)) <= 1.5e6, name
        assert answer.figure or answer.rows or answer.empty, name
        assert not any("cannot be read" in reason for reason in answer.absent.values()), answer.absent


def test_a_damaged_run_leaves_the_others_on_every_page(tmp_path: Path) -> None:
    record_mixing(tmp_path / "whole")
    record_mixing(tmp_path / "broken")
    damaged = ("state_rms", "state_logrms", "grad_write_rms", "loss", "depth_attention", "depth_contribution")
    for name in damaged:
        (chunk,) = (tmp_path / "broken").rglob(f"{name}/c.*")
        chunk.write_bytes(b"not a chunk")
    registry = Registry(tmp_path, {})
    slots = registry.slots()
    runs = registry.runs(slots)
    both = {run.name: run.id for run in runs}
    for page in PAGES:
        for (name, panel), shown in product(page.panels.items(), both.values()):
            ask = read_ask({"runs": list(slots), "shown": shown, "page": page.name, "cell": [4, 0]}, slots)
            answer = panel.answer(ask, runs, slots)
            assert answer.figure or answer.rows or answer.empty, name
            sent = as_outputs(answer, ask, table=panel.table, keyed=panel.keyed)
            assert str(tmp_path) not in json.dumps(sent, cls=PlotlyJSONEncoder)
    ask = read_ask({"runs": list(slots), "shown": both["broken"], "cell": [4, 0]}, slots)
    for name in ("attention-1", "cell-weight", "distant"):
        words = str(DEPTH_ATTENTION.panels[name].answer(ask, runs, slots).empty)
        assert "cannot be read: the run broken is damaged" in words, name


def test_what_the_page_holds_beside_its_figure_is_not_sent_again() -> None:
    def sent(note: str, held: list[str]) -> list[object]:
        ask = read_ask({"runs": ["aa"], "held": held}, KNOWN)
        answer = Answer(title="t", note=note, figure=_figure("aa"), key=[html.Span("low to high")])
        return as_outputs(answer, ask)

    first = sent("step 1", [])
    assert first[1:3] == ["t", "step 1"]
    assert no_update not in first
    held = first[0]["layout"]["meta"]["asked"]["held"]  # type: ignore[index]
    again = sent("step 2", held)
    assert again[2] == "step 2"
    assert again[1] is again[6] is no_update
    assert again[0]["layout"]["meta"]["asked"]["held"] != held  # type: ignore[index]
    assert no_update not in sent("step 2", held[1:]), "digests of other parts say nothing"


def test_rows_that_the_page_holds_are_not_sent_again() -> None:
    ask = read_ask({"runs": ["aa"]}, KNOWN)
    first = as_outputs(Answer(title="t", rows=[html.Tr(html.Td("0.3"))]), ask, table=True)
    ask = read_ask({"runs": ["aa"], "held": first[-1]["asked"]["held"]}, KNOWN)
    assert as_outputs(Answer(title="t", rows=[html.Tr(html.Td("0.3"))]), ask, table=True)[0] is no_update
    changed = as_outputs(Answer(title="t", rows=[html.Tr(html.Td("0.4"))]), ask, table=True)
    assert changed[0] is not no_update
    assert changed[1] is no_update
