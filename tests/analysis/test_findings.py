"""Findings of whole runs, written and read through the store."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from depthscope.analysis import RULES, findings, list_skip_paths, undecided
from depthscope.store import Run
from tests.analysis.synthetic_runs import LAYERS, WriteRun, block_layout, prenorm_layout, uniform_attention

FORBIDDEN = ("important", "importance", "strongest path", "reset score", "survives", "more uniform")


def kinds(run: Run) -> list[str]:
    return [finding.kind for finding in findings(run)]


def prenorm_values(records: int = 20) -> dict[str, np.ndarray]:
    """A stream that grows as sqrt(l + 1) with equal uncorrelated writes of size 1 on an embedding of size 1."""
    layer = np.arange(1, LAYERS + 1)
    state = np.sqrt(layer + 1.0)
    row = {
        "state_rms": state,
        "state_logrms": np.log(state),
        "write_rms": np.ones(LAYERS),
        "write_logrms": np.zeros(LAYERS),
        "read_rms": np.sqrt(layer),
        "fresh_share": 1 / (layer + 1),
        "grad_write_rms": 1 / state,
        "write_ratio": 1 / np.sqrt(layer),
        "nonfinite": np.zeros(LAYERS),
        "embedding_rms": np.array(1.0),
    }
    return {name: np.stack([value] * records) for name, value in row.items()}


def block_values(records: int = 20) -> dict[str, np.ndarray]:
    """Writes of size 1 that add up uncorrelated in blocks of four, so sums of sqrt(1..4)."""
    layout = block_layout()
    state = np.sqrt(np.tile(np.arange(1.0, 5.0), 2))
    row = {
        "state_rms": state,
        "write_rms": np.ones(LAYERS),
        "read_rms": np.ones(LAYERS),
        "depth_attention": uniform_attention(layout),
        "depth_contribution": uniform_attention(layout),
        "query_norm": np.ones(LAYERS + 1),
        "mixer_grad_norm": np.ones(LAYERS),
    }
    values = {name: np.stack([value] * records) for name, value in row.items()}
    values["query_norm"] = np.linspace(0, 1, records)[:, None] * np.ones(LAYERS + 1)
    return values


def test_prenorm_growth_dilution_and_uniformity(write_run: WriteRun) -> None:
    run = write_run("prenorm", prenorm_layout(), prenorm_values())
    growth, dilution, uniformity = findings(run)
    assert growth.kind == "state_growth"
    assert growth.sentence == "prenorm: state rms grows 1.7× from first to last transformer block."
    assert growth.values["exponent"] == pytest.approx(0.5, rel=1e-6)
    assert growth.values["per_doubling"] == pytest.approx(np.sqrt(2), rel=1e-6)
    assert (growth.step, growth.page, growth.quantity) == (190, "depth", "state_rms")
    assert "first transformer block is left out" in growth.detail

    assert dilution.kind == "dilution"
    assert dilution.values["first_quarter"] == pytest.approx((1 / 2 + 1 / 3) / 2)
    assert dilution.values["last_quarter"] == pytest.approx((1 / 8 + 1 / 9) / 2)
    assert dilution.values["records"] == 2
    assert dilution.text.startswith("the newest write's share of the next read falls from 0.42 to 0.12,")

    # Last states of the four blocks: 1/sqrt(3, 5, 7, 9), times writes of 1.
    assert uniformity.kind == "gradient_uniformity"
    assert uniformity.values["ratio"] == pytest.approx(np.sqrt(3))
    assert uniformity.values["relative_ratio"] == pytest.approx(np.sqrt(3))
    assert all(finding.severity == "info" for finding in (growth, dilution, uniformity))


def test_block_sums_come_first_and_growth_is_not_asked(write_run: WriteRun) -> None:
    run = write_run("block-attnres", block_layout(), block_values())
    first, second = findings(run)
    assert first.sentence == "block-attnres: rms of its block sums stays within 2.0."
    assert second.kind == "block_boundary"
    assert second.values["reset_ratio"] == pytest.approx(np.sqrt(4 / 2))
    assert second.values["construction_ratio"] == pytest.approx(np.sqrt(4 / 2))
    assert second.values["reset_over_construction"] == pytest.approx(1.0)
    assert second.values["read_change"] == pytest.approx(1.0)
    assert second.values["periodicity"] == pytest.approx(1.0)
    assert "The sum restarts by design" in second.detail
    reason = undecided(run)
    assert reason["state_growth"] == "the design has no single accumulated stream"
    assert reason["dilution"] == "fresh_share is not recorded"


def test_block_sums_that_grow_say_from_where_to_where(write_run: WriteRun) -> None:
    values = block_values()
    values["state_rms"] = values["state_rms"] * np.repeat([1.0, 3.0], 4)
    first = findings(write_run("grown", block_layout(), values))[0]
    assert (
        first.text
        == "rms of its block sums goes from 2.0 in the first block to 6.0 in the last, within 2.0–6.0."
    )


def test_a_skip_path_and_a_weight_only_path_are_told_apart(write_run: WriteRun) -> None:
    layout = block_layout(16, 4)
    weight = np.stack([uniform_attention(layout)] * 20)
    contribution = weight.copy()
    weight[5:, 13, :] = [0.44 + 0.2, 0.12, 0.12, 0.06, 0.06]
    contribution[:, 13, 0] = 0.01
    weight[:, 16, :] = [0.1, 0.1, 0.6, 0.1, 0.1]
    contribution[:, 16, 2] = 0.7
    values = {"depth_attention": weight, "depth_contribution": contribution}
    run = write_run("block-attnres", layout, values)
    carries, only = [finding for finding in findings(run) if finding.kind == "skip_path"]
    assert carries.text == (
        "the final read gives block 2 a weight of 0.60 at step 190 (mean of the last 2 records 0.60), 70 % of its "
        "read."
    )
    assert only.sentence == (
        "block-attnres: sublayer 14 gives the embedding a weight of 0.64 at step 190 (mean of the last 2 records "
        "0.64), yet only 1 % of its read."
    )
    assert only.values["first_step"] == 50
    assert only.values["weight_only"] is True
    assert only.values["others"] == 0
    assert "only an intervention shows an effect" in only.detail
    assert [path.target_name for path in list_skip_paths(run)] == ["layers.13", "output"]


def test_sentences_give_the_values_of_their_own_step(write_run: WriteRun) -> None:
    """What the view behind a sentence shows at its step; a mean of several records is called one."""
    values = {**prenorm_values(), "abs_max": np.full((20, LAYERS), 5.0)}
    said = [finding.text for finding in findings(write_run("steady", prenorm_layout(), values))]
    factor = np.linspace(5.0, 1.0, 20)
    changed = {
        name: rows if name == "nonfinite" else rows * factor.reshape(-1, *(1,) * (rows.ndim - 1))
        for name, rows in values.items()
    }
    changed["state_rms"][:-1] *= np.linspace(1, 3, LAYERS)
    run = write_run("settling", prenorm_layout(), changed)
    assert [finding.text for finding in findings(run)] == said
    assert {finding.step for finding in findings(run)} == {190}


def test_an_earlier_step_is_read_as_if_nothing_came_later(write_run: WriteRun) -> None:
    values = prenorm_values()
    values["state_rms"][10:] *= np.arange(1.0, 9.0)
    run = write_run("prenorm", prenorm_layout(), values)
    late, early = findings(run)[0], findings(run, step=95)[0]
    assert late.values["ratio"] == pytest.approx(4 * np.sqrt(3))
    assert early.values["ratio"] == pytest.approx(np.sqrt(3))
    assert early.step == 90
    assert findings(run, step=-1) == []


def test_a_baseline_is_compared_at_the_newest_step_that_both_have(write_run: WriteRun) -> None:
    run = write_run("deep", prenorm_layout(), prenorm_values(20))
    baseline_values = prenorm_values(10)
    baseline_values["state_rms"] = baseline_values["state_rms"] ** 2
    growth = findings(run, write_run("base", prenorm_layout(), baseline_values))[0]
    assert growth.step == 90
    assert growth.baseline_name == "base"
    assert growth.baseline_values["ratio"] == pytest.approx(3.0)
    assert growth.detail.endswith(
        "Baseline base at step 90: State rms grows 3.0× from first to last transformer block."
    )


def test_raw_gradients_are_never_set_beside_a_baselines(write_run: WriteRun) -> None:
    run = write_run("one", prenorm_layout(), prenorm_values())
    other = write_run("other", prenorm_layout(), prenorm_values())
    (found,) = [finding for finding in findings(run, other) if finding.kind == "gradient_uniformity"]
    assert set(found.baseline_values) == {"relative_ratio", "relative_variation"}
    assert "Baseline" not in found.detail


def test_a_run_without_blocks_is_the_control_of_one_with_blocks(write_run: WriteRun) -> None:
    block = write_run("block-attnres", block_layout(), block_values())
    control = write_run("prenorm", prenorm_layout(), prenorm_values())
    found = {finding.kind: finding for finding in findings(block, control)}["block_control"]
    assert found.values["uncorrelated"] == pytest.approx((2.0, 2.0))
    assert found.values["at_least"] == pytest.approx((np.sqrt(5) - 1, 3 - np.sqrt(5)))
    assert found.text.startswith(
        "control prenorm, without blocks: the writes of the same 2 blocks add up to 2.0 if uncorrelated"
    )
    assert found.baseline_name == "prenorm"
    assert "block_control" not in {finding.kind for finding in findings(control, block)}


def test_dead_queries_warn_before_anything_else(write_run: WriteRun) -> None:
    values = block_values()
    values["query_norm"][:, 8] = 0.0
    values["mixer_grad_norm"][:, 2] = 0.0
    first = findings(write_run("dead", block_layout(), values))[0]
    assert (first.kind, first.severity) == ("dead_query", "warning")
    assert first.values["targets"] == (3.0, 9.0)
    assert first.text == "the depth queries of 2 of 8 mixers do not train."


def test_a_query_is_not_dead_before_a_tenth_of_the_planned_steps(write_run: WriteRun) -> None:
    values = block_values(3)
    values["query_norm"][:] = 0.0
    early = write_run("early", block_layout(), values, config={"steps": 300})
    assert "dead_query" not in kinds(early)
    late = write_run("late", block_layout(), values, config={"steps": 200})
    assert kinds(late)[0] == "dead_query"


def test_non_finite_states_and_losses_are_the_first_warning(write_run: WriteRun) -> None:
    values = prenorm_values()
    values["nonfinite"][7:, 4:] = 3
    values["loss"] = np.where(np.arange(20) < 8, 2.0, np.nan)
    for name in ("state_rms", "state_logrms", "read_rms"):
        values[name][7:, 4:] = np.nan
    found = findings(write_run("broken", prenorm_layout(), values))
    assert [finding.severity for finding in found[:2]] == ["warning", "warning"]
    assert found[0].text == (
        "NaN or infinity in the state of sublayers 5, 6, 7 and 8 at step 70, still so at step 190."
    )
    assert found[1].text == "training loss is NaN or infinite at step 80."
    assert "state_growth" not in [finding.kind for finding in found]


def test_massive_activations_need_the_median_and_are_never_guessed(write_run: WriteRun) -> None:
    values = prenorm_values()
    values["abs_max"] = np.tile(np.where(np.arange(LAYERS) == 3, 250.0, 5.0), (20, 1))
    without = write_run("without", prenorm_layout(), values)
    assert "massive_activation" not in kinds(without)
    assert undecided(without)["massive_activation"] == "abs_median is not recorded"
    values["abs_median"] = np.full((20, LAYERS), 0.2)
    (found,) = [
        entry
        for entry in findings(write_run("with", prenorm_layout(), values))
        if entry.kind == "massive_activation"
    ]
    assert found.text == (
        "massive activations in sublayer 4: up to 250 at sublayer 4, more than 1000 times the median entry."
    )


def test_one_massive_token_is_a_gap_to_the_typical_token(write_run: WriteRun) -> None:
    values = prenorm_values()
    values["state_rms"][:, 5] *= 3.0
    found = {finding.kind: finding for finding in findings(write_run("gap", prenorm_layout(), values))}[
        "token_gap"
    ]
    assert found.text == (
        "rms of the state is up to 3.0× its typical token (sublayer 6): a few large tokens set it in sublayer 6."
    )


def test_gains_beyond_ten_and_a_tenth_come_last(write_run: WriteRun) -> None:
    values = prenorm_values()
    values["write_ratio"][:, 0] = 20.0
    values["write_ratio"][:, 6:] = [0.05, 0.09]
    high, low = findings(write_run("gain", prenorm_layout(), values))[-2:]
    assert high.text == "write over read is 20 in sublayer 1."
    assert low.text == "write over read is below 0.1 in sublayers 7 and 8, the furthest 0.050 at sublayer 7."


def test_a_write_to_several_streams_is_not_set_against_the_narrower_read(write_run: WriteRun) -> None:
    values = prenorm_values()
    values["write_ratio"][:, 6:] = [0.05, 20.0]
    values["gain_forward"] = np.full((20, LAYERS), 12.0)
    streams = replace(prenorm_layout(), streams=4)
    (only,) = [entry for entry in findings(write_run("streams", streams, values)) if entry.kind == "gain"]
    assert only.text == (
        "forward gain of the stream mixing is above 10 in 8 sublayers, the furthest 12 at sublayer 1."
    )


def test_an_attention_sink_is_named_with_its_contribution(write_run: WriteRun) -> None:
    layout = block_layout(20, 2)
    weight = np.stack([uniform_attention(layout)] * 20)
    for target, columns in enumerate(layout.sources):
        if len(columns) >= 4:
            weight[-1, target, list(columns)] = 0.2 / (len(columns) - 1)
            weight[-1, target, 0] = 0.8
    values = {"depth_attention": weight, "depth_contribution": weight * 0.5}
    (sink,) = [
        finding for finding in findings(write_run("sink", layout, values)) if finding.kind == "attention_sink"
    ]
    assert sink.text == (
        "over 16 targets the embedding has 6.0 times its uniform weight at step 190 and is 40 % of what they read."
    )


def test_reads_whose_shares_cancel_are_counted_with_the_worst_named(write_run: WriteRun) -> None:
    layout = replace(prenorm_layout(), mixing=(True,) * 9)
    size = np.ones((3, 9))
    size[:, 4] = [5.0, 2.0, 2.4]
    size[:, 8] = [1.0, 1.0, 3.1]
    (found,) = findings(write_run("two", layout, {"mixing_cancellation": size}))
    assert (found.kind, found.page, found.step) == ("cancellation", "mixing", 20)
    assert found.text == (
        "the shares of 2 of 9 reads are large terms that cancel: their sizes sum to 2.4–3.1, "
        "most in the final read, at step 20."
    )
    (one,) = findings(write_run("one", layout, {"mixing_cancellation": size[:1]}))
    assert (
        one.text == "the shares of sublayer 5 are large terms that cancel: their sizes sum to 5.0, at step 0."
    )
    assert findings(write_run("none", layout, {"mixing_cancellation": size[:2]})) == [], "2.0 is not past 2"


def test_a_reason_given_by_the_recorder_is_passed_on(write_run: WriteRun) -> None:
    values = {"loss": np.ones(3)}
    run = write_run(
        "bare", prenorm_layout(), values, missing={"state_rms": "the residual-write solve failed"}
    )
    assert findings(run) == []
    assert undecided(run)["state_growth"] == "state_rms is not recorded: the residual-write solve failed"


def test_a_run_without_rows_has_no_findings(write_run: WriteRun) -> None:
    run = write_run("empty", prenorm_layout(), {"state_rms": np.empty((0, LAYERS))})
    assert findings(run) == []
    assert set(undecided(run)) == {rule.kind for rule in RULES}


@pytest.mark.parametrize("dropped", sorted({*prenorm_values(1), *block_values(1)}))
def test_any_quantity_may_be_lacking(write_run: WriteRun, dropped: str) -> None:
    for layout, values in ((prenorm_layout(), prenorm_values(3)), (block_layout(), block_values(3))):
        values.pop(dropped, None)
        findings(write_run(layout.design.partition(":")[0], layout, values))


def test_sentences_are_one_line_and_avoid_the_words_the_product_never_uses(write_run: WriteRun) -> None:
    values = prenorm_values()
    values["state_rms"][:, 5] *= 3.0
    values["write_ratio"][:, 0] = 20.0
    runs = [
        write_run("prenorm", prenorm_layout(), values),
        write_run("block", block_layout(), block_values()),
    ]
    told = [finding for run in runs for finding in findings(run, runs[0])]
    assert len(told) > 6
    for finding in told:
        assert "\n" not in finding.sentence
        assert finding.sentence.endswith(".")
        assert len(finding.text) <= 120 or finding.page != "depth", "wider than the app's findings line"
        text = f"{finding.sentence} {finding.detail}".lower()
        assert not any(word in text for word in FORBIDDEN)
        if finding.kind == "state_growth":
            assert "dilution" not in text
        assert not re.search(r"\d\.\d{4,}", text), "at most three significant digits"


def test_analysis_loads_neither_torch_nor_a_plotting_library() -> None:
    code = (
        "import sys, depthscope.analysis\n"
        "print([name for name in ('torch', 'plotly', 'dash', 'matplotlib') if name in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
