"""A recording under way: the model's depth axis is known, the run's store is open."""

from __future__ import annotations

import atexit
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from depthscope.anatomy import Anatomy, AnatomyError, layout_of, parameter_groups
from depthscope.marks import DepthAxis
from depthscope.probes import (
    Array,
    DepthAttention,
    FreshShare,
    Gradient,
    Magnitude,
    MixCheck,
    OuterState,
    ParameterGradient,
    Probe,
    ResidualCheck,
)
from depthscope.quantities import DepthLayout
from depthscope.recording import hooks
from depthscope.recording.agreement import keys_of_all, own_keys, schema
from depthscope.recording.arming import Arming
from depthscope.recording.assemble import Assembler
from depthscope.recording.handover import Handover
from depthscope.recording.ledger import Ledger, expand
from depthscope.recording.observer import Generation, Observer
from depthscope.recording.packet import Packet
from depthscope.recording.rank_link import RankLink
from depthscope.recording.ranks import Ranks, agreed
from depthscope.recording.schedule import Schedule
from depthscope.recording.schema import absent, streams
from depthscope.recording.shards import local_parameters, stored_parameters
from depthscope.recording.trace_plan import TracePlan
from depthscope.recording.values import Value, split
from depthscope.store import RunWriter, StreamSpec, holds_rows, jsonable

SILENT_AFTER = 3
"""Due steps after which a site that never fired, or fires no more, is named."""

NO_VALUE = "no value came in the first recorded steps"
NOTHING_SEEN = (
    "no sublayer was seen in the first recorded step. Compiled code that ran before the recorder was attached goes on "
    "without its hooks: attach first, or call torch.compiler.reset() after attaching"
)
_NO_GRADIENTS = (
    "no parameter had a gradient when they were read: give the recorder the optimizer, or call zero_grad after "
    "recorder.step()"
)
_CLIPPING = "known with step(grad_norm=..., max_norm=...) or recorder.before_clip()"
_NO_SCALER = "no GradScaler was seen"
NEEDS = {
    "loss": "step() was given no loss",
    **{
        name: "the write goes to several streams and is wider than the read"
        for name in ("write_cosine", "write_dot")
    },
    "grad_norm_before_clip": _CLIPPING,
    "clip_coefficient": _CLIPPING,
    "loss_scale": _NO_SCALER,
    "skipped": _NO_SCALER,
    "query_norm": "no depth mixer has a query",
    "learning_rate": "no step of an optimizer was seen",
    "peak_memory": "no CUDA device is in use",
    "tokens": "the module that the loop calls is compiled, so its positions are not counted: use step(tokens=...)",
    "step_seconds": "",  # come with the second row
    "recording_seconds": "",
    **{name: _NO_GRADIENTS for name in ParameterGradient.quantities},
    **{name: "no gradient came back in the first recorded steps" for name in Gradient.quantities},
}
"""What would have given an array its values; empty: they are only late."""


@dataclass(frozen=True, kw_only=True)
class RunDescription:
    """What is written once into a run's ``run.json``."""

    path: Path
    name: str
    config: Mapping[str, Any] = field(default_factory=dict)
    tags: tuple[str, ...] = ()
    mantissa_bits: int | None = None


def default_probes(axis: DepthAxis, model: nn.Module) -> tuple[Probe, ...]:
    """Return the probes that apply to every design; each finds its own sites."""
    names = tuple(name for name, _ in model.named_parameters())
    places = {name: place for place, name in enumerate(names)}
    groups = {
        group: tuple(places[name] for name in members)
        for group, members in parameter_groups(axis, model).items()
    }
    gradients = ParameterGradient(parameters=names, groups=groups)
    return Magnitude(), FreshShare(), Gradient(), gradients, DepthAttention(), OuterState()


class Session:
    """Owns the observer and its hooks, the way to the drain thread, and the writer."""

    def __init__(
        self,
        model: nn.Module,
        anatomy: Anatomy,
        description: RunDescription,
        every: Mapping[str, Schedule],
        probes: Sequence[Probe] | None,
        guard: hooks.Guard,
        arming: Arming,
        ranks: Ranks | None = None,
    ) -> None:
        with agreed(ranks, "find the depth axis") as agreement:
            axis = anatomy.axis
            if axis is None:
                found = "; ".join(anatomy.notes) or "no forward was seen"
                raise AnatomyError(f"no sublayer of the model can be recorded: {found}")
            self.anatomy, self.axis = anatomy, axis
            self.layout: DepthLayout = layout_of(axis, model)
            shown = default_probes(axis, model) if probes is None else tuple(probes)
            checks: tuple[Probe, ...] = (ResidualCheck(), MixCheck())
            parameters = local_parameters(model)
            self.observer = Observer(axis, (*shown, *checks), parameters, arming)
            agreement.same |= schema(axis, self.layout, shown, every, parameters)
            agreement.own = own_keys(axis, stored_parameters(model))
        keys = keys_of_all(agreement.everyone)
        plan = TracePlan(axis, self.observer.probes, self.layout.outer_width, arming)
        self._ledger = Ledger(plan.accumulators, arming)
        self.every = every
        self._config = jsonable(description.config)
        self.missing = absent(shown, self.layout)
        self.error: Exception | None = None
        self.warnings: list[str] = []
        self._counts: dict[str, Array] = {}
        self._rows = 0
        self._silent_rows = np.zeros(self.layout.layers)
        steps = {stream: schedule.every for stream, schedule in every.items()}
        specs = streams(
            shown,
            self.layout,
            steps,
            mantissa_bits=description.mantissa_bits,
            ranks=ranks.world if ranks else 1,
        )
        self.due_streams = frozenset(spec.name for spec in specs) & set(every)
        shapes = {array.name: array.shape for spec in specs for array in spec.arrays}
        self.recorded = tuple(shapes)
        self.link = RankLink(
            ranks, keys, tuple(parameters), description.name, self._absent, self.warnings.append
        )
        with agreed(ranks, "create the run"):
            self.writer = self.link.sending or _writer(description, self.layout, specs)
        self.resumes = isinstance(self.writer, RunWriter) and self.writer.recovered is not None
        """Rows from the next one on may be there already, of a run that went further."""
        self.writer.annotate("found_by", anatomy.found_by)
        self.writer.annotate("notes", list(anatomy.notes))
        self.writer.annotate("missing", self.missing)
        self._assemble = Assembler(
            self.observer.probes,
            self.layout,
            shapes,
            self.writer,
            self._withdraw,
            self._count,
            self.link.gather,
        )
        self.handover = Handover(self._consume, description.name, self.link.part)
        self.handles: list[RemovableHandle] = hooks.attach(self.observer, model, guard, plan.roles)
        close_at_exit(self)

    # --- the training thread ----------------------------------------------------------------------------

    def submit_row(self, step: int, generations: Sequence[Generation], facts: Mapping[str, Value]) -> None:
        """Hand over the step's moments with the `facts` that are known."""
        self._resume_at(step)
        observer, arming = self.observer, self.observer.arming
        # Earlier micro-batches of a spoiled step went with the failed one: no number is better than half of one.
        traced = arming.traced and not arming.spoiled
        on_device, on_host = split(facts)
        packet = Packet(
            stream_rows=observer.streams,
            step=step,
            visits=tuple(visit for each in generations for visit in each.visits),
            tokens=tuple(count for each in generations for count in each.tokens),
            widths=tuple(width for each in generations for width in each.widths),
            device_scalars=tuple(on_device),
            host_scalars=on_host,
            traced=self._ledger.accumulators if traced else (),
            low_precision=observer.low_precision or arming.low_precision,
        )
        scalars = [tensor for each in generations for tensor in each.scalars]
        vectors = [tensor for each in generations for tensor in each.vectors]
        ledger = [self._ledger.pack()] if traced else []
        self._submit(packet, scalars, [*vectors, *on_device.values(), *ledger])
        observer.checking = False
        if arming.traced:
            self._ledger.clear()
        arming.spoiled = False

    def submit_named(self, stream: str, step: int, values: Mapping[str, Value]) -> None:
        """Hand over values under the user's own names; with several ranks those of rank 0 are kept."""
        if self.link.sending is not None:
            return
        self._resume_at(step)
        on_device, on_host = split(values)
        packet = Packet(
            stream_rows=frozenset({stream}), step=step, device_scalars=tuple(on_device), host_scalars=on_host
        )
        self._submit(packet, [], list(on_device.values()))

    def forward_failed(self) -> None:
        """Forget what compiled code added up: part of it belongs to a forward that did not end."""
        if self.observer.arming.traced:
            self._ledger.clear()
            self.observer.arming.spoiled = bool(self.observer.generations)

    def _resume_at(self, step: int) -> None:
        """Before the first row of a resumed run, take back those that lie beyond. This one time, training waits."""
        if self.resumes and isinstance(self.writer, RunWriter):
            self.handover.wait()
            self.writer.rewind(step)
            self.resumes = False
            recovered = self.writer.recovered
            if recovered is not None and recovered.config != self._config:
                self.writer.annotate("configurations", {str(step): self._config})

    def _submit(self, packet: Packet, scalars: Sequence[Tensor], more: Sequence[Tensor]) -> None:
        """Pack the numbers into one vector on their device and hand it over; nothing waits."""
        parts = [torch.stack(tuple(scalars))] if scalars else []
        for tensor in more:
            device = parts[0].device if parts else tensor.device
            parts.append(tensor.detach().to(device, torch.float32).reshape(-1))
        self.handover.submit(packet, torch.cat(parts) if parts else torch.empty(0))

    def stop(self, reason: str) -> None:
        """Note that the recording ends before the training does."""
        self.writer.annotate("stopped", reason)
        if self.link.sending is not None:
            packet = Packet(stream_rows=frozenset(), step=-1, host_scalars={}, stopped=reason)
            self.handover.submit(packet, torch.empty(0))

    def close(self, *, leaving: bool = False) -> None:
        """Write everything that was handed over and close the run. Safe to call twice.

        `leaving` says that the script ends: other ranks may be in trouble, and are not waited for long.
        """
        self.detach()
        self.link.close(self.handover, leaving=leaving)
        if 0 < self._rows < SILENT_AFTER:
            self._name_empty_quantities()
        self.writer.close()

    def leave(self) -> None:
        """Close because the interpreter ends and nobody else has."""
        self.close(leaving=True)

    def detach(self) -> None:
        """Remove our hooks and nobody else's."""
        for handle in self.handles:
            handle.remove()
        self.handles = []

    # --- the drain thread -------------------------------------------------------------------------------

    def _consume(self, packet: Packet, flat: Array) -> None:
        try:
            if packet.stopped and self.link.sending is not None:
                self.link.sending.end(packet.stopped)
                return
            self._assemble(*expand(packet, flat))
            if "fast" in packet.stream_rows and self.link.sending is None:
                self._rows += 1
                if self._rows == 1 and not np.any(self._counts.get("write", 0)):
                    self.warnings.append(NOTHING_SEEN)
                if self._rows == SILENT_AFTER:
                    self._name_silent_sites()
                    self._name_empty_quantities()
        except Exception as error:  # noqa: BLE001 - said, or raised, by the training thread
            self.error = self.error or error

    def _absent(self, rank: int, reason: str) -> None:
        self._say_missing({f"rank {rank}": reason})

    def _withdraw(self, where: str, reason: str) -> None:
        self._say_missing({where: f"withdrawn: {reason}"})
        self.warnings.append(f"the record of {where} is withdrawn: {reason}")

    def _count(self, kind: str, tokens: Array) -> None:
        self._counts[kind] = self._counts.get(kind, 0) + tokens
        if kind == "write":
            self._silent_rows = np.where(tokens > 0, 0, self._silent_rows + 1)
            lost = (self._silent_rows == SILENT_AFTER) & (self._counts[kind] > 0)
            for position in np.flatnonzero(lost):
                sublayer = self.axis.sublayers[position]
                where = f"layer {sublayer.index} ({sublayer.name})"
                reason = f"{sublayer.write} stopped firing: its module was replaced, compiled, or is no longer called"
                self._say_missing({where: reason})
                self.warnings.append(f"nothing comes from {where} any more: {reason}")

    def _say_missing(self, reasons: Mapping[str, str]) -> None:
        self.missing |= reasons
        self.writer.annotate("missing", self.missing)

    def _name_empty_quantities(self) -> None:
        """Say of each array that has no value yet what would give it one."""
        empty = [name for name in self.recorded if name not in self._assemble.present]
        self._say_missing({name: NEEDS.get(name, NO_VALUE) for name in empty if NEEDS.get(name, NO_VALUE)})

    def _name_silent_sites(self) -> None:
        silent = {}
        for sublayer in self.axis.sublayers:
            for kind, port in (("write", sublayer.write), ("state", sublayer.state), ("read", sublayer.read)):
                counts = self._counts.get("read_gradient" if kind == "read" else kind)
                if port is not None and counts is not None and not counts[sublayer.index - 1]:
                    silent[f"{kind} of layer {sublayer.index}"] = f"{port} never fired: {_likely_cause(kind)}"
        if silent:
            self._say_missing(silent)
            first, reason = next(iter(silent.items()))
            more = f" (and {len(silent) - 1} more, see recorder.report())" if len(silent) > 1 else ""
            self.warnings.append(f"nothing was recorded at the {first}: {reason}{more}")


def _likely_cause(kind: str) -> str:
    if kind == "read":
        return "nothing in front of it requires a gradient, or its module is never called"
    return (
        "its module is never called in training (the parent bypasses its forward), or its compiled code ran before "
        "the recorder was attached (attach first, or call torch.compiler.reset())"
    )


def _writer(description: RunDescription, layout: DepthLayout, streams: Sequence[StreamSpec]) -> RunWriter:
    """Go on with the run at the path, or create one."""
    if holds_rows(description.path):
        return RunWriter.resume(description.path, layout=layout, streams=streams)
    return RunWriter.create(
        description.path,
        name=description.name,
        config=description.config,
        tags=description.tags,
        layout=layout,
        streams=streams,
        versions={"torch": torch.__version__},
    )


class Leaving(Protocol):
    def leave(self) -> None: ...


def close_at_exit(owner: Leaving) -> None:
    """Close `owner` when the script ends without doing so, as long as it is alive.

    zarr can't write once the interpreter shuts down, so an ``atexit`` callback comes too late;
    ``threading._register_atexit`` runs before that, newest first, so this comes before the writer's own.
    """
    reference = weakref.ref(owner)

    def close() -> None:
        if (alive := reference()) is not None:
            alive.leave()

    register: Callable[[Callable[[], None]], object] = getattr(threading, "_register_atexit", atexit.register)
    register(close)
