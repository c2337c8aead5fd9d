"""Runs recorded from real models on the Mixing page: what it says of four designs is what these designs do."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import depthscope
from depthscope.models import DecoderConfig
from depthscope.training import build_decoder
from tests.app.conftest import Serve
from tests.app.page import AppPage

pytestmark = pytest.mark.browser
DESIGNS = {
    "prenorm": "prenorm",
    "block": "block-attnres:S=2",
    "hires": "hires:n=2,B=2",
    "mhc": "mhc",
}
CONFIG = DecoderConfig(vocabulary=32, width=16, heads=2, layers=8, context=16)


@pytest.fixture(scope="module")
def designs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four designs after three steps of plain descent, each recorded at every step."""
    folder = tmp_path_factory.mktemp("designs")
    for name, design in DESIGNS.items():
        model = build_decoder(design, CONFIG, seed=0)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.3)
        tokens = torch.randint(0, 32, (4, 17), generator=torch.Generator().manual_seed(1))
        with depthscope.Recorder(
            model, folder / name, optimizer=optimizer, every={"fast": 1, "slow": 1}
        ) as recorder:
            for _ in range(4):
                loss = F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
                recorder.step(loss=loss)
    return folder


def whole(page: AppPage, panel: str, run: str) -> np.ndarray:
    parts = [page.drawn(panel, run, strip) for strip in ("embedding", "sublayers", "constant")]
    return np.concatenate(parts, axis=1)


def test_four_designs_recorded_from_models_stand_side_by_side(
    page: AppPage, designs: Path, serve: Serve
) -> None:
    place = serve(designs)
    page.open(f"{place}mixing")
    reads = np.tril(np.ones((9, 9), bool))
    for number, design in enumerate(DESIGNS, start=1):
        shares = whole(page, f"mixing-{number}", design)
        np.testing.assert_allclose(np.nansum(shares, axis=1), np.ones(9), atol=1e-5)
        np.testing.assert_array_equal(np.isfinite(shares[:, :9]), reads)
        assert page.page.locator(f"#warning-mixing-{number}").inner_text() == "", (
            "complete, and nothing cancels"
        )
    page.page.get_by_role("button", name="Coefficient").click()
    page.settle()
    plain = whole(page, "mixing-1", "prenorm")
    np.testing.assert_allclose(plain[:, :9][reads], np.ones(45), atol=1e-5)
    block = whole(page, "mixing-2", "block")
    weights = depthscope.open(designs / "block").read("depth_attention", 3, 4).values[0]
    np.testing.assert_allclose(block[8, 0], weights[8, 0], atol=2e-3)
    np.testing.assert_allclose(block[8, 1:9], np.repeat(weights[8, 1:], 2), atol=2e-3)
    matrices = whole(page, "mixing-3", "hires")
    assert np.isnan(matrices[8]).all(), "the final read is a matrix away from every origin"
    np.testing.assert_allclose(matrices[3, 1:4], np.ones(3), atol=1e-5)
    assert np.isfinite(whole(page, "mixing-4", "mhc")[:, :9][reads]).all()
