"""Every quantity of the fast stream against the fp64 reference of the tests, on weights after some training."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from benchmarks.device.setting import Line, Setting, at_most, loss_of
from depthscope.models import Decoder
from depthscope.recording import Recorder
from depthscope.store import open_run
from tests.recording import reference

SECTION = "correctness"
DESIGNS = ("prenorm", "block-attnres:S=2", "hires:B=2,n=2")
PRECISIONS = ("fp32", "bf16")
LAYERS, BATCH, CONTEXT = 4, 2, 24
TOLERANCE = {
    ("fp32", "eager"): 2e-5,
    ("fp32", "compiled"): 3e-4,
    ("bf16", "eager"): 5e-3,
    ("bf16", "compiled"): 2e-2,
}
"""Compiled code reorders the model's own arithmetic, and bf16 rounds it to 8 bits: the reference runs eagerly."""
SIGNED = {"write_cosine": 1.0, "fresh_share": 1.0}
"""Signed means, which may vanish, and the scale on which they are compared."""

Values = npt.NDArray[np.float64]


def correctness(setting: Setting) -> Iterator[Line]:
    """Yield one line for each design, precision and way to run: the largest error of all its quantities."""
    for design in DESIGNS:
        for precision in PRECISIONS:
            for way in ("eager", "compiled"):
                if setting.rehearsal and precision == "fp32" and way == "compiled":
                    continue  # the tests compare it
                torch._dynamo.reset()
                error, name, count = _largest_error(setting, design, precision == "bf16", way == "compiled")
                what = f"{design}, {precision}, {way}: {count} quantities"
                yield at_most(SECTION, what, error, TOLERANCE[precision, way], note=name)


def _largest_error(setting: Setting, design: str, bf16: bool, compiled: bool) -> tuple[float, str, int]:
    width = 32 if setting.rehearsal else 256
    model = setting.decoder(design, width=width, layers=LAYERS, heads=4, context=CONTEXT)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for _ in range(10):
        with setting.autocast(bf16):
            loss_of(model, *setting.tokens(BATCH, CONTEXT)).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        optimizer.zero_grad()
    inputs, targets = setting.tokens(BATCH, CONTEXT)
    path = setting.folder / f"correctness-{design.replace(':', '-')}-{bf16}-{compiled}"
    still = torch.optim.SGD(model.parameters(), lr=0.0)
    with Recorder(model, path, optimizer=still, example=inputs) as recorder:
        called = setting.compile(model) if compiled else model
        with setting.autocast(bf16):
            loss = loss_of(called, inputs, targets)
        loss.backward()  # type: ignore[no-untyped-call]
        still.step()
        recorder.step(loss=loss.detach(), tokens=inputs.numel())
    run = open_run(path)
    model.zero_grad()
    with setting.autocast(bf16):
        seen = reference.capture(model, inputs, targets)
    expected = _expected(model, seen)
    unrecorded = [name for name in expected if name not in run.quantities]
    if unrecorded:
        raise AssertionError(f"{design}: {unrecorded} are not recorded: {run.missing}")
    errors = {name: _error(name, run[name].values[0], value, expected) for name, value in expected.items()}
    worst = max(errors, key=lambda name: errors[name])
    return errors[worst], worst, len(errors)


def _expected(model: Decoder, seen: reference.Captured) -> dict[str, Values]:
    residual: Any = model.residual
    alphas = reference.depth_weights(model, seen) if residual.name.endswith("attnres") else None
    ends = (
        {layer for layer in range(LAYERS) if residual.blocks.finishes(layer)}
        if residual.name == "hires"
        else set()
    )
    assert seen.loss is not None
    values: dict[str, Any] = dict(reference.over_layers(seen))
    values["fresh_share"] = reference.fresh_share(seen, alphas, ends)
    values["loss"] = float(seen.loss.detach())
    for name in ("embedding", "final_read"):
        tensor = getattr(seen, name)
        values[f"{name}_rms"], values[f"{name}_logrms"] = reference.rms(tensor), reference.logrms(tensor)
    values["param_grad_norm"] = [reference.gradient_norms(model, f"layers.{i}.") for i in range(LAYERS)]
    parts = {"embedding": "embedding.", "head": "head.", "final_norm": "norm.", "": ""}
    for group, prefix in parts.items():
        values[f"{group}_grad_norm".lstrip("_")] = reference.gradient_norms(model, prefix)
    if alphas is not None:
        norms = [reference.gradient_norms(model, f"residual.mix.{i}.") for i in range(LAYERS)]
        values["mixer_grad_norm"] = norms
    return {name: np.asarray(value, dtype=np.float64) for name, value in values.items()}


def _error(name: str, found: Values, value: Values, expected: Mapping[str, Values]) -> float:
    """Return the largest error, relative to the value, or to the scale of what a signed mean is made of."""
    if not np.array_equal(np.isnan(found), np.isnan(value)):
        return float("inf")
    if name == "write_dot":
        scale: Values | float = expected["write_rms"] * expected["read_rms"]
    elif name.endswith("logrms"):
        scale = np.maximum(np.abs(value), 1.0)  # an error of a logarithm is a relative one already
    else:
        scale = SIGNED.get(name, np.abs(value))
    error = np.abs(found - value) / np.maximum(scale, 1e-12)
    return float(np.nanmax(error, initial=0.0))
