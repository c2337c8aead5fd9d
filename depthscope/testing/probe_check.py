"""`check_probe`: does a probe say the same in eager and compiled code, in micro-batches and in fp64?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import nn

from depthscope.marks import DepthAxis
from depthscope.probes import Probe, definitions_of, faults_of
from depthscope.quantities import DepthLayout, Quantity, reachable
from depthscope.testing.small_model import DESIGNS, RecordedStep, SmallModel, record_step, small_model

ProbeOf: TypeAlias = Callable[[DepthAxis, nn.Module], Probe]


@dataclass(frozen=True, kw_only=True)
class Disagreement:
    """One thing that is wrong with a probe."""

    way: str
    """Where it shows: declaration, eager, compiled, micro-batches or fp64."""
    design: str
    """Of the model that showed it; empty for what is wrong with every one."""
    quantity: str
    """Empty where no value came at all."""
    what: str

    def __str__(self) -> str:
        where = ", ".join(filter(None, (self.way, self.design, self.quantity)))
        return f"{where}: {self.what}"


@dataclass(frozen=True, kw_only=True)
class ProbeCheck:
    """What was compared; `print` it."""

    probe: str
    compared: tuple[tuple[str, str, str, float], ...]
    """Way, design, quantity, and the largest relative deviation from eager code."""

    def __str__(self) -> str:
        lines = [f"probe {self.probe!r} agrees with itself everywhere:"]
        for way in ("compiled", "micro-batches", "fp64"):
            held = [
                (deviation, f"{name} of {design}") for w, design, name, deviation in self.compared if w == way
            ]
            if held:
                worst, where = max(held)
                lines.append(f"  {way}: {len(held)} values compared, off by {worst:.1g} at most ({where})")
        return "\n".join(lines)


class ProbeError(AssertionError):
    """A probe is wrong somewhere; `disagreements` say where."""

    def __init__(self, probe: str, disagreements: tuple[Disagreement, ...]) -> None:
        self.disagreements = disagreements
        listed = "\n".join(f"  {each}" for each in disagreements)
        super().__init__(f"probe {probe!r} disagrees with itself:\n{listed}")


def check_probe(
    probe: Probe | ProbeOf, *, tolerance: float = 1e-4, designs: Sequence[str] = DESIGNS
) -> ProbeCheck:
    """Run a probe in every way that a recording runs it, and hold the results against each other.

    On small trained models with one stream, with depth mixers and with a wide outer state, one step is recorded in
    eager code (twice), in compiled code (``aot_eager``, without graph breaks), in two micro-batches, and with the
    model in fp64. All must give the same, and the loss must be bitwise that without the probe.

    Arguments:
        probe: the probe; or a function of a depth axis and a model that returns it, for one that must know them.
        tolerance: largest relative deviation; of signed quantities relative to their largest value.
        designs: residual designs of the models, as ``depthscope.models.residual_from_string`` takes them.

    Returns:
        What was compared.

    Raises:
        ProbeError: (an AssertionError) names every way, model and quantity that disagrees.
    """
    wrong: list[Disagreement] = []
    compared: list[tuple[str, str, str, float]] = []
    given: set[str] = set()
    name, quantities = "", tuple[str, ...]()
    for design in designs:
        small = small_model(design)
        made: Any = probe(small.axis, small.model) if _makes(probe) else probe  # type: ignore[operator]
        name = str(getattr(made, "name", type(made).__name__))
        if faults := faults_of(made):
            raise ProbeError(
                name, tuple(Disagreement(way="declaration", design="", quantity="", what=f) for f in faults)
            )
        quantities = tuple(made.quantities)
        one = _OneDesign(small, made, tolerance)
        one.run()
        wrong += one.wrong
        compared += one.compared
        given |= one.given
    if not wrong:
        wrong += [
            Disagreement(way="eager", design="", quantity=quantity, what="no model gave it a value")
            for quantity in quantities
            if quantity not in given
        ]
    if wrong:
        raise ProbeError(name, tuple(wrong))
    return ProbeCheck(probe=name, compared=tuple(compared))


def _makes(probe: Any) -> bool:
    return callable(probe) and not hasattr(probe, "moments")


class _OneDesign:
    """The four ways on one model."""

    def __init__(self, small: SmallModel, probe: Probe, tolerance: float) -> None:
        self.small, self.probe, self.tolerance = small, probe, tolerance
        self.wrong: list[Disagreement] = []
        self.compared: list[tuple[str, str, str, float]] = []
        self.given: set[str] = set()

    def run(self) -> None:
        plain = self.small.loss(self.small.model).item()
        eager = self._try("eager", lambda: record_step(self.small, self.probe))
        if eager is None:
            return
        if eager.loss != plain:
            self._say("eager", "", f"it changes the model's loss, from {plain:.9g} to {eager.loss:.9g}")
        self._undeclared(eager)
        again = self._try("eager", lambda: record_step(self.small, self.probe))
        if again is not None:
            self._compare("eager", eager, again, 0.0, "a second run of the same step gives another value")
        torch._dynamo.reset()
        compiled = self._try("compiled", lambda: record_step(self.small, self.probe, call=_compiled))
        torch._dynamo.reset()
        self._against(eager, compiled, "compiled")
        self._against(
            eager,
            self._try("micro-batches", lambda: record_step(self.small, self.probe, parts=2)),
            "micro-batches",
        )
        self.small.model.double()
        self._against(eager, self._try("fp64", lambda: record_step(self.small, self.probe)), "fp64")

    def _try(self, way: str, record: Callable[[], RecordedStep]) -> RecordedStep | None:
        try:
            return record()
        except Exception as error:  # noqa: BLE001 - whatever a probe raises is what is told
            first = next((line for line in str(error).splitlines() if line.strip()), "")
            self._say(way, "", f"it raises {type(error).__name__}: {first}")
            return None

    def _undeclared(self, step: RecordedStep) -> None:
        """Every entry that the model can have must have a value, where any has one."""
        known = definitions_of([self.probe])
        for name in self.probe.quantities:
            if name not in step.values or np.isnan(step.values[name]).all():
                continue
            self.given.add(name)
            lacking = np.isnan(step.values[name]) & _mask(known[name], step.layout)
            if lacking.any():
                self._say("eager", name, f"{int(lacking.sum())} of {lacking.size} entries have no value")

    def _against(self, eager: RecordedStep, other: RecordedStep | None, way: str) -> None:
        if other is not None:
            self._compare(way, eager, other, self.tolerance, f"{way} and eager code differ")

    def _compare(
        self, way: str, one: RecordedStep, other: RecordedStep, tolerance: float, words: str
    ) -> None:
        known = definitions_of([self.probe])
        for name in self.probe.quantities:
            expected, found = (each.values.get(name, np.array(np.nan)) for each in (one, other))
            if (np.isnan(expected) != np.isnan(found)).any():
                self._say(way, name, f"{words}: {_short(found)} where it is {_short(expected)}")
                continue
            if np.isnan(expected).all():
                continue
            off = _off(known[name], expected, found)
            deviation = float(np.nanmax(off))
            if way != "eager":
                self.compared.append((way, self.small.design, name, deviation))
            if deviation > tolerance:
                at = int(np.nanargmax(off))
                self._say(
                    way,
                    name,
                    f"{words}: {found.flat[at]:.6g} where it is {expected.flat[at]:.6g} "
                    f"(off by {deviation:.2g}, tolerance {tolerance:g})",
                )

    def _say(self, way: str, quantity: str, what: str) -> None:
        self.wrong.append(Disagreement(way=way, design=self.small.design, quantity=quantity, what=what))


def _off(quantity: Quantity, expected: Any, found: Any) -> Any:
    """Return how far off each entry is: of itself where values are positive, else of the largest."""
    gap = np.abs(found - expected)
    size = np.abs(expected)
    if not quantity.positive or quantity.name == "depth_attention_std":  # a difference, which may vanish
        size = np.full_like(size, np.nanmax(size))
    return np.where(gap == 0, 0, gap / np.maximum(size, 1e-300))


def _compiled(model: nn.Module) -> Any:
    return torch.compile(model, fullgraph=True, backend="aot_eager")


def _mask(quantity: Quantity, layout: DepthLayout) -> Any:
    return np.array(reachable(quantity, layout), dtype=bool)


def _short(values: Any) -> str:
    return np.array2string(np.asarray(values), precision=4, threshold=6, edgeitems=2).replace("\n", "")
