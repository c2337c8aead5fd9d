"""From a demo's checkpoint to what the pages show: effects beside weights, and lenses for every kind of design."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from depthscope.app.causal_command import CHECKPOINTS
from depthscope.cli import main
from depthscope.figures import LENS_SHOWS, EffectsOptions, LensOptions, LensShow, effects_data, lens_data
from depthscope.store import open_run
from depthscope.training import DemoOptions, run_demo
from depthscope.training.checkpoint import FOLDER

DESIGNS = ("block-attnres:S=2", "prenorm", "hires:n=2,B=2")
NAMES = ("block-attnres-S2", "prenorm", "hires-n2-B2")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("demo") / "runs"
    options = DemoOptions(
        designs=DESIGNS,
        steps=3,
        width=16,
        layers=4,
        context=16,
        batch=2,
        device="cpu",
        serve=False,
        out=root,
        every_slow=1,
        checkpoint_every=3,
    )
    assert run_demo(options, Console(file=io.StringIO())) == 0
    return root


def test_zero_and_renormalise_agree_before_the_norm_and_the_figure_says_so(runs: Path) -> None:
    path = runs / "block-attnres-S2"
    for mode in ("renormalise", "zero"):
        assert main(["causal", str(path), "--mode", mode, "--batches", "2"]) == 0
    run = open_run(path)
    array = effects_data([run], EffectsOptions()).arrays[run.id]
    assert array.attrs["mode"] == "renormalise"
    assert "zero and renormalise agree" in array.attrs["note"]
    # Each mix feeds an RMSNorm: they differ by its eps over the mean square of the read, and by rounding.
    assert array.attrs["largest_difference"] < 1e-4
    assert float(np.nanmax(np.abs(array.values))) > 10 * array.attrs["largest_difference"]
    assert np.isfinite(array["weight"].values[array["reachable"].values]).all()
    assert CHECKPOINTS == FOLDER, "the page knows where a demo keeps its weights"


@pytest.mark.parametrize("name", NAMES)
def test_a_lens_of_every_kind_of_design_is_shown_in_the_order_of_depth(runs: Path, name: str) -> None:
    path = runs / name
    assert main(["causal", str(path), "--kind", "lens", "--batches", "2"]) == 0
    run = open_run(path)

    def only(show: LensShow) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
        data = lens_data([run], LensOptions(show=show))
        assert data.absent == {}
        values: np.ndarray[tuple[int, ...], np.dtype[np.float64]] = data.arrays[run.id].values
        return values

    for show in LENS_SHOWS:
        assert np.isfinite(only(show)).all()
    assert only("kl")[-1] == 0
    assert only("agreement")[-1] == 1
    parts = lens_data([run], LensOptions(show="attribution")).arrays[run.id]
    assert parts["x"].values.tolist() == sorted(set(parts["x"].values.tolist())), (
        "each source has a place of its own"
    )
    assert (parts["x"].values[0], parts["x"].values[-1]) == (0, run.layout.layers + 1)
