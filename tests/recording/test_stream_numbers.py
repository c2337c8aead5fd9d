"""Each number about streams equals an independent fp64 computation, on weights after 20 steps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from depthscope.models import Decoder, DecoderConfig, residual_from_string
from depthscope.probes import Interfaces, Output, PrenormState, StreamGain, Streams
from depthscope.recording import Recorder
from depthscope.store import open_run
from depthscope.testing import check_probe
from tests.recording.loops import BATCH, LAYERS, TIME, VOCABULARY, WIDTH, batches, build, loss_of
from tests.recording.reference import rms
from tests.recording.rows import record_one, spy_on_rows, trained
from tests.recording.stream_reference import Walked, quantities

DYNAMIC = "hc:n=2,dynamic=yes"
DESIGNS = (
    "hc:n=3,dynamic=no",
    DYNAMIC,
    "mhc:n=2",
    "mhc:n=3,lite=yes",
    "vwn:m=2,n=5,dynamic=yes",
    "vwn:m=1,n=2,dynamic=no",
    "altup:K=3",
)
WAYS = [(design, "eager") for design in DESIGNS] + [(DYNAMIC, "compiled"), ("mhc:n=2", "autocast")]
WAYS += [(design, "mask") for design in ("hc:n=3,dynamic=no", DYNAMIC)]
WAYS += [
    pytest.param((design, "compiled"), marks=pytest.mark.soak) for design in DESIGNS if design != DYNAMIC
]


def moved(model: nn.Module) -> nn.Module:
    """Away from where all tokens are alike: 20 steps move connections little."""
    generator = torch.Generator().manual_seed(8)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.startswith("residual.connections"):
                parameter.add_(0.2 * torch.randn(parameter.shape, generator=generator))
    return model


def counted() -> Tensor:
    mask = torch.ones(BATCH, TIME, dtype=torch.bool)
    mask[0, 7:], mask[2, 3:] = False, False
    return mask


class Recorded:
    """A trained model's one recorded step, and the same forward walked by hand."""

    def __init__(self, design: str, way: str, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        rows = spy_on_rows(monkeypatch)
        model, inputs, targets = trained(build(design))
        model = moved(model)
        mask = counted() if way == "mask" else None
        if mask is None:
            with torch.autocast("cpu", dtype=torch.bfloat16, enabled=way == "autocast"):
                record_one(model, inputs, targets, path, compiled=way == "compiled")
        else:
            targets = targets.masked_fill(~mask, -100)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
            with Recorder(model, path, optimizer=optimizer, every={"fast": 1, "slow": 1}) as recorder:
                with recorder.tokens(mask):
                    logits = model(inputs)
                nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten()).backward()
                optimizer.step()
                recorder.step()
        self.row, self.run = rows["slow"][0], open_run(path)
        self.walked = Walked(model, inputs, None if mask is None else mask.numpy())


@pytest.fixture(scope="module", params=WAYS, ids="-".join)
def recorded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    torch._dynamo.reset()
    with pytest.MonkeyPatch.context() as monkeypatch:
        yield request.param, Recorded(*request.param, tmp_path_factory.mktemp("streams") / "run", monkeypatch)


def test_every_quantity_of_streams(recorded: Any) -> None:
    (design, way), found = recorded
    expected = quantities(found.walked)
    if way == "mask":
        del expected["output_rms"]  # walked over all tokens
        assert np.isfinite(found.run["grad_write_rms"].values).all()
    if not design.startswith("mhc"):
        del expected["sinkhorn_residue"]
        assert "doubly stochastic" in found.run.missing["sinkhorn_residue"]
    # bf16 sublayers put the states off, by which weights are computed; weights themselves are fp32.
    tolerance = 2e-2 if way == "autocast" else 1e-5
    for name, values in expected.items():
        scale = tolerance if name in ("stream_mixing", "sinkhorn_residue") else 1e-12
        np.testing.assert_allclose(found.row[name], values, rtol=tolerance, atol=scale, err_msg=name)
        np.testing.assert_allclose(found.run[name].values[0], found.row[name], rtol=1e-6, err_msg=name)


def test_the_reference_tells_rows_from_columns_and_products_from_means(recorded: Any) -> None:
    """What would be wrong is off by more than the tolerance, or the numbers above would show nothing."""
    (design, _), found = recorded
    expected = quantities(found.walked)
    mixing = expected["stream_mixing"]
    assert abs(mixing - mixing.transpose(0, 2, 1)).max() > 1e-3
    product = np.eye(mixing.shape[1])
    for matrix in mixing:
        product = matrix @ product
    of_means = abs(product.sum(axis=1)).max()
    by_token = not design.endswith("dynamic=no") and not design.startswith(("altup", "mhc"))
    assert (abs(of_means / expected["gain_forward"][0] - 1) > 1e-4) == by_token
    if not design.startswith("mhc"):
        assert abs(expected["gain_forward"] / expected["gain_backward"] - 1).max() > 1e-3
        assert abs(expected["gain_forward"] / expected["gain_forward_abs"] - 1).max() > 1e-3


def test_doubly_stochastic_matrices_have_no_gain(recorded: Any) -> None:
    """Known without any model: rows and columns that sum to 1 have products whose rows and columns do."""
    (design, _), found = recorded
    gains = np.array([found.row[name] for name in found.row if name.startswith("gain_")])
    assert gains.shape == (6, LAYERS)
    if "lite" in design:
        np.testing.assert_allclose(gains, 1, rtol=1e-5)
    elif design.startswith("mhc"):
        np.testing.assert_allclose(gains, 1, rtol=(LAYERS + 1) * float(found.row["sinkhorn_residue"].max()))
    else:
        assert abs(gains - 1).max() > 1e-2


def test_streams_that_are_not_mixed_yet_gain_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At the start of hyper-connections A_r = I: every gain is 1, and every stream gets the same."""
    rows = spy_on_rows(monkeypatch)
    inputs, targets = batches()()
    record_one(build("hc:n=3,dynamic=no"), inputs, targets, tmp_path / "run")
    row = rows["slow"][0]
    for name in row:
        if name.startswith("gain_"):
            assert row[name].tolist() == [1.0] * LAYERS, name
    assert (row["stream_mixing"] == np.eye(3)).all()
    assert (row["stream_energy"] == row["stream_energy"][:, :1]).all()


@pytest.mark.parametrize("design", ["peri-ln", "highway:bias=-1", "layerscale:start=0.1"])
def test_outputs_are_those_of_the_sublayers_and_not_the_writes(
    design: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = spy_on_rows(monkeypatch)
    model, inputs, targets = trained(build(design))
    record_one(model, inputs, targets, tmp_path / "run")
    double: Any = model.double()
    with torch.no_grad():
        state, outputs = double.residual.begin(double.embedding(inputs)), []
        for index, layer in enumerate(double.layers):
            outputs.append(layer.sublayer(layer.norm(double.residual.read(state, index))))
            state = double.residual.write(state, index, outputs[-1])
    np.testing.assert_allclose(rows["slow"][0]["output_rms"], [rms(o) for o in outputs], rtol=1e-5)
    assert abs(rows["slow"][0]["output_rms"] / rows["fast"][0]["write_rms"] - 1).min() > 1e-3


@pytest.mark.parametrize(("design", "carried"), [("postnorm", 1.0), ("deepnorm", (LAYERS) ** 0.25)])
def test_a_state_before_its_norm_is_the_carried_stream_and_the_output(
    design: str, carried: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With M = L / 2 transformer blocks DeepNorm carries (2 M)^(1/4) of the stream."""
    rows = spy_on_rows(monkeypatch)
    model, inputs, targets = trained(build(design))
    record_one(model, inputs, targets, tmp_path / "run")
    double: Any = model.double()
    expected = []
    with torch.no_grad():
        stream = double.embedding(inputs)
        for layer, norm in zip(double.layers, double.residual.norms, strict=True):
            before = carried * stream + layer.sublayer(stream)
            expected.append(rms(before))
            stream = norm(before)
    np.testing.assert_allclose(rows["slow"][0]["state_prenorm_rms"], expected, rtol=1e-5)


@pytest.mark.parametrize(
    ("probe", "design", "tolerance"),
    [
        # The residue that 20 iterations leave is near the digits of the model's own fp32.
        (Streams(), "mhc:n=2", 1e-2),
        (StreamGain(), "hc:n=2,dynamic=yes", 1e-4),
        (StreamGain(), "altup:K=2", 1e-4),
        (Output(), "highway", 1e-4),
        (PrenormState(), "postnorm", 1e-4),
        (Interfaces(), "hires:B=2,n=2", 1e-4),
    ],
    ids=lambda value: getattr(value, "name", str(value)),
)
def test_probes_say_the_same_in_compiled_code_in_micro_batches_and_in_fp64(
    probe: Any, design: str, tolerance: float
) -> None:
    check_probe(probe, designs=(design,), tolerance=tolerance)


@pytest.mark.parametrize("way", ["eager", "compiled"])
def test_recomputed_layers_count_once_and_what_compiled_code_cannot_hand_on_says_why(
    way: str, tmp_path: Path
) -> None:
    """In a checkpointed region of compiled code no hook can leave anything to a later one."""
    torch._dynamo.reset()
    config = DecoderConfig(
        vocabulary=VOCABULARY, width=WIDTH, layers=2, heads=2, context=TIME, checkpoint=True
    )
    torch.manual_seed(0)
    model = moved(Decoder(config, residual_from_string(DYNAMIC, config)))
    inputs, targets = batches()()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    if way == "compiled":
        model.compile(backend="aot_eager")
    with Recorder(model, tmp_path / "run", optimizer=optimizer, every={"fast": 1, "slow": 1}) as recorder:
        loss_of(model, inputs, targets).backward()
        optimizer.step()
        recorder.step()
    row, missing = open_run(tmp_path / "run"), recorder.report().missing
    expected = quantities(Walked(model, inputs))
    for name in ("stream_energy", "stream_mixing", "output_rms"):
        np.testing.assert_allclose(row[name].values[0], expected[name], rtol=1e-5, atol=1e-6, err_msg=name)
    if way == "eager":
        np.testing.assert_allclose(row["gain_forward"].values[0], expected["gain_forward"], rtol=1e-5)
    else:
        assert np.isnan(row["gain_forward"].values).all()
        assert "checkpointed region of compiled code" in missing["gain_forward"]
