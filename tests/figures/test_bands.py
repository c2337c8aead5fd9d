"""Bands: whose residual blocks stand behind a depth axis, and that page, paper and caption say the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from depthscope.figures import (
    Labelled,
    ProfileOptions,
    bands_note,
    depth_profile_data,
    draw_paper,
    figure,
    paper_panels,
)
from depthscope.figures.bands import blocks_along
from depthscope.figures.paper import type_settings
from depthscope.report import export
from depthscope.store import Run, open_run
from tests.figures.runs import record


def profile(runs: list[Run], focus: Run | None = None) -> Labelled:
    return depth_profile_data(runs, ProfileOptions(focus=None if focus is None else focus.id))


@pytest.fixture
def runs(tmp_path: Path) -> dict[str, Run]:
    """Runs by sublayers and block: of 24 with blocks of 6 (two) and 8, of 12 with blocks of 3 and 4, and without."""
    made = {
        "24/6": (24, 6),
        "also 24/6": (24, 6),
        "24/8": (24, 8),
        "12/3": (12, 3),
        "12/4": (12, 4),
        "24": (24, 0),
    }
    steps = (0, 10)
    for place, (name, (layers, block)) in enumerate(made.items()):
        record(tmp_path / str(place), name=name, layers=layers, block=block, steps=steps)
    return {name: open_run(tmp_path / str(place)) for place, name in enumerate(made)}


def test_at_one_depth_the_bands_are_the_focused_runs(runs: dict[str, Run]) -> None:
    both = [runs["24/6"], runs["24/8"]]
    assert bands_note(profile(both, runs["24/8"])) == "bands: blocks of 24/8"
    assert bands_note(profile(both, runs["24/6"])) == "bands: blocks of 24/6"


def test_runs_that_agree_with_the_focused_one_are_named_with_it(runs: dict[str, Run]) -> None:
    data = profile([runs["24/6"], runs["24"], runs["24/8"], runs["also 24/6"]], runs["also 24/6"])
    assert bands_note(data) == "bands: blocks of also 24/6 and 24/6"


def test_a_focused_run_without_blocks_leaves_those_on_which_the_others_agree(runs: dict[str, Run]) -> None:
    assert bands_note(profile([runs["24"], runs["24/6"]], runs["24"])) == "bands: blocks of 24/6"
    differing = profile([runs["24"], runs["24/6"], runs["24/8"]], runs["24"])
    assert bands_note(differing) == "no bands: the runs' blocks differ"


def test_depths_that_differ_have_bands_only_where_all_blocks_end_at_the_same_shares(
    runs: dict[str, Run],
) -> None:
    same = profile([runs["24/6"], runs["12/3"]], runs["24/6"])
    assert bands_note(same) == "bands: blocks of 24/6 and 12/3"
    other = [runs["24/6"], runs["12/4"]]
    for focus in other:
        assert bands_note(profile(other, focus)) == "no bands: the runs' blocks differ"
        drawn = figure("depth-profile", other, focus=focus.id)
        assert not drawn.layout.shapes
        assert not drawn.layout.meta["bands"]


def test_a_run_without_blocks_has_no_bands_and_no_words_about_them(runs: dict[str, Run]) -> None:
    assert bands_note(profile([runs["24"]])) == ""


@pytest.mark.parametrize("focus", ["24/6", "24/8"])
def test_page_paper_and_caption_show_the_same_bands(runs: dict[str, Run], focus: str, tmp_path: Path) -> None:
    both = [runs["24/6"], runs["24/8"]]
    options = {"quantity": "state_rms", "focus": runs[focus].id}
    expected = [
        (left, right) for _, left, right in blocks_along(profile([runs[focus]]).arrays[runs[focus].id], False)
    ]
    drawn = figure("depth-profile", both, **options)
    assert [(shape.x0, shape.x1) for shape in drawn.layout.shapes] == expected[1::2]
    with type_settings():
        panels = paper_panels("depth-profile", both, **options)
        (axes,) = draw_paper("depth-profile", panels, width=6.75, order=[run.id for run in both]).axes
    boxes = [patch.get_bbox() for patch in axes.patches]
    assert [(box.x0, box.x1) for box in boxes] == expected[1::2]
    export("depth-profile", both, tmp_path / "f.pdf", **options)
    assert f"Shaded: every second residual block of {focus}." in (tmp_path / "f.tex").read_text("utf-8")


def test_on_paper_the_key_of_markers_names_the_runs_that_have_room_for_them(tmp_path: Path) -> None:
    record(tmp_path / "deep", layers=128, block=8, steps=(0, 10))
    record(tmp_path / "flat", layers=12, block=4, steps=(0, 10))
    deep, flat = open_run(tmp_path / "deep"), open_run(tmp_path / "flat")

    def key(runs: list[Run]) -> list[str]:
        with type_settings():
            panels = paper_panels("depth-profile", runs, quantity="state_rms")
            drawing = draw_paper("depth-profile", panels, width=3.25, order=[run.id for run in runs])
        (legend,) = drawing.legends
        return [text.get_text() for text in legend.get_texts()]

    assert key([deep, flat]) == ["deep", "flat", "attention of flat", "MLP of flat"]
    assert key([flat]) == ["flat", "attention", "MLP"]
    assert key([deep]) == ["deep"]
