"""Skip paths on paper: which arcs are labelled, where, and what the axis of two depths is."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import PathPatch

from depthscope.figures import draw_paper, paper_panels
from depthscope.figures.paper import type_settings
from depthscope.report import export
from depthscope.store import Run, open_run
from tests.figures.mixing_runs import record_mixing

COLUMN, TEXT = 3.25, 6.75


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Run]:
    folder = tmp_path_factory.mktemp("arcs")
    record_mixing(folder / "full", layers=24)
    record_mixing(folder / "deep", layers=128)
    record_mixing(folder / "blocks", layers=32, block=4)
    return {path.name: open_run(path) for path in folder.iterdir()}


def drawn(runs: list[Run], width: float) -> Figure:
    with type_settings():
        figure = draw_paper(
            "skip-paths", paper_panels("skip-paths", runs), width=width, order=[r.id for r in runs]
        )
        FigureCanvasAgg(figure).draw()
        return figure


def arcs_of(axes: Axes) -> list[np.ndarray]:
    """Return each arc as points [points, 2] in pixels, lightest first as they were drawn."""
    shown = [patch for patch in axes.patches if isinstance(patch, PathPatch)]
    return [
        axes.transData.transform_path(patch.get_path()).interpolated(100).to_polygons(closed_only=False)[0]
        for patch in shown
    ]


def labels_of(axes: Axes) -> dict[str, np.ndarray]:
    """Return the numbers written in the axes with their boxes [2, 2] in pixels."""
    texts = [text for text in axes.texts if text.get_text()[0] == "0"]
    return {
        f"{text.get_text()} {place}": text.get_window_extent().get_points()
        for place, text in enumerate(texts)
    }


@pytest.mark.parametrize("width", [COLUMN, TEXT])
@pytest.mark.parametrize("name", ["full", "deep", "blocks"])
def test_the_heaviest_arc_has_its_weight_and_contribution_at_every_width(
    runs: dict[str, Run], name: str, width: float
) -> None:
    (axes,) = drawn([runs[name]], width).axes
    panels = paper_panels("skip-paths", [runs[name]])
    heaviest = panels["skip-paths"].data.arrays[runs[name].id][0]
    labels = [text.get_text() for text in axes.texts]
    assert any(text.startswith(f"{float(heaviest):.2f}") for text in labels)


@pytest.mark.parametrize("width", [COLUMN, TEXT])
def test_no_label_lies_over_an_arc_or_another_label(runs: dict[str, Run], width: float) -> None:
    for axes in drawn(list(runs.values()), width).axes:
        boxes = list(labels_of(axes).values())
        for place, ((left, bottom), (right, top)) in enumerate(boxes):
            for points in arcs_of(axes):
                x, y = points[:, 0], points[:, 1]
                assert not ((x > left) & (x < right) & (y > bottom) & (y < top)).any()
            for other in boxes[:place]:
                across = min(right, other[1, 0]) - max(left, other[0, 0])
                assert across <= 0 or min(top, other[1, 1]) <= max(bottom, other[0, 1])
        assert all(text.get_bbox_patch() is None for text in axes.texts), "nothing covers an arc"


def test_distances_name_their_unit_on_paper_and_in_every_row_of_the_csv(
    runs: dict[str, Run], tmp_path: Path
) -> None:
    chosen = [runs["full"], runs["blocks"]]
    said = [" ".join(text.get_text().split()) for text in drawn(chosen, COLUMN).axes[0].texts]
    assert any(text.startswith("full:") and text.endswith("distance in sublayers") for text in said)
    assert any(text.startswith("blocks:") and text.endswith("distance in blocks") for text in said)
    written = export("skip-paths", chosen, tmp_path / "paths.csv")
    rows = (tmp_path / "paths.csv").read_text().splitlines()
    assert written
    unit = rows[0].split(",").index("distance_unit")
    assert {(row.split(",")[1], row.split(",")[unit]) for row in rows[1:]} == {
        ("full", "sublayer"),
        ("blocks", "block"),
    }


def test_runs_of_two_depths_share_an_axis_from_embedding_to_output(runs: dict[str, Run]) -> None:
    (axes,) = drawn([runs["deep"], runs["full"]], TEXT).axes
    assert axes.get_xlabel() == "depth, share of the sublayers"
    ends = [patch.get_path().vertices[-1, 0] for patch in axes.patches if isinstance(patch, PathPatch)]
    # The twelve heaviest paths of 24 sublayers end at 4 to 15 of 25, those of 128 at 4 to 15 of 129.
    assert (max(ends), min(ends)) == (pytest.approx(15 / 25), pytest.approx(4 / 129))
    labels = [text.get_text() for text in axes.get_xticklabels()]
    assert (labels[0], labels[-1]) == ("embedding", "output")


def test_arcs_of_neighbours_at_128_sublayers_are_thinner_than_those_of_24(runs: dict[str, Run]) -> None:
    widths = {
        name: max(patch.get_linewidth() for patch in drawn([runs[name]], COLUMN).axes[0].patches)
        for name in ("full", "deep")
    }
    assert widths["deep"] < 0.6 * widths["full"]
