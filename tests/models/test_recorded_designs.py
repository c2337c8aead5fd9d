"""A recorder on any design records the write, state and read that the definitions mean."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from depthscope.recording import Recorder
from depthscope.store import open_run
from tests.models.every import EVERY, every_design

BLOCKS = ("full-attnres", "block-attnres")
ONE_TENSOR = (
    "prenorm", "postnorm", "peri-ln", "lns", "rezero", "layerscale", "highway", "deepnorm",
    "hc", "mhc", "vwn", "altup",
)  # fmt: skip
FIRST = ("denseformer", "delta-attnres")


def state_of(name, state):
    """s_l in what a design carries from layer to layer."""
    if name in ONE_TENSOR:
        return state
    if name in FIRST:
        return state[0]
    if name in BLOCKS:
        return state[-1]
    if name == "two-phase-attnres":
        finished, partial, _ = state
        return partial[0] if partial else finished[-1]
    assert name == "hires"
    return state[1]


def by_hand(model, tokens):
    """h, f and s of every sublayer from the protocol's own calls; None where no module shows a state."""
    residual = model.residual
    name = residual.name
    rows = []
    with torch.no_grad():
        state = residual.begin(model.embedding(tokens))
        for index, layer in enumerate(model.layers):
            h = residual.read(state, index)
            output = layer.sublayer(layer.norm(h))
            after = residual.write(state, index, output)
            if name in ("peri-ln", "rezero", "layerscale", "highway", "hc", "mhc", "vwn", "altup"):
                # Weights depend on the state only, so what an output adds is what 0 would not have.
                f = after - residual.write(state, index, torch.zeros_like(output))
            else:
                f = output
            s = state_of(name, after)
            if name == "hires" and residual.blocks.finishes(index):
                s = None if residual.block_output == "increment" else state[1] + output
            rows.append((h, f, s))
            state = after
    return rows


def rms(tensor):
    return math.nan if tensor is None else tensor.double().square().mean().sqrt().item()


def logrms(tensor):
    if tensor is None:
        return math.nan
    return tensor.double().square().mean(-1).sqrt().log().mean().item()


@every_design
def test_three_recorded_steps_hold_what_passed(build, tokens, tmp_path, design):
    model = build(design, jitter=0.1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    expected = []
    with Recorder(model, tmp_path / "run", optimizer=optimizer, every={"fast": 1, "slow": 1}) as recorder:
        for _ in range(3):
            expected.append(by_hand(model, tokens))
            logits = model(tokens)
            loss = F.cross_entropy(logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            recorder.step(loss=loss)
    run = open_run(tmp_path / "run")
    assert run.layout.design == model.residual.design
    for step, rows in enumerate(expected):
        for place, tensor in enumerate(("read", "write", "state")):
            whole = [rms(row[place]) for row in rows]
            typical = [logrms(row[place]) for row in rows]
            recorded = {name: run[f"{tensor}_{name}"].values[step] for name in ("rms", "logrms")}
            np.testing.assert_allclose(recorded["rms"], whole, rtol=2e-3, err_msg=f"{tensor} {step}")
            np.testing.assert_allclose(recorded["logrms"], typical, atol=2e-3, err_msg=f"{tensor} {step}")
        ratio = [(f.norm(dim=-1) / h.norm(dim=-1)).mean().item() for h, f, _ in rows]
        np.testing.assert_allclose(run["write_ratio"].values[step], ratio, rtol=2e-3)
        largest = [math.nan if s is None else s.abs().max().item() for _, _, s in rows]
        np.testing.assert_allclose(run["abs_max"].values[step], largest, rtol=2e-3)
    assert np.isfinite(run["grad_write_rms"].values).all()
    assert np.isfinite(run["grad_read_rms"].values).all()
    for place, sublayer in enumerate(model.describe_depth().sublayers):
        h, f, s = expected[0][place]
        if sublayer.additive and s is not None:
            assert torch.allclose(s, h + f, rtol=1e-5, atol=1e-5)
        if sublayer.fresh == "state" and place + 1 < len(expected[0]):
            assert torch.allclose(expected[0][place + 1][0], h + f, rtol=1e-5, atol=1e-5)
    assert not {reason for reason in run.missing.values() if "withdrawn" in reason}


@pytest.mark.parametrize(
    ("layers", "design"),
    [(2, "hc:n=2,dynamic=yes"), *(pytest.param(8, design, marks=pytest.mark.soak) for design in EVERY)],
)
def test_a_compiled_design_is_recorded_as_an_eager_one(build, config, tokens, tmp_path, layers, design):
    """What compiled code cannot show is absent; what is there is what eager code gives."""
    torch.compiler.reset()
    config = dataclasses.replace(config, layers=layers)
    plain, compiled = (
        recorded(build(design, jitter=0.1, config=config), tokens, tmp_path / way, compiled=way == "compiled")
        for way in ("plain", "compiled")
    )
    names = [
        "write_rms",
        "read_rms",
        "state_rms",
        "write_ratio",
        "grad_write_rms",
        "grad_read_rms",
        "abs_max",
    ]
    names += ["depth_attention", "depth_contribution"] if plain.layout.sources else []
    for name in names:
        np.testing.assert_allclose(
            compiled[name].values, plain[name].values, rtol=5e-3, atol=1e-6, err_msg=name
        )


def recorded(model, tokens, path, *, compiled):
    """Two recorded steps of SGD."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    if compiled:
        model.compile(backend="aot_eager", fullgraph=True)
    with Recorder(model, path, optimizer=optimizer, every={"fast": 1, "slow": 1}) as recorder:
        for _ in range(2):
            loss = F.cross_entropy(model(tokens)[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            recorder.step(loss=loss)
    return open_run(path)


WIDE = ["hc:n=4,dynamic=no", "mhc:n=2", "vwn:m=2,n=3,dynamic=yes", "altup:K=2"]


@pytest.mark.parametrize("design", WIDE)
def test_a_write_to_several_streams_has_no_angle_with_the_read_and_says_so(build, tokens, tmp_path, design):
    model = build(design, jitter=0.1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    with Recorder(model, tmp_path / "run", optimizer=optimizer) as recorder:
        loss = F.cross_entropy(model(tokens)[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        recorder.step(loss=loss)
    run = open_run(tmp_path / "run")
    assert np.isnan(run["write_cosine"].values).all()
    assert "wider than the read" in run.missing["write_cosine"]
    # Every stream is what it was plus its share of the write, so both have one gradient.
    assert np.array_equal(run["grad_state_rms"].values, run["grad_write_rms"].values)


@pytest.mark.parametrize(("design", "known"), [("postnorm", [False] * 8), ("denseformer", [True, False] * 4)])
def test_a_state_behind_a_norm_or_an_average_has_a_gradient_of_its_own(
    build, tokens, tmp_path, design, known
):
    """dL/ds_l is dL/df_l only where s_l = something + f_l; elsewhere it is absent, not wrong."""
    model = build(design, jitter=0.1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    with Recorder(model, tmp_path / "run", optimizer=optimizer) as recorder:
        loss = F.cross_entropy(model(tokens)[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        recorder.step(loss=loss)
    assert np.isfinite(open_run(tmp_path / "run")["grad_state_rms"].values[0]).tolist() == known
