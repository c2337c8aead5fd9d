"""`verify_step`: one step of a user's own loop, recorded and held against fp64."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from depthscope.anatomy import unwrap
from depthscope.probes import Mixing
from depthscope.quantities import QUANTITIES
from depthscope.recording import Recorder, Rows, strictly
from depthscope.testing.reference import values_of
from depthscope.testing.reference_step import ReferenceStep, dropout_off
from depthscope.testing.setup import Setup, SetupError

TOLERANCE = 1e-3
LOW_PRECISION_TOLERANCE = 5e-2
_NOT_COMPARED = frozenset(
    {"step_seconds", "recording_seconds", "peak_memory", "learning_rate", "tokens", "loss_scale", "skipped"}
).union(Mixing.quantities)
"""What has no reference, or like the mixing is held to a slower way in every row as it is recorded."""
_N_ASSUMED = (
    "N, the tokens that count in the loss, is assumed here and in the recording to be all {} positions that the model "
    "was called with, since recorder.step() was given no tokens=: where targets are left out of the loss, pass their "
    "number, or every activation gradient is off by one factor"
)
_ANOTHER_BATCH = "does step() take the same batch each time? Draw it in the factory"


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """One quantity: what was recorded and what it is, at the entry where they differ most."""

    quantity: str
    entries: int
    recorded: float
    reference: float
    difference: float
    """Relative; of a logarithm or a residue absolute; of a signed mean relative to its largest entry."""
    ok: bool


@dataclass(frozen=True, kw_only=True)
class Verification:
    """What one step of a setup gave."""

    design: str
    layers: int
    world: int
    tolerance: float
    compared: tuple[Comparison, ...]
    missing: Mapping[str, str]
    """Quantities that were not recorded though fp64 has them, or have no reference here, and why."""
    notes: tuple[str, ...]

    @property
    def ok(self) -> bool:
        return bool(self.compared) and all(each.ok for each in self.compared)


def verify_step(setup: Setup, *, tolerance: float | None = None) -> Verification | None:
    """Record one step of `setup` and compare every quantity with fp64; None on ranks other than 0.

    The reference is the same step on a copy of the model in double: eager, without compiled code, with the
    definitions computed from the tensors themselves. Dropout modules are off in both. The model's weights are
    changed by one step of its optimizer.

    Arguments:
        setup: as `setup_of` makes it from what a factory returns.
        tolerance: largest relative difference; by default 1e-3, and 5e-2 where some activation is bf16 or fp16.

    Raises:
        SetupError: the setup does not do what is expected of one.
        AnatomyError: the model has no depth axis.
    """
    reference = ReferenceStep(setup)
    rows = Rows()
    with TemporaryDirectory(prefix="depthscope-") as folder, strictly(), dropout_off(unwrap(setup.model)):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            recorder = Recorder(
                setup.model,
                Path(folder) / "verified",
                optimizer=setup.optimizer,
                scaler=setup.scaler,
                every={"fast": 1, "slow": 1},
                example=setup.example,
            )
            recorder.watch(rows)
            try:
                setup.step(setup.model, setup.optimizer, recorder)
            finally:
                recorder.close()
        report, anatomy, ranks = recorder.report(), recorder.anatomy, recorder._ranks
    if not report.rows:
        raise SetupError("step() never called recorder.step(): call it once, after optimizer.step()")
    if report.rows > 1:
        raise SetupError(f"step() called recorder.step() {report.rows} times: one training step is expected")
    axis, session = anatomy.axis, recorder._session
    assert axis is not None, "a row was recorded"
    assert session is not None
    layout = session.layout
    reference.run(axis, recorder._facts.scaler)
    mine = (reference.sums, reference.told, reference.positions)
    everyone = [mine] if ranks is None else ranks.exchange(mine)
    if ranks is not None and not ranks.writes:
        return None
    tokens = sum(told.get("loss_tokens", positions) for _, told, positions in everyone)
    expected = values_of([sums for sums, _, _ in everyone], layout, tokens)
    expected |= reference.of_parameters(axis, layout)
    expected["loss_tokens"] = tokens
    if losses := [told["loss"] for _, told, _ in everyone if "loss" in told]:
        expected["loss"] = float(np.mean(losses))
    expected |= {
        name: reference.told[name]
        for name in ("grad_norm_before_clip", "clip_coefficient")
        if name in reference.told
    }
    allowed = tolerance
    if allowed is None:
        allowed = LOW_PRECISION_TOLERANCE if session.low_precision else TOLERANCE
    compared, missing = _compare(rows.values, expected, allowed, report.missing)
    notes = [str(each.message) for each in caught if "depthscope" in str(each.message)]
    if any("loss_tokens" not in told for _, told, _ in everyone):
        notes.append(_N_ASSUMED.format(int(tokens)))
    if any(each.quantity in ("loss", "embedding_rms") and not each.ok for each in compared):
        notes.append(f"the losses or the embeddings differ: {_ANOTHER_BATCH}")
    return Verification(
        design=axis.design,
        layers=layout.layers,
        world=len(everyone),
        tolerance=allowed,
        compared=tuple(compared),
        missing=missing,
        notes=tuple(notes),
    )


def _compare(
    found: Mapping[str, Any], expected: Mapping[str, Any], tolerance: float, reasons: Mapping[str, str]
) -> tuple[list[Comparison], dict[str, str]]:
    compared, missing = [], {}
    for name in [*QUANTITIES, *(found.keys() - QUANTITIES.keys())]:
        if name in _NOT_COMPARED:
            continue
        value, wanted = found.get(name), expected.get(name)
        there = value is not None and not np.isnan(value).all()
        if wanted is None or np.isnan(wanted).all():
            if there:
                missing[name] = "recorded, but has no reference here"
            continue
        if not there:
            missing[name] = reasons.get(name, "not recorded")
        compared.append(_comparison(name, np.asarray(np.nan if value is None else value), wanted, tolerance))
    return compared, missing


def _comparison(name: str, found: Any, wanted: Any, tolerance: float) -> Comparison:
    found, wanted = np.broadcast_arrays(np.asarray(found, np.float64), np.asarray(wanted, np.float64))
    known = QUANTITIES.get(name)
    gap = np.abs(found - wanted)
    if name.endswith("_logrms") or name == "sinkhorn_residue":  # a difference to sums of 1
        off = gap
    elif known is not None and known.positive and name != "depth_attention_std":
        off = np.where(gap == 0, 0, gap / np.maximum(np.abs(wanted), 1e-300))
    else:
        off = gap / (float(np.nanmax(np.abs(wanted))) or 1.0)
    off = np.where(np.isnan(wanted) & np.isnan(found), 0.0, np.where(np.isnan(off), np.inf, off))
    at = int(np.argmax(off))
    return Comparison(
        quantity=name,
        entries=int((~np.isnan(wanted)).sum()),
        recorded=float(found.flat[at]),
        reference=float(wanted.flat[at]),
        difference=float(off.flat[at]),
        ok=bool(off.flat[at] <= tolerance),
    )
