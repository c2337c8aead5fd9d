"""The CSV beside a figure holds the numbers that are drawn, and every number can be traced."""

from __future__ import annotations

import csv
import io
import math
from pathlib import Path

import numpy as np
import pytest

from depthscope.figures import PAPER_FIGURES, draw_paper, paper_panels
from depthscope.figures.paper import type_settings
from depthscope.report import export, table_of
from depthscope.store import Run
from tests.figures.runs import state

Runs = dict[str, Run]


def rows(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(path.read_text("utf-8"))))


def number(text: str) -> float:
    return float(text) if text else math.nan


def test_a_profile_s_numbers_are_those_of_the_store(runs: Runs, tmp_path: Path) -> None:
    export("depth-profile", runs["prenorm"], tmp_path / "f.csv", quantity="state_rms", step=105)
    found = rows(tmp_path / "f.csv")
    assert [row["step"] for row in found] == ["100"] * 8
    assert [number(row["value"]) for row in found] == pytest.approx(state(100, 8).tolist())
    assert {row["run"] for row in found} == {"prenorm"}
    assert [row["layer_kind"] for row in found[:2]] == ["attention", "mlp"]


def test_a_drawn_line_and_the_csv_hold_the_same_numbers(runs: Runs, tmp_path: Path) -> None:
    both = [runs["prenorm"], runs["block"]]
    export("depth-profile", both, tmp_path / "f.pdf", step=50)
    found = rows(tmp_path / "f.csv")
    with type_settings():
        drawing = draw_paper(
            "depth-profile",
            paper_panels("depth-profile", both, step=50),
            width=3.25,
            order=[run.id for run in both],
        )
    for axes, panel in zip(drawing.axes, ("loss", "state_logrms", "grad_write_rms"), strict=True):
        for run in both:
            (line,) = [line for line in axes.get_lines() if line.get_gid() == f"line {run.id}"]
            wanted = [
                number(row["value"]) for row in found if (row["panel"], row["run_id"]) == (panel, run.id)
            ]
            assert np.asarray(line.get_ydata()).tolist() == wanted


def test_a_drawn_map_and_the_csv_hold_the_same_numbers(runs: Runs, tmp_path: Path) -> None:
    run = runs["attention"]
    export("depth-attention", run, tmp_path / "f.pdf")
    found = rows(tmp_path / "f.csv")
    with type_settings():
        drawing = draw_paper(
            "depth-attention", paper_panels("depth-attention", [run]), width=3.25, order=[run.id]
        )
    for axes, part in zip(drawing.axes[:2], ("weight", "contribution"), strict=True):
        drawn = np.ma.filled(np.ma.asarray(axes.collections[0].get_array()), np.nan).ravel()
        wanted = [number(row["value"]) for row in found if row["part"] == part]
        np.testing.assert_array_equal(drawn, wanted)
    assert {row["value"] for row in found if row["reachable"] == "false"} == {""}


def test_outer_state_blocks_have_their_hand_written_values(runs: Runs, tmp_path: Path) -> None:
    export("outer-state", runs["wide"], tmp_path / "f.csv")
    energy = [row for row in rows(tmp_path / "f.csv") if row["value_name"] == "energy"]
    assert [(row["block"], number(row["value"])) for row in energy] == [
        ("1", 4),
        ("2", 8),
        ("3", 12),
        ("4", 16),
    ]


@pytest.mark.parametrize("name", PAPER_FIGURES)
def test_every_value_has_its_place_and_no_two_the_same(name: str, runs: Runs, tmp_path: Path) -> None:
    export(name, list(runs.values()), tmp_path / "f.csv")
    text = (tmp_path / "f.csv").read_text("utf-8")
    header = text.splitlines()[0].split(",")
    assert header[:7] == ["panel", "run", "run_id", "quantity", "transform", "unit", "value"]
    assert len(set(header)) == len(header)
    places = [tuple(row[key] for key in header if key != "value") for row in rows(tmp_path / "f.csv")]
    assert len(set(places)) == len(places) > 0


def units(path: Path) -> dict[str, str]:
    return {row["quantity"]: row["unit"] for row in rows(path)}


def test_every_value_has_the_unit_it_is_shown_in(runs: Runs, tmp_path: Path) -> None:
    both = [runs["prenorm"], runs["block"]]
    export("depth-profile", both, tmp_path / "f.csv")
    assert units(tmp_path / "f.csv") == {
        "validation": "nats",
        "state_logrms": "activation",
        "grad_write_rms": "nats / activation",
    }
    export("depth-profile", both, tmp_path / "f.csv", quantity="state_logrms", mode="difference")
    assert units(tmp_path / "f.csv") == {"state_logrms": "log2(ratio)"}
    export("depth-profile", both, tmp_path / "f.csv", quantity="write_cosine", mode="difference")
    assert units(tmp_path / "f.csv") == {"write_cosine": "1"}
    export("depth-profile", both, tmp_path / "f.csv", quantity="state_rms", mode="ratio")
    assert units(tmp_path / "f.csv") == {"state_rms": "1"}


@pytest.mark.parametrize(
    ("name", "options", "expected"),
    [
        ("depth-profile", {}, {"validation": "", "state_logrms": "exp", "grad_write_rms": ""}),
        ("depth-profile", {"quantity": "state_rms", "mode": "ratio"}, {"state_rms": "ratio to first"}),
        ("depth-map", {"mode": "difference"}, {"state_logrms": "exp, log2 ratio to prenorm"}),
        (
            "depth-map",
            {"quantity": "write_cosine", "mode": "difference"},
            {"write_cosine": "difference to prenorm"},
        ),
        ("block-boundaries", {"show": "folded", "quantity": "state_logrms"}, {"state_logrms": "exp"}),
    ],
)
def test_every_value_says_what_was_made_of_the_recorded_quantity(
    name: str, options: dict[str, str], expected: dict[str, str], runs: Runs, tmp_path: Path
) -> None:
    export(name, [runs["prenorm"], runs["block"]], tmp_path / "f.csv", **options)
    assert {row["quantity"]: row["transform"] for row in rows(tmp_path / "f.csv")} == expected


def test_a_control_s_sums_of_writes_are_not_told_as_states(runs: Runs, tmp_path: Path) -> None:
    export("block-boundaries", [runs["prenorm"], runs["block"]], tmp_path / "f.csv", show="folded")
    assert {row["run"]: row["transform"] for row in rows(tmp_path / "f.csv")} == {
        "prenorm": "root of summed squares of write_rms",
        "block": "",
    }


def test_the_first_rows_of_a_table_are_those_of_the_whole(runs: Runs) -> None:
    panels = paper_panels("depth-map", [runs["prenorm"], runs["block"]])
    whole, first = table_of(panels), table_of(panels, most=30)
    assert first.columns == whole.columns
    assert first.total == whole.total == len(rows_of := list(whole.rows))
    assert list(first.rows) == rows_of[:30]


def test_a_reference_curve_is_in_the_table_without_a_run(runs: Runs, tmp_path: Path) -> None:
    export("depth-profile", runs["prenorm"], tmp_path / "f.csv", mode="fresh")
    reference = [row for row in rows(tmp_path / "f.csv") if row["run_id"] == ""]
    assert [number(row["value"]) for row in reference] == pytest.approx(
        [1 / (layer + 1) for layer in range(1, 9)]
    )
    assert {row["run"] for row in reference} == {"reference 1/(l+1)"}
