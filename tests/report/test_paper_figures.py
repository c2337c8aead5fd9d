"""Paper figures: exact width, TrueType only, type of 8 points, nothing that overlaps or is cut off."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.text import Text

from depthscope.figures import PAPER_FIGURES, Look, draw_paper, mixing_plotly, paper_panels
from depthscope.figures.paper import type_settings
from depthscope.report import export
from depthscope.store import Run, open_run
from tests.figures.mixing_runs import record_mixing
from tests.figures.origin_runs import record_origins
from tests.figures.runs import record
from tests.report.pdf import read_pdf

Runs = dict[str, Run]


def text_boxes(name: str, runs: list[Run], width: float, **options: object) -> list[tuple[str, np.ndarray]]:
    """Return every text of a figure with its box [2, 2] as fractions of the sheet."""
    with type_settings():
        drawing = draw_paper(
            name, paper_panels(name, runs, **options), width=width, order=[run.id for run in runs]
        )
        canvas = FigureCanvasAgg(drawing)
        canvas.draw()
        renderer = canvas.get_renderer()
        found = []
        for text in drawing.findobj(Text):
            assert isinstance(text, Text)
            axes = text.axes
            shown = text.get_visible() and (axes is None or axes.get_visible())
            if shown and text.get_text().strip() and (axes is None or _in_view(text)):
                box = text.get_window_extent(renderer)
                found.append((text.get_text(), drawing.transFigure.inverted().transform(box.get_points())))
        return found


def _in_view(text: Text) -> bool:
    """Return whether a tick's label belongs to the part of the axis that is drawn."""
    axes = text.axes
    assert axes is not None
    for axis, place in ((axes.xaxis, 0), (axes.yaxis, 1)):
        if any(text in (tick.label1, tick.label2) for tick in axis.get_major_ticks()):
            low, high = sorted(axis.get_view_interval())
            return low <= text.get_position()[place] <= high and axis.get_visible()
    return True


def unreadable(boxes: list[tuple[str, np.ndarray]]) -> list[str]:
    """Return what is cut off by the sheet, and which texts lie over one another."""
    wrong = [f"cut off: {text!r}" for text, box in boxes if box.min() < -0.002 or box.max() > 1.002]
    for (one, first), (other, second) in itertools.combinations(boxes, 2):
        across = min(first[1, 0], second[1, 0]) - max(first[0, 0], second[0, 0])
        up = min(first[1, 1], second[1, 1]) - max(first[0, 1], second[0, 1])
        if across > 0.002 and up > 0.004:
            wrong.append(f"{one!r} over {other!r}")
    return wrong


@pytest.mark.parametrize("width", [3.25, 6.75])
@pytest.mark.parametrize("name", PAPER_FIGURES)
def test_no_text_overlaps_another_or_is_cut_off(name: str, width: float, runs: Runs) -> None:
    assert unreadable(text_boxes(name, list(runs.values()), width)) == []


@pytest.mark.parametrize("width", [3.25, 6.75])
def test_mixing_of_four_designs_and_of_two_depths_is_readable(width: float, tmp_path: Path) -> None:
    designs = ("prenorm", "full-attnres", "hires", "cancelling")
    for design in designs:
        record_origins(tmp_path / design, design=design, layers=12, block=4, steps=(0, 10))
    record_origins(tmp_path / "deep", design="hires", layers=128, block=8, steps=(0, 10))
    four = [open_run(tmp_path / design) for design in designs]
    deep = open_run(tmp_path / "deep")
    for runs in (four, four[:2], [deep, four[0]], [deep.renamed(LONG[0].format(1))], [*four, deep]):
        assert unreadable(text_boxes("mixing", runs, width)) == []
    assert unreadable(text_boxes("mixing", four[:2], width, share="coefficient")) == []


@pytest.mark.parametrize(("layers", "block", "labels"), [(12, 4, "1 5 9 output"), (8, 0, "1 2 4 6 output")])
def test_paper_labels_the_rows_that_the_screen_does_and_every_axis_of_bars(
    layers: int, block: int, labels: str, tmp_path: Path
) -> None:
    run = open_run(record_origins(tmp_path / "run", layers=layers, block=block, steps=(0, 10)))
    panels = paper_panels("mixing", [run])
    with type_settings():
        drawing = draw_paper("mixing", panels, width=6.75, order=[run.id])
    maps, bars = drawing.axes[:2]
    assert " ".join(tick.get_text() for tick in maps.get_yticklabels()) == labels
    shown = mixing_plotly(panels["mixing"].data, look=Look())["layout"]["yaxis"]["ticktext"]
    assert " ".join(shown) == labels
    assert bars.get_xlabel() == "cancels"
    assert [tick.get_text() for tick in bars.get_xticklabels()] == ["2"]


def test_pinned_steps_are_named_at_their_lines(runs: Runs) -> None:
    boxes = text_boxes("depth-profile", [runs["prenorm"], runs["block"]], 3.25, pins=(0, 10, 100))
    assert unreadable(boxes) == []
    texts = [text for text, _ in boxes]
    assert [texts.count(f"at {step}") for step in (0, 10, 100)] == [4, 4, 4]  # two runs in two panels


@pytest.mark.parametrize("name", ["depth-profile", "depth-map", "depth-attention", "skip-paths"])
def test_128_sublayers_beside_12_with_long_names(name: str, tmp_path: Path) -> None:
    record_mixing(
        tmp_path / "deep", layers=128, block=16, steps=(0, 10), name="a run with a rather long name, deep"
    )
    record_mixing(
        tmp_path / "flat", layers=12, steps=(0, 10), name="another with $dollars$ and a_long_name, flat"
    )
    both = [open_run(tmp_path / "deep"), open_run(tmp_path / "flat")]
    assert unreadable(text_boxes(name, both, 3.25)) == []
    assert unreadable(text_boxes(name, both, 6.75)) == []


@pytest.mark.parametrize("width", [3.25, 6.75])
def test_a_difference_names_a_long_baseline_without_overprinting(width: float, runs: Runs) -> None:
    long = [runs[name].renamed(f"{name} of a rather long name") for name in ("prenorm", "block", "attention")]
    for name in ("depth-profile", "depth-map"):
        boxes = text_boxes(name, long, width, mode="difference")
        assert unreadable(boxes) == []
        assert any("ratio to prenorm of" in " ".join(text.split()) for text, _ in boxes)


def legend_of(name: str, runs: list[Run]) -> list[str]:
    with type_settings():
        drawing = draw_paper(name, paper_panels(name, runs), width=6.75, order=[run.id for run in runs])
        return [text.get_text() for found in drawing.legends for text in found.get_texts()]


def test_the_time_after_a_run_s_end_is_hatched_as_not_recorded(runs: Runs, tmp_path: Path) -> None:
    short = open_run(record(tmp_path / "short", steps=range(0, 101, 10)))
    with type_settings():
        both = [runs["prenorm"], short]
        drawing = draw_paper(
            "depth-map", paper_panels("depth-map", both), width=6.75, order=[run.id for run in both]
        )
    hatched = [[patch for patch in axes.patches if patch.get_hatch()] for axes in drawing.axes[:2]]
    assert hatched[0] == []
    (rest,) = hatched[1]
    assert rest.get_x() == pytest.approx(105)  # a column reaches half-way to where the next would be
    assert rest.get_x() + rest.get_width() == pytest.approx(300)
    assert legend_of("depth-map", [runs["prenorm"], short]) == ["not recorded"]
    assert legend_of("depth-map", [runs["prenorm"]]) == []


def test_positions_past_a_short_block_are_called_so(tmp_path: Path) -> None:
    run = open_run(record(tmp_path / "run", layers=41, block=3, steps=(0, 10)))
    assert legend_of("block-boundaries", [run]) == ["run", "past a shorter block's end"]


LONG = (
    "prenorm {} (2026-11-30_01-57-19)",
    "a-name-of-one-word-{}-and-forty-characters",
    "{} with forty letters in several words",
)


@pytest.mark.parametrize("width", [3.25, 6.75])
@pytest.mark.parametrize("name", PAPER_FIGURES)
def test_names_of_forty_characters_never_set_the_layout(name: str, width: float, runs: Runs) -> None:
    long = [run.renamed(LONG[place % 3].format(place)) for place, run in enumerate(runs.values())]
    assert unreadable(text_boxes(name, long, width)) == []
    short = [run.renamed(f"run {place}") for place, run in enumerate(runs.values())]
    assert axes_widths(name, long, width) == pytest.approx(axes_widths(name, short, width), abs=0.02)


def test_the_key_of_markers_stays_on_the_sheet_with_many_runs_of_which_one_has_none(
    runs: Runs, tmp_path: Path
) -> None:
    deep = open_run(record(tmp_path / "deep", layers=128, steps=(0, 10), name="deep"))
    marked = [run.renamed(LONG[place % 3].format(place)) for place, run in enumerate(runs.values())]
    boxes = text_boxes("depth-profile", [*marked, deep], 3.25)
    assert unreadable(boxes) == []
    assert "attention (up to 8 sublayers)" in [text for text, _ in boxes]


def axes_widths(name: str, runs: list[Run], width: float) -> list[float]:
    """Return the width of every axes of a figure, as a fraction of the sheet's."""
    with type_settings():
        drawing = draw_paper(name, paper_panels(name, runs), width=width, order=[run.id for run in runs])
        FigureCanvasAgg(drawing).draw()
        return [axes.get_position().width for axes in drawing.axes if axes.get_visible()]


def test_the_check_for_overlap_sees_one() -> None:
    box = np.array([[0.1, 0.1], [0.3, 0.2]])
    assert unreadable([("a", box), ("b", box + 0.05)]) == ["'a' over 'b'"]
    assert unreadable([("a", box + 0.8)]) == ["cut off: 'a'"]


@pytest.mark.parametrize(("width", "inches"), [("column", 3.25), ("text", 6.75), ("9cm", 9 / 2.54)])
@pytest.mark.parametrize("name", PAPER_FIGURES)
def test_a_pdf_has_the_width_asked_for_and_embeds_truetype_of_8_points(
    name: str, width: str, inches: float, runs: Runs, tmp_path: Path
) -> None:
    export(name, list(runs.values()), tmp_path / "figure.pdf", width)
    found = read_pdf((tmp_path / "figure.pdf").read_bytes())
    assert found.pages == 1
    assert found.width == pytest.approx(inches, abs=1e-3)
    assert found.fonts
    assert set(found.fonts) == {("/Type0", "/CIDFontType2", True)}
    assert set(found.sizes) == {8.0}
    assert not [key for key in found.metadata if "Date" in key]


def test_a_png_has_300_dots_an_inch(runs: Runs, tmp_path: Path) -> None:
    export("depth-profile", runs["prenorm"], tmp_path / "figure.png")
    content = (tmp_path / "figure.png").read_bytes()
    assert int.from_bytes(content[16:20], "big") == 975  # 3.25 in x 300


def test_runs_keep_their_colour_when_others_are_left_out(runs: Runs) -> None:
    """`wide` is the fourth run, and the only one with an outer state."""
    order = [run.id for run in runs.values()]
    with type_settings():
        panels = paper_panels("outer-state", list(runs.values()))
        drawing = draw_paper("outer-state", panels, width=3.25, order=order)
    lines = [
        line for axes in drawing.axes for line in axes.get_lines() if line.get_gid() == f"energy {order[3]}"
    ]
    assert [line.get_color() for line in lines] == ["#B84C8F"]  # run 4 of tokens.css


def test_maps_of_10000_cells_are_vectors_and_larger_ones_images(tmp_path: Path) -> None:
    record(tmp_path / "few", steps=range(100))
    record(tmp_path / "many", steps=range(2000), validation=False)
    export("depth-map", open_run(tmp_path / "few"), tmp_path / "few.pdf")
    export("depth-map", open_run(tmp_path / "many"), tmp_path / "many.pdf", columns=2000)
    images = {
        name: (tmp_path / f"{name}.pdf").read_bytes().count(b"/Subtype /Image") for name in ("few", "many")
    }
    # one image is the colour bar's, where there is one of the kind
    assert images["few"] < images["many"]


def test_signed_maps_are_centred_at_zero(runs: Runs) -> None:
    with type_settings():
        panels = paper_panels("depth-map", [runs["prenorm"]], quantity="write_cosine")
        drawing = draw_paper("depth-map", panels, width=3.25, order=[runs["prenorm"].id])
    mesh = drawing.axes[0].collections[0]
    low, high = mesh.get_clim()
    assert low is not None
    assert high is not None
    assert low == -high


def test_runs_share_one_colour_range_unless_asked(runs: Runs) -> None:
    """The block run's states are 1.5 times the other's."""
    both = [runs["prenorm"], runs["block"]]

    def ranges(scale: str) -> list[tuple[float | None, float | None]]:
        with type_settings():
            panels = paper_panels("depth-map", both)
            drawing = draw_paper("depth-map", panels, width=3.25, order=[run.id for run in both], scale=scale)  # type: ignore[arg-type]
        meshes = [mesh for axes in drawing.axes for mesh in axes.collections if mesh.get_array() is not None]
        return [mesh.get_clim() for mesh in meshes if np.size(mesh.get_array()) == 8 * 31]

    shared, own = ranges("shared"), ranges("own")
    assert shared[0] == shared[1]
    assert own[1] == pytest.approx([1.5 * end for end in own[0] if end is not None])
