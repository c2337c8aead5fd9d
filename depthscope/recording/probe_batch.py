"""The probe batch: the same held-out tokens at given steps, seen in evaluation mode, without a trace in training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch import nn

from depthscope.anatomy import AnatomyError, call_arguments, untouched
from depthscope.mixing import MixingError, sample
from depthscope.probes import Probe, TokenMaps
from depthscope.quantities import DepthLayout
from depthscope.recording.observer import Generation, Observer
from depthscope.recording.replaying import Replay
from depthscope.recording.schedule import Schedule
from depthscope.recording.shards import reshard
from depthscope.recording.values import token_positions
from depthscope.store import ArraySpec, Coordinate, StreamSpec

PROBE = "probe"
"""The stream: ``run["probe/state_rms"]``."""
MOST_TOKENS = 128
"""Tokens of the batch whose depth mixing is kept one by one."""
_BY_TOKEN = {
    "depth_attention_by_token": ("weight of each source in a target's read, token by token", "alpha_{i->l}"),
    "depth_contribution_by_token": (
        "share of each source in a target's read, token by token",
        "alpha_i <v_i, h_l> / ||h_l||^2",
    ),
}
_OTHER_SITES = frozenset({"write_gradient", "read_gradient", "parameters", "query", "gates"})
"""Sites that no forward passes."""
_OF_PARAMETERS = frozenset({"query_norm", "interface_gate"})
"""Forward quantities that no batch has a part in."""


class ProbeBatch:
    """Runs the batch when a step is due, at most once a step."""

    def __init__(self, model: nn.Module, batch: Any, schedule: Schedule) -> None:
        """`model` is unwrapped: what a wrapper exchanges between ranks is none of the batch's."""
        self.schedule = schedule
        self._model = model
        self._args, self._kwargs = call_arguments(batch)
        self.positions = token_positions(self._args, self._kwargs)
        """Tokens in the batch."""
        self.held: Generation | None = None
        """What the batch showed in the step under way."""
        self._step: int | None = None

    @classmethod
    def given(
        cls, model: nn.Module, batch: Any, every: int | Schedule | None, default: Schedule
    ) -> ProbeBatch | None:
        """Return the batch that the user gave, if any. ValueError for a cadence without a batch, or a wrong one."""
        if batch is not None:
            schedule = Schedule(every=every) if isinstance(every, int) else every
            return cls(model, batch, schedule or default)
        if every is not None:
            raise ValueError(f"probe_every={every!r} without probe_batch: give the tokens that are to be run")
        return None

    def check(self) -> None:
        """Run the batch once; AnatomyError when the model's forward does not take it."""
        try:
            self._run()
        except Exception as error:
            raise AnatomyError(
                f"the forward of {type(self._model).__name__} raised {type(error).__name__} on probe_batch: {error}; "
                "probe_batch takes the arguments of the forward: a tensor, a tuple of positional arguments or a "
                "dict of keywords, on the model's device"
            ) from error

    def wanted(self, step: int) -> bool:
        """Whether the step is due and the batch has not run in it."""
        return self._step != step and self.schedule.due(step)

    def take(self, step: int, observer: Observer | None, replay: Replay | None = None) -> None:
        """Run the batch before the update of `step` and hold what it shows; without `observer`, only run it.

        Every rank runs it, since a sharded forward needs all of them; the one that writes observes.
        """
        self._step = step
        replayed = None if replay is None else replay.take(self._args, self._kwargs, None)
        if observer is None:
            self._run()
            return
        with observer.aside(frozenset({"fast", "slow", PROBE})) as generation:
            self._run()
            if replayed is not None:
                observer.see_replay(replayed)
        self.held = generation

    def sampled(self, array: ArraySpec) -> dict[str, int]:
        """Return, for an array of a sample of the batch, how many tokens that is."""
        if "sample_tokens" not in array.attributes:
            return {}
        try:
            sequences, positions = sample(self._args, self._kwargs)[2]
        except MixingError:
            return {}  # the first replay says why there is none
        return {"sample_tokens": sequences * positions}

    def hand_over(self) -> Generation | None:
        """Return what is held, and hold nothing."""
        held, self.held = self.held, None
        return held

    def forget(self) -> None:
        """The step under way is another one."""
        self.held = self._step = None

    def _run(self) -> None:
        try:
            with untouched(self._model):
                self._model(*self._args, **self._kwargs)
        finally:
            reshard(self._model)


def token_maps(layout: DepthLayout, positions: int) -> tuple[Probe, ...]:
    """Return the probe for single tokens, for a model with depth mixers."""
    if not layout.sources:
        return ()
    return (TokenMaps(sources=len(layout.source_names), tokens=min(MOST_TOKENS, positions)),)


def probe_stream(
    streams: Sequence[StreamSpec],
    probes: Sequence[Probe],
    maps: Sequence[Probe],
    batch: ProbeBatch,
) -> StreamSpec:
    """Return the stream of the batch: what a forward shows of the arrays of the other streams, and the token maps."""
    noted: Mapping[str, Any] = {"batch": "probe", "mode": "evaluation", "batch_tokens": batch.positions}
    shown = shown_by_forward(probes)
    arrays = [
        ArraySpec(
            name=array.name,
            dims=array.dims,
            shape=array.shape,
            dtype=array.dtype,
            attributes={**array.attributes, **noted, **batch.sampled(array)},
            mantissa_bits=array.mantissa_bits,
        )
        for stream in streams
        for array in stream.arrays
        if array.name in shown
    ]
    coordinates: tuple[Coordinate, ...] = ()
    for probe in maps:
        assert isinstance(probe, TokenMaps)
        targets = next(array.shape[0] for array in arrays if array.name == "depth_attention")
        arrays += [
            ArraySpec(
                name=name,
                dims=("target", "source", "token"),
                shape=(targets, probe.sources, probe.tokens),
                dtype="f2",
                attributes={"long_name": meaning, "units": "1", "formula": formula, **noted},
            )
            for name, (meaning, formula) in _BY_TOKEN.items()
        ]
        coordinates = (Coordinate(name="token", dim="token", values=range(probe.tokens)),)
    return StreamSpec(name=PROBE, arrays=tuple(arrays), coordinates=coordinates, every=batch.schedule.every)


def shown_by_forward(probes: Sequence[Probe]) -> set[str]:
    """Return the quantities that a forward alone gives."""
    looking = [probe for probe in probes if set(probe.sites) - _OTHER_SITES]
    return {name for probe in looking for name in probe.quantities} - _OF_PARAMETERS
