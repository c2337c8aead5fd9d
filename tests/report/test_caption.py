"""Captions state quantity, norm, reduction, steps, block size and seeds, as LaTeX that compiles as it stands."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from depthscope.quantities import QUANTITIES
from depthscope.report import export
from depthscope.report.latex import escaped, mathematics
from depthscope.store import Run, open_run
from tests.figures.runs import record

Runs = dict[str, Run]


def caption(name: str, runs: list[Run], folder: Path, width: str = "column", **options: object) -> str:
    export(name, runs, folder / "f.pdf", width, **options)
    return (folder / "f.tex").read_text("utf-8")


def test_a_profile_s_caption_states_all_that_a_reader_needs(runs: Runs, tmp_path: Path) -> None:
    text = caption("depth-profile", [runs["prenorm"], runs["block"]], tmp_path, step=100)
    assert r"\includegraphics[width=3.25in]{f.pdf}" in text
    assert r"the exponential of $\operatorname{mean}_{t} \log(\lVert s_{l}\rVert / \sqrt{d})$" in text
    assert r"$\lVert x\rVert$ is the L2 norm of one token's vector" in text
    assert "mean over all tokens of the optimizer step" in text
    assert "block (AttnRes block, 8 sublayers, 4 residual blocks of 2 sublayers)" in text
    assert "Step 100." in text
    assert "Seeds: prenorm 1, block not recorded." in text
    assert "across designs compare gradient times write" in text


def test_a_caption_speaks_only_of_what_is_drawn(runs: Runs, tmp_path: Path) -> None:
    both = [runs["prenorm"], runs["block"]]
    text = caption("depth-profile", both, tmp_path, quantity="write_ratio,write_cosine")
    assert "Validation loss" not in text
    assert "gradient" not in text
    assert "(a) Write ratio: gain from read to write" in text


def test_one_design_alone_needs_no_warning_about_raw_gradients(runs: Runs, tmp_path: Path) -> None:
    assert "across designs" not in caption("depth-profile", [runs["prenorm"]], tmp_path)


def test_weights_are_never_said_to_have_an_effect(runs: Runs, tmp_path: Path) -> None:
    for name in ("depth-attention", "skip-paths"):
        text = caption(name, [runs["attention"]], tmp_path)
        assert "Weights describe routing; only an intervention shows an effect." in text
        assert "importan" not in text
        assert "strongest" not in text


def test_block_boundaries_say_what_is_by_design(runs: Runs, tmp_path: Path) -> None:
    text = caption("block-boundaries", [runs["block"], runs["prenorm"]], tmp_path)
    assert "The sum restarts by design; what training decides is the rest." in text
    assert "Control prenorm, in grey" in text


def test_mixing_says_what_a_row_sums_to_and_what_its_shares_are_not(runs: Runs, tmp_path: Path) -> None:
    text = caption("mixing", [runs["apart"]], tmp_path)
    assert r"$\operatorname{mean}_{t} \langle c_{i\to l}, h_{l}\rangle" in text
    assert "A row sums to 1." in text
    assert "past 2 single shares are large terms that cancel" in text
    assert "only an intervention shows an effect" in text
    difference = caption("mixing", [runs["apart"]], tmp_path, mode="difference", reference_step=0)
    assert "A row sums to 0." in difference
    assert "minus that of step 0" in difference


def test_a_share_of_sampled_tokens_is_said_to_be_one(runs: Runs, tmp_path: Path) -> None:
    text = caption("depth-profile", [runs["prenorm"], runs["apart"]], tmp_path, quantity="fresh_share")
    assert "mean over all tokens of the optimizer step (apart: a sample of tokens)" in text


def test_marks_and_gaps_of_a_line_are_explained_where_they_occur(tmp_path: Path) -> None:
    shares = np.full(8, 0.2)
    shares[[1, 3]] = -0.1, np.nan
    broken = open_run(
        record(tmp_path / "broken", unfresh=(4,), changes={300: {"fresh_share": shares}}, validation=False)
    )
    text = caption("depth-profile", [broken], tmp_path, quantity="fresh_share")
    assert "Ticks at the lower edge: values of 0 or less, which have no place on a log axis." in text
    assert "A line has a gap where the design of its run has no such value." in text
    assert "NaN" not in text, "the design has no value there"
    linear = caption("depth-profile", [broken], tmp_path, quantity="fresh_share", log=False)
    assert "Ticks at the lower edge" not in linear
    assert "A line has a gap" in linear
    whole = open_run(record(tmp_path / "whole", unfresh=(8,), validation=False))
    plain = caption("depth-profile", [whole], tmp_path, quantity="fresh_share")
    assert "lower edge" not in plain
    assert "gap" not in plain, "a line that ends early has none"


def test_other_values_that_a_line_cannot_show_are_explained_together(tmp_path: Path) -> None:
    state = np.ones(8)
    state[[2, 4]] = np.nan, np.inf
    odd = open_run(record(tmp_path / "odd", changes={300: {"state_logrms": state}}))
    text = caption("depth-profile", [odd], tmp_path)
    assert "Crosses at the lower edge: NaN; triangles at the upper edge: infinite values." in text


def test_runs_at_steps_of_their_own_keep_their_names(runs: Runs, tmp_path: Path) -> None:
    half = open_run(record(tmp_path / "half", steps=range(0, 101, 10)))
    text = caption("depth-profile", [half, runs["prenorm"]], tmp_path)
    assert "Shown: half at step 100; prenorm at step 300." in text


def test_a_wide_figure_spans_both_columns(runs: Runs, tmp_path: Path) -> None:
    text = caption("depth-map", [runs["prenorm"]], tmp_path, "text")
    assert r"\begin{figure*}" in text
    assert "width=6.75in" in text


def test_names_are_escaped() -> None:
    assert escaped("a_b & 50 % of $x$ #1 {c} ~ ^ \\") == (
        r"a\_b \& 50 \% of \$x\$ \#1 \{c\} \textasciitilde{} \textasciicircum{} \textbackslash{}"
    )


@pytest.mark.parametrize(
    ("formula", "expected"),
    [
        ("rms(f_l)", r"$\operatorname{rms}(f_{l})$"),
        ("mean_t ||f_l|| / ||h_l||", r"$\operatorname{mean}_{t} \lVert f_{l}\rVert / \lVert h_{l}\rVert$"),
        ("N rms(dL/ds_l)", r"$N \operatorname{rms}(\partial L / \partial s_{l})$"),
        ("max |s_l|", r"$\max \lvert s_{l}\rvert$"),
        ("write_rms grad_write_rms", r"write\_rms grad\_write\_rms"),
        (
            QUANTITIES["fresh_share"].formula,
            (
                r"$\operatorname{mean}_{t} \langle c_{l\to l+1}, h_{l+1}\rangle / \lVert h_{l+1}\rVert^{2}$, "
                r"c the part of $h_{l+1}$ that is $f_{l}$"
            ),
        ),
    ],
)
def test_formulas_become_mathematics_or_stay_text(formula: str, expected: str) -> None:
    assert mathematics(formula) == expected


@pytest.mark.parametrize("name", QUANTITIES)
def test_every_formula_of_the_catalogue_has_balanced_latex(name: str) -> None:
    text = mathematics(QUANTITIES[name].formula)
    assert text.count("{") - text.count(r"\{") == text.count("}") - text.count(r"\}")
    assert text.count("$") % 2 == 0
    assert text.count(r"\lVert") == text.count(r"\rVert")
    outside = "".join(text.split("$")[::2])
    assert "_" not in outside.replace(r"\_", "")


def test_effects_say_how_they_were_measured_and_keep_apart_from_weights(runs: Runs, tmp_path: Path) -> None:
    text = caption("effects", [runs["attention"]], tmp_path)
    assert "positive where the cut hurts" in text
    assert "Renormalise: the other weights are scaled to sum to 1." in text
    assert "Where a mix feeds only an RMSNorm, zero and renormalise agree" in text
    assert "Wide, no cost seen: among the tenth" in text
    assert "attention: renormalise, step 200, 2 batches; rank correlation over the" in text
    assert "pairs of reads with 2 sources or more, at distance 2 or more" in text
    assert "Weights describe routing; only an intervention shows an effect." in text
    assert "importan" not in text


def test_lenses_have_letters_definitions_and_the_step_they_looked_at(runs: Runs, tmp_path: Path) -> None:
    text = caption("lens", [runs["attention"]], tmp_path)
    assert "(a) Logit lens: the state at a depth takes the place of the final read" in text
    assert "(e) " in text
    assert "arXiv 1905.00414" in text
    assert "Step 200, 2 batches." in text
