"""`check_probe` passes what is right, and names in which way a wrong probe is wrong."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import EntryPoint
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from depthscope.marks import DepthAxis
from depthscope.probes import (
    Activation,
    Array,
    DepthAttention,
    FreshShare,
    Gradient,
    Magnitude,
    Merge,
    OuterState,
    Probe,
    Row,
    Site,
    SiteKind,
    registered,
)
from depthscope.quantities import Quantity
from depthscope.recording import Recorder
from depthscope.recording.default_probes import default_probes
from depthscope.store import open_run
from depthscope.testing import ProbeError, check_probe
from tests.recording.loops import LAYERS, batches, build, optimizer_of, train

LARGEST = Quantity(
    name="write_mean_abs",
    label="Write, mean absolute entry",
    long_name="mean absolute entry of the write",
    dims=("layer",),
    units="activation",
    formula="mean_t |f_l|",
    reduction="mean over tokens and features",
    source="a test",
    stream="fast",
    reach="layer",
)


@dataclass(frozen=True, kw_only=True)
class MeanAbs:
    """A probe as a third party writes one; its mistakes are made below."""

    name: ClassVar[str] = "mean_abs"
    stream: ClassVar[str] = "fast"
    sites: ClassVar[tuple[SiteKind, ...]] = ("write",)
    quantities: ClassVar[tuple[str, ...]] = ("write_mean_abs",)
    merges: ClassVar[Mapping[str, Merge]] = MappingProxyType({"write_abs": "sum"})
    definitions: ClassVar[tuple[Quantity, ...]] = (LARGEST,)

    def moments(self, site: Site, seen: Mapping[str, Activation]) -> dict[str, Tensor]:
        write = seen["write"]
        return {"write_abs": write.tensor.to(write.dtype).abs().sum()}

    def finish(self, merged: Mapping[str, Array], row: Row) -> dict[str, Array]:
        return {"write_mean_abs": merged["write_abs"] / (row.tokens["write"] * row.width["write"])}


def parameter_gradient(axis: DepthAxis, model: nn.Module) -> Probe:
    return next(probe for probe in default_probes(axis, model) if probe.name == "parameter_gradient")


STREAM, MIXED, OUTER = "prenorm", "block-attnres:S=2", "hires:B=2,n=2"


@pytest.mark.parametrize(
    ("probe", "designs"),
    [
        (Magnitude(), (STREAM,)),
        (FreshShare(), (STREAM, MIXED)),
        (Gradient(), (STREAM, OUTER)),
        (DepthAttention(), (MIXED,)),
        (OuterState(), (OUTER,)),
        (parameter_gradient, (MIXED, OUTER)),
        (MeanAbs(), (STREAM,)),
    ],
    ids=lambda each: getattr(each, "name", "parameter_gradient") if not isinstance(each, tuple) else "",
)
def test_a_right_probe_passes(probe: Any, designs: tuple[str, ...]) -> None:
    check = check_probe(probe, designs=designs)
    ways = {way for way, *_ in check.compared}
    assert ways == {"compiled", "micro-batches", "fp64"}
    assert max(deviation for *_, deviation in check.compared) < 1e-4
    assert "micro-batches: " in str(check)


class KeepsState(MeanAbs):
    """Gives one more with every call."""

    calls: ClassVar[list[int]] = []

    def moments(self, site: Site, seen: Mapping[str, Activation]) -> dict[str, Tensor]:
        self.calls.append(0)
        return {"write_abs": super().moments(site, seen)["write_abs"] + len(self.calls)}


class ChangesTheModel(MeanAbs):
    def moments(self, site: Site, seen: Mapping[str, Activation]) -> dict[str, Tensor]:
        return {"write_abs": seen["write"].tensor.mul_(0.5).abs().sum()}


class LooksAtNumbers(MeanAbs):
    """Asks the host, which no graph can."""

    def moments(self, site: Site, seen: Mapping[str, Activation]) -> dict[str, Tensor]:
        total = super().moments(site, seen)["write_abs"]
        return {"write_abs": total if total.item() > 0 else -total}


class AnotherWhenCompiled(MeanAbs):
    def moments(self, site: Site, seen: Mapping[str, Activation]) -> dict[str, Tensor]:
        total = super().moments(site, seen)["write_abs"]
        return {"write_abs": 1.01 * total if torch.compiler.is_compiling() else total}


class MeanAsSum(MeanAbs):
    """A mean merges by no rule."""

    def moments(self, site: Site, seen: Mapping[str, Activation]) -> dict[str, Tensor]:
        return {"write_abs": seen["write"].tensor.abs().mean()}

    def finish(self, merged: Mapping[str, Array], row: Row) -> dict[str, Array]:
        return {"write_mean_abs": merged["write_abs"]}


class Cancels(MeanAbs):
    """Small differences of large numbers: what is left has few digits in fp32."""

    def moments(self, site: Site, seen: Mapping[str, Activation]) -> dict[str, Tensor]:
        write = seen["write"].tensor.to(seen["write"].dtype).abs()
        return {"write_abs": ((write + 4096) - 4096).sum()}


class HalfPrecision(MeanAbs):
    def moments(self, site: Site, seen: Mapping[str, Activation]) -> dict[str, Tensor]:
        return {"write_abs": seen["write"].tensor.bfloat16().abs().sum().float()}


class Undeclared(MeanAbs):
    def moments(self, site: Site, seen: Mapping[str, Activation]) -> dict[str, Tensor]:
        return {"write_sum": seen["write"].tensor.sum()}


class Silent(MeanAbs):
    sites: ClassVar[tuple[SiteKind, ...]] = ("residual",)

    def moments(self, site: Site, seen: Mapping[str, Activation]) -> dict[str, Tensor]:
        return {}


@pytest.mark.parametrize(
    ("probe", "way", "words"),
    [
        (KeepsState(), "eager", "a second run of the same step gives another value"),
        (ChangesTheModel(), "eager", "changes the model's loss"),
        (Undeclared(), "eager", "it raises KeyError"),
        (Silent(), "eager", "no model gave it a value"),
        (LooksAtNumbers(), "compiled", "it raises "),
        (AnotherWhenCompiled(), "compiled", "compiled and eager code differ"),
        (MeanAsSum(), "micro-batches", "micro-batches and eager code differ"),
        (Cancels(), "fp64", "fp64 and eager code differ"),
        (HalfPrecision(), "micro-batches", "micro-batches and eager code differ"),
    ],
    ids=lambda each: type(each).__name__ if isinstance(each, MeanAbs) else "",
)
def test_a_wrong_probe_is_caught_in_its_way(probe: Any, way: str, words: str) -> None:
    with pytest.raises(ProbeError, match=words) as caught:
        check_probe(probe, designs=(OUTER,) if isinstance(probe, HalfPrecision) else (STREAM,))
    assert way in {each.way for each in caught.value.disagreements}
    if way in ("micro-batches", "fp64") or isinstance(probe, AnotherWhenCompiled):
        assert {each.way for each in caught.value.disagreements} == {way}


def test_without_designs_all_kinds_of_model_are_gone_through() -> None:
    assert {design for _, design, *_ in check_probe(MeanAbs()).compared} == {STREAM, MIXED, OUTER}


def changed(**parts: Any) -> Any:
    return type("Changed", (MeanAbs,), parts)()


@pytest.mark.parametrize(
    ("probe", "words"),
    [
        (MeanAbs, "give an instance, MeanAbs()"),
        (object(), "it has no 'name'"),
        (changed(stream="medium"), "stream is 'medium': expected 'fast' or 'slow'"),
        (changed(sites=("writes",)), "sites names 'writes': expected some of embedding"),
        (changed(merges={"write_abs": "mean"}), "merges says 'mean' of 'write_abs'"),
        (changed(definitions=()), "nothing says what 'write_mean_abs' is: give a Quantity"),
        (changed(stream="slow"), "is of the fast stream"),
    ],
)
def test_what_is_no_probe_is_told_before_anything_runs(probe: Any, words: str) -> None:
    with pytest.raises(ProbeError) as caught:
        check_probe(probe)
    assert words in str(caught.value)
    assert {each.way for each in caught.value.disagreements} == {"declaration"}


# --- the entry point -------------------------------------------------------------------------------------


def registers(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    entry = EntryPoint(name="mean-abs", value=value, group="depthscope.probes")
    monkeypatch.setattr(registered, "entry_points", lambda group: [entry] if group == entry.group else [])


@pytest.mark.parametrize("attribute", ["MeanAbs", "one", "several"])
def test_a_registered_probe_is_recorded_beside_the_default_ones(
    attribute: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    registers(monkeypatch, f"{__name__}:{attribute}")
    model = build("prenorm")
    optimizer = optimizer_of(model)
    inputs = batches(seed=1)()[0]
    writes: list[Tensor] = []
    handles = [
        layer.sublayer.register_forward_hook(lambda module, args, output: writes.append(output))
        for layer in model.layers
    ]
    with torch.no_grad():
        model(inputs)
    for handle in handles:
        handle.remove()
    expected = [float(write.abs().mean()) for write in writes]
    with Recorder(model, tmp_path / "run", optimizer=optimizer) as recorder:
        train(model, 1, batches(seed=1), optimizer, lambda loss: recorder.step(loss=loss))
    run = open_run(tmp_path / "run")
    np.testing.assert_allclose(run["write_mean_abs"].values[0], expected, rtol=1e-5)
    assert run["write_mean_abs"].attrs["long_name"] == "mean absolute entry of the write"
    assert run["state_rms"].shape == (1, LAYERS)
    assert "write_mean_abs" in recorder.report().sites[0].recorded


def one() -> MeanAbs:
    return MeanAbs()


def several() -> list[MeanAbs]:
    return [MeanAbs()]


def broken() -> Any:
    raise OSError("no disk")


@pytest.mark.parametrize(
    ("attribute", "words"),
    [("broken", "OSError: no disk"), ("nothing", "AttributeError"), ("LARGEST", "it has no 'sites'")],
)
def test_a_registered_probe_that_cannot_be_recorded_is_refused_at_attach(
    attribute: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    registers(monkeypatch, f"{__name__}:{attribute}")
    with pytest.raises(ValueError, match=f"the probe 'mean-abs' of an installed package .*{words}"):
        Recorder(build("prenorm"), tmp_path / "run")
    Recorder(build("prenorm"), tmp_path / "run", probes=[Magnitude()]).abandon()


def test_two_probes_of_one_quantity_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="both give 'write_mean_abs'"):
        Recorder(build("prenorm"), tmp_path / "run", probes=[MeanAbs(), MeanAbs()])
