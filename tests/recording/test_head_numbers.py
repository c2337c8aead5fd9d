"""Depth mixers with several heads: every recorded number equals an fp64 computation head by head."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from depthscope.recording import Recorder
from depthscope.store import open_run
from tests.recording.loops import BATCH, LAYERS, TIME, WIDTH, build
from tests.recording.reference import tokens
from tests.recording.rows import record_one, spy_on_rows, trained

HEADS, TARGETS, SOURCES = 4, LAYERS + 1, 4
DESIGN = f"block-attnres:S=3,heads={HEADS}"


class Recorded:
    def __init__(self, way: str, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        torch._dynamo.reset()
        rows = spy_on_rows(monkeypatch)
        model: Any
        model, inputs, targets = trained(build(DESIGN))
        generator = torch.Generator().manual_seed(8)
        with torch.no_grad():
            for mixer in model.residual.mix:
                mixer.query.add_(0.5 * torch.randn(mixer.query.shape, generator=generator))
        mask = torch.ones(BATCH, TIME, dtype=torch.bool)
        if way == "mask":
            mask[0, 6:] = False
            targets = targets.masked_fill(~mask, -100)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
            every = {"fast": 1, "slow": 1}
            with Recorder(model, path, optimizer=optimizer, every=every, probe_batch=inputs) as recorder:
                with recorder.tokens(mask):
                    logits = model(inputs)
                nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten()).backward()
                optimizer.step()
                recorder.step()
        else:
            record_one(model, inputs, targets, path, compiled=way == "compiled")
        self.row, self.run = rows["slow"][0], open_run(path)
        counted = mask.reshape(-1).numpy()
        self.alphas, self.shares = by_hand(model.double(), inputs)
        """Of each target over sources, tokens and heads; shares over sources and tokens."""
        self.counted = np.flatnonzero(counted)


def by_hand(model: Any, inputs: torch.Tensor) -> tuple[list[np.ndarray], list[np.ndarray]]:
    taken: list[Any] = []
    handles = [
        mixer.register_forward_hook(lambda module, args, read: taken.append((module, args[0])))
        for mixer in model.residual.mix
    ]
    with torch.no_grad():
        model(inputs)
    for handle in handles:
        handle.remove()
    alphas, shares = [], []
    for mixer, sources in taken:
        query, gain = mixer.query.detach().numpy(), mixer.key_norm.weight.detach().numpy()
        alpha = np.empty((len(sources), BATCH * TIME, HEADS))
        share = np.empty((len(sources), BATCH * TIME))
        vectors = [tokens(source) for source in sources]
        for t in range(BATCH * TIME):
            values = np.array([held[t] for held in vectors])
            products = values / np.sqrt((values**2).mean(axis=1, keepdims=True) + 1e-6) * gain * query
            logits = products.reshape(len(sources), HEADS, -1).sum(axis=2)
            alpha[:, t] = np.exp(logits) / np.exp(logits).sum(axis=0)
            weighed = np.repeat(alpha[:, t], WIDTH // HEADS, axis=1) * values
            read = weighed.sum(axis=0)
            share[:, t] = weighed @ read / (read @ read)
        alphas.append(alpha)
        shares.append(share)
    return alphas, shares


@pytest.fixture(scope="module", params=["eager", "compiled", "mask"])
def recorded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    with pytest.MonkeyPatch.context() as monkeypatch:
        yield Recorded(request.param, tmp_path_factory.mktemp("heads") / "run", monkeypatch)


def laid_out(recorded: Recorded, values: list[np.ndarray], *more: int) -> np.ndarray:
    """[sources, ...] of each target on the whole source axis, NaN where it can't read."""
    whole = np.full((TARGETS, SOURCES, *more), np.nan)
    for target, (value, columns) in enumerate(zip(values, recorded.run.layout.sources, strict=True)):
        whole[target, list(columns)] = value
    return whole


def test_weights_of_each_head_and_their_mean(recorded: Recorded) -> None:
    alphas = [alpha[:, recorded.counted] for alpha in recorded.alphas]
    by_head = laid_out(recorded, [alpha.mean(axis=1) for alpha in alphas], HEADS)
    np.testing.assert_allclose(recorded.row["depth_attention_by_head"], by_head, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(recorded.row["depth_attention"], by_head.mean(-1), rtol=1e-4, atol=1e-6)
    # Heads differ, or their mean would say nothing.
    assert np.nanmax(by_head.std(-1)) > 0.02
    largest = [alpha.max(axis=0).mean() for alpha in alphas]
    np.testing.assert_allclose(recorded.row["depth_attention_max"], largest, rtol=1e-4)
    entropy = [-(a * np.log(a)).sum(0).mean() / math.log(len(a)) if len(a) > 1 else np.nan for a in alphas]
    np.testing.assert_allclose(recorded.row["depth_attention_entropy"], entropy, rtol=1e-4)


def test_a_share_is_one_of_the_whole_read(recorded: Recorded) -> None:
    shares = laid_out(recorded, [share[:, recorded.counted].mean(axis=1) for share in recorded.shares])
    np.testing.assert_allclose(recorded.row["depth_contribution"], shares, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(np.nansum(recorded.row["depth_contribution"], axis=1), 1, rtol=1e-5)


def test_single_tokens_have_the_mean_of_their_heads(recorded: Recorded) -> None:
    if "probe/depth_attention_by_token" not in recorded.run:
        return
    found = recorded.run["probe/depth_attention_by_token"].values[0]
    wanted = laid_out(recorded, [alpha.mean(axis=2) for alpha in recorded.alphas], BATCH * TIME)
    np.testing.assert_allclose(found, wanted, rtol=2e-3, atol=1e-3)
    found = recorded.run["probe/depth_contribution_by_token"].values[0]
    np.testing.assert_allclose(found, laid_out(recorded, recorded.shares, BATCH * TIME), rtol=2e-3, atol=2e-3)


def test_mixers_with_heads_have_gradient_norms_and_dims_of_their_own(recorded: Recorded) -> None:
    assert np.isfinite(recorded.run["mixer_grad_norm"].values[0]).all()
    assert recorded.run["depth_attention_by_head"].dims == ("step", "target", "source", "head")
    assert recorded.run["depth_attention_by_head"]["head"].values.tolist() == [1, 2, 3, 4]
    assert not {reason for reason in recorded.run.missing.values() if "withdrawn" in reason}
