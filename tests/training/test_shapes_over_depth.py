"""The demo shows over depth what the designs are known for, already early in training."""

from __future__ import annotations

import io

import numpy as np
import pytest
from rich.console import Console

from depthscope.store import open_run
from depthscope.training import DemoOptions, run_demo


def rank_correlation(values):
    """Spearman's correlation of a curve with its own order."""
    return np.corrcoef(np.arange(len(values)), np.argsort(np.argsort(values)))[0, 1]


def last_states(root, **options):
    options = DemoOptions(out=root, serve=False, device="cpu", **options)
    assert run_demo(options, Console(file=io.StringIO())) == 0
    return {path.name: open_run(path)["state_rms"].values[-1] for path in root.iterdir()}


def assert_known_shapes(states):
    assert rank_correlation(states["prenorm"]) >= 0.95
    assert states["prenorm"][-1] > 2 * states["prenorm"][0]
    blocks = states["block-attnres"].reshape(4, 6)
    assert (blocks[:, -1] > 1.5 * blocks[:, 0]).all()
    # The sum restarts at every block: each first sublayer lies well below the end of the block before it.
    assert (blocks[1:, 0] < 0.6 * blocks[:-1, -1]).all()


def test_prenorm_grows_and_block_attnres_restarts_after_twenty_steps(tmp_path):
    assert_known_shapes(
        last_states(tmp_path / "runs", designs=("prenorm", "block-attnres"), steps=20, batch=4)
    )


@pytest.mark.soak
@pytest.mark.parametrize("seed", [0, 1])
def test_the_default_demo_ends_with_the_known_shapes(tmp_path, seed):
    assert_known_shapes(last_states(tmp_path / "runs", seed=seed))
