"""Depth attention on paper: at 128 sublayers as at 12, ticks apart, gaps thin, a legend of what is drawn."""

from __future__ import annotations

import itertools

import pytest
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from depthscope.figures import draw_paper, paper_panels
from depthscope.figures.paper import type_settings
from depthscope.store import Run, open_run
from tests.figures.mixing_runs import record_mixing

COLUMN, TEXT = 3.25, 6.75


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Run]:
    folder = tmp_path_factory.mktemp("maps")
    record_mixing(folder / "deep", layers=128, steps=(0, 300))
    record_mixing(folder / "sixteen", layers=128, block=8, steps=(0, 300))
    record_mixing(folder / "shallow", layers=12, block=4, steps=(0, 300))
    return {path.name: open_run(path) for path in folder.iterdir()}


def drawn(runs: list[Run], width: float) -> Figure:
    with type_settings():
        panels = paper_panels("depth-attention", runs)
        figure = draw_paper("depth-attention", panels, width=width, order=[run.id for run in runs])
        FigureCanvasAgg(figure).draw()
        return figure


def maps(figure: Figure) -> list[Axes]:
    return [axes for axes in figure.axes if axes.get_xlabel().startswith("source")]


@pytest.mark.parametrize("width", [COLUMN, TEXT])
def test_ticks_do_not_touch_one_another(runs: dict[str, Run], width: float) -> None:
    for axes in maps(drawn(list(runs.values()), width)):
        for labels in (axes.get_xticklabels(), axes.get_yticklabels()):
            boxes = [label.get_window_extent() for label in labels if label.get_text()]
            for one, other in itertools.combinations(boxes, 2):
                assert not one.overlaps(other)


def test_gaps_between_sixteen_blocks_take_little_of_the_map(runs: dict[str, Run]) -> None:
    def widths(name: str) -> list[float]:
        axes = maps(drawn([runs[name]], COLUMN))[0]
        lines = [part for part in axes.collections if isinstance(part, LineCollection)]
        return [float(line.get_linewidths()[0]) for line in lines]

    assert widths("shallow") == [0.8] * 3
    assert widths("sixteen")[:-1] == [0.4] * 15
    assert len(widths("deep")) == 1, "the final read alone stands apart"


def test_the_legend_names_what_is_drawn_in_the_words_of_the_page(runs: dict[str, Run]) -> None:
    def legend(*names: str) -> set[str]:
        figure = drawn([runs[name] for name in names], COLUMN)
        return {text.get_text() for text in figure.legends[0].get_texts()}

    assert legend("deep") == {"unreachable"}
    assert legend("sixteen") == {"partial block", "unreachable"}
    assert legend("shallow") == {"attention", "MLP", "partial block", "unreachable"}
    assert legend("deep", "shallow") == {"attention", "MLP", "partial block", "unreachable"}


def test_partial_sums_of_blocks_of_eight_are_a_line_each(runs: dict[str, Run]) -> None:
    axes = maps(drawn([runs["sixteen"]], COLUMN))[0]
    stretches = [(line.get_xdata()[0], *line.get_ydata()) for line in axes.lines]
    assert len(stretches) == 16
    assert stretches[0] == pytest.approx((1, 0.8, 7.2))
