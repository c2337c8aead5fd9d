"""A recording under way: the model's depth axis is known, the run's store is open."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from depthscope.anatomy import Anatomy, AnatomyError, layout_of
from depthscope.probes import (
    Array,
    MixCheck,
    Mixing,
    Probe,
    ResidualCheck,
    definitions_of,
)
from depthscope.quantities import DepthLayout
from depthscope.recording import hooks
from depthscope.recording.agreement import keys_of_all, own_keys, schema
from depthscope.recording.arming import Arming
from depthscope.recording.assemble import Assembler
from depthscope.recording.causes import Causes
from depthscope.recording.default_probes import default_probes
from depthscope.recording.group_reasons import GroupReasons, known
from depthscope.recording.handover import Handover
from depthscope.recording.interface_matrices import InterfaceMatrices
from depthscope.recording.leaving import close_at_exit
from depthscope.recording.ledger import Ledger, expand
from depthscope.recording.needs import NEEDS, NO_VALUE
from depthscope.recording.observer import Generation, Observer
from depthscope.recording.packet import Packet
from depthscope.recording.probe_batch import PROBE, ProbeBatch, probe_stream, token_maps
from depthscope.recording.rank_link import RankLink
from depthscope.recording.rank_run import RankLabel, RankRun
from depthscope.recording.ranks import Ranks, agreed
from depthscope.recording.replaying import Replay
from depthscope.recording.run_description import RunDescription
from depthscope.recording.schedule import Schedule
from depthscope.recording.schema import absent, held, streams
from depthscope.recording.shards import local_parameters, stored_parameters
from depthscope.recording.sites import SILENT_AFTER, STOPPED, Sites
from depthscope.recording.trace_plan import TracePlan
from depthscope.recording.values import Value, split
from depthscope.recording.watched import Watched
from depthscope.recording.wiring import Wiring
from depthscope.store import (
    RunWriter,
    StreamSpec,
    holds_rows,
    jsonable,
    keep_parameters,
    refuse_other_parameters,
)

NOTHING_SEEN = (
    "no sublayer was seen in the first recorded step. Compiled code that ran before the recorder was attached (of this "
    "model, or of another of its class) goes on without its hooks: attach first, or call torch.compiler.reset() after "
    "attaching"
)
NOTHING_COUNTS = (
    "no sublayer was seen in the first recorded step, in which recorder.tokens was given a mask: one that is False "
    "everywhere lets no position count"
)
MOVED = (
    "the model was moved to another device after the recorder was attached; what compiled code had recorded until "
    "then is left out: attach the recorder to the model where it trains"
)

MASKED = "from row {step} on the positions that recorder.tokens(mask) counts, all of them in forwards without a mask"
MISFIT = "the mask given to recorder.tokens does not fit: {}. Give it as the sublayers see positions: [batch, time]"


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
        probe_batch: ProbeBatch | None = None,
        alone: bool = True,
        per_rank: bool = False,
    ) -> None:
        """`alone` says that the model talks to no other rank while it runs; `per_rank`, that every rank also writes a
        run of its own."""
        with agreed(ranks, "find the depth axis") as agreement:
            axis = anatomy.axis
            if axis is None:
                found = "; ".join(anatomy.notes) or "no forward was seen"
                raise AnatomyError(f"no sublayer of the model can be recorded: {found}")
            self.anatomy, self.axis = anatomy, axis
            shown = default_probes(axis, model) if probes is None else tuple(probes)
            self.replay = Replay(anatomy, model, shown, self._no_replay, alone=alone)
            self.layout: DepthLayout = replace(layout_of(axis, model), mixing=self.replay.targets)
            maps = () if probe_batch is None else token_maps(self.layout, probe_batch.positions)
            checks: tuple[Probe, ...] = (ResidualCheck(), MixCheck(), *maps)
            parameters = local_parameters(model)
            interfaces = InterfaceMatrices(axis, model, self.layout.outer_width)
            self.observer = Observer(axis, (*shown, *checks), parameters, arming, interfaces)
            schedules = dict(every) if probe_batch is None else {**every, PROBE: probe_batch.schedule}
            agreement.same |= schema(axis, self.layout, shown, schedules, parameters)
            agreement.same["per_rank"] = per_rank
            agreement.own = own_keys(axis, stored_parameters(model))
        keys = keys_of_all(agreement.everyone)
        plan = TracePlan(axis, self.observer.probes, self.layout.outer_width, arming, interfaces)
        self._ledger = Ledger(plan.accumulators, arming)
        self.every = every
        self._config = jsonable(description.config)
        self.missing = absent(shown, self.layout)
        self.missing |= {name: self.replay.refused for name in self.missing.keys() & {*Mixing.quantities}}
        self._traced_before = False
        """Compiled code had run in the step before what is to be forgotten."""
        self._masked = False
        """A mask was given."""
        self._misfits = False
        """A mask kept places, or all, from being seen, which says more than that they were not."""
        self.error: Exception | None = None
        self.warnings: list[str] = []
        self._rows = 0
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
        probe_shapes: dict[str, tuple[int, ...]] = {}
        if probe_batch is not None:
            spec = probe_stream(specs, shown, maps, probe_batch)
            probe_shapes = {array.name: array.shape for array in spec.arrays}
            specs.append(spec)
        self.recorded = tuple(shapes)
        definitions = definitions_of(shown)
        self._held = held(definitions, self.missing, shapes)
        for name in self._held:
            del self.missing[name]
        self.sites = Sites(
            self.layout, [definitions[name] for name in shapes], Causes(axis, model, parameters), steps
        )
        self._group_reasons = GroupReasons(axis, model)
        self.missing |= known(self._group_reasons.empty | self._group_reasons.news(), self.recorded)
        self.link = RankLink(
            ranks,
            keys,
            tuple(parameters),
            description.name,
            self._absent,
            lambda: self.writer.keep_notes(),
            self.warnings.append,
        )
        self._rank_run: RankRun | None = None
        with agreed(ranks, "create the run"):
            self.writer = self.link.sending or _writer(description, self.layout, specs, model)
            if ranks is not None and per_rank:
                label = RankLabel(rank=ranks.rank, world=ranks.world, sharded=bool(keys["parameters"].any()))
                sites = Sites(
                    self.layout,
                    [definitions[name] for name in shapes],
                    Causes(axis, model, parameters),
                    steps,
                )
                shared = [spec for spec in specs if spec.name != PROBE]  # every rank has the same batch
                self._rank_run = RankRun(
                    _writer(label.described(description), self.layout, label.labelled(shared), model),
                    lambda sink, withdraw, own: Assembler(
                        self.observer.probes, self.layout, shapes, sink, withdraw, sites, own
                    ),
                )
        self.resumes = isinstance(self.writer, RunWriter) and self.writer.recovered is not None
        """Rows from the next one on may be there already, of a run that went further."""
        self.writer.annotate("found_by", anatomy.found_by)
        self.notes = (*anatomy.notes, *self._group_reasons.notes, *self._held.values())
        self.writer.annotate("notes", list(self.notes))
        self.writer.annotate("missing", self.missing)
        self._assemble = Assembler(
            self.observer.probes,
            self.layout,
            shapes,
            self.writer,
            self._withdraw,
            self.sites,
            self.link.gather,
            probe_shapes,
            self._say_masked,
            self.replay.refuse,
            lambda tokens: self.writer.annotate("sample_tokens", tokens),
            lambda reason: self._say_missing({"neighbours of dropped layers": reason}),
        )
        self.wiring = Wiring(model, axis, stored_parameters(model))
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
        on_device, on_host = split(facts, arming.device)
        counted = {
            id(count): (f"counted {place}", count)
            for place, count in enumerate(chain.from_iterable(each.counts for each in generations))
        }
        on_device |= counted.values()
        packet = Packet(
            stream_rows=observer.streams,
            step=step,
            looks=tuple(each.looks for each in generations),
            counted={key: name for key, (name, _) in counted.items()},
            device_scalars=tuple(on_device),
            host_scalars=on_host,
            traced=self._ledger.accumulators if traced else None,
            low_precision=self.low_precision,
        )
        self._note_misfits()
        scalars = list(chain.from_iterable(each.scalars for each in generations))
        vectors = list(chain.from_iterable(each.vectors for each in generations))
        ledger = [self._ledger.pack()] if traced else []
        self._submit(packet, scalars, [*vectors, *on_device.values(), *ledger])
        observer.checking = False
        if arming.traced:
            self._ledger.clear()
        arming.spoiled = False

    def submit_probe(self, step: int, generation: Generation, positions: int) -> None:
        """Hand over what the probe batch of so many token positions showed before the update of `step`."""
        self._resume_at(step)
        packet = Packet(
            stream_rows=frozenset({PROBE}),
            step=step,
            looks=(generation.looks,),
            host_scalars={"loss_tokens": float(positions)},
            low_precision=generation.low_precision,
        )
        self._submit(packet, generation.scalars, generation.vectors)

    def submit_named(self, stream: str, step: int, values: Mapping[str, Value]) -> None:
        """Hand over values under the user's own names; with several ranks those of rank 0 are kept."""
        if self.link.sending is not None:
            return
        self._resume_at(step)
        on_device, on_host = split(values, self.observer.arming.device)
        packet = Packet(
            stream_rows=frozenset({stream}), step=step, device_scalars=tuple(on_device), host_scalars=on_host
        )
        self._submit(packet, [], list(on_device.values()))

    def follow_device(self) -> None:
        """Add up in compiled code where the model is now."""
        if self._ledger.follow():
            self.warnings.append(MOVED)

    def reported(self, *, final: bool) -> dict[str, Any]:
        """Return this session's part of a `Report`; `final`: no row will come any more."""
        return {
            "dropped": self.handover.dropped + self.writer.dropped,
            "recorded": tuple(name for name in self.recorded if name not in self.missing),
            "missing": dict(self.missing),
            "sites": tuple(self.sites.lines(final=final)),
        }

    def positions_of(self, generations: Sequence[Generation]) -> int | Tensor | None:
        """Return the positions that count in these forwards; None where a mask is over none of what passed."""
        masked = [each for each in generations if each.mask is not None]
        unseen = [each for each in masked if not each.counts]
        if self.observer.arming.misfit or (unseen and self.observer.misfits):
            return None
        return sum((each.positions for each in generations), start=0)

    @property
    def low_precision(self) -> bool:
        """Whether some port showed an fp16 or bf16 tensor."""
        return self.observer.low_precision or self.observer.arming.low_precision

    def watch(self, tell: Callable[[str, int, Mapping[str, Any]], None]) -> None:
        """Tell of every row as it is before storage rounds it: stream, step and values."""
        self._assemble.sink = Watched(self.writer, tell)

    def forward_failed(self) -> None:
        """Forget what compiled code added up: part of it belongs to a forward that did not end."""
        if self.observer.arming.traced:
            self._ledger.clear()
            self.observer.arming.spoiled = bool(self.observer.generations)

    def mark(self) -> None:
        """Remember the forwards of the step so far."""
        self.observer.mark()
        self._traced_before = self.observer.arming.traced

    def back(self) -> None:
        """Forget the forwards since `mark`. What compiled code added up is one sum: earlier forwards go with them."""
        self.observer.back()
        if self.observer.arming.traced:
            self._ledger.clear()
            self.observer.arming.spoiled |= self._traced_before

    def add_note(self, text: str) -> None:
        self.notes = (*self.notes, text)
        self.writer.annotate("notes", list(self.notes))

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
        parts = [*scalars]
        device = next((tensor.device for tensor in (*scalars, *more)), None)
        for tensor in more:
            flat = tensor.detach().reshape(-1)
            if flat.device != device or flat.dtype not in (torch.float32, torch.float64):
                flat = flat.to(device, torch.promote_types(flat.dtype, torch.float32))
            parts.append(flat)
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
        if self._rows:
            self._note_sites(final=True)
        self.writer.close()
        if self._rank_run is not None:
            self._rank_run.close(self.missing, self.notes)

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
            self._look_for_changes()
            packet, flat = expand(packet, flat)
            if self._rank_run is not None:
                self._rank_run(packet, flat)
            self._assemble(packet, flat)
            if "fast" in packet.stream_rows and self.link.sending is None:
                self._rows += 1
                self._say_missing(known(self._group_reasons.news(), self.recorded))
                if self._rows == 1:
                    if not self._misfits and self.sites.blind:
                        self.warnings.append(NOTHING_COUNTS if self._masked else NOTHING_SEEN)
                        self._misfits = self._masked
                    self._note_repeated_calls()
                if self._rows == SILENT_AFTER:
                    self._name_empty_quantities()
            if self.link.sending is None:
                self._name_silent_sites(packet.stream_rows)
        except Exception as error:  # noqa: BLE001 - said, or raised, by the training thread
            self.error = self.error or error

    def _look_for_changes(self) -> None:
        """Leave out, from this row on, what belongs to modules that came or went since the recorder was attached."""
        changes = self.wiring.changes() if self.link.sending is None else []
        for change in changes:
            self._assemble.leave_out(change)
            self._say_missing({change.path: change.reason})
        if changes:
            more = f" (and {len(changes) - 1} more, see recorder.report())" if len(changes) > 1 else ""
            self.warnings.append(f"{changes[0].reason}{more}")

    def _absent(self, rank: int, reason: str) -> None:
        self._say_missing({f"rank {rank}": reason})

    def _withdraw(self, where: str, reason: str) -> None:
        self._say_missing({where: f"withdrawn: {reason}"})
        self.warnings.append(f"the record of {where} is withdrawn: {reason}")

    def _say_masked(self, step: int) -> None:
        self._masked = True
        self.writer.annotate("token_mask", MASKED.format(step=step))

    def _no_replay(self, reason: str) -> None:
        self._say_missing({name: reason for name in (*Mixing.quantities, *self._held)})

    def _note_misfits(self) -> None:
        """Say where a mask was given whose positions are not those of the tensors."""
        observer = self.observer
        if observer.arming.misfit:
            observer.misfits["compiled code"] = "a tensor of another shape than the mask's"
        said = observer.arming.no_mask
        new = {where: said or MISFIT.format(shapes) for where, shapes in observer.misfits.items()}
        new = {where: reason for where, reason in new.items() if where not in self.missing}
        if new:
            self._misfits = True
            self._say_missing(new)
            where, reason = next(iter(new.items()))
            self.warnings.append(f"nothing is recorded at {where} and {len(new) - 1} other places: {reason}")
        observer.misfits = {}

    def _say_missing(self, reasons: Mapping[str, str]) -> None:
        if reasons:
            self.missing |= reasons
            self.writer.annotate("missing", self.missing)

    def _note_repeated_calls(self) -> None:
        repeated = [
            f"layer {sublayer.index} ({sublayer.name}) is called {calls:g} times in a forward: its numbers are merged "
            "over the calls"
            for sublayer, calls in zip(self.axis.sublayers, self._assemble.calls, strict=True)
            if calls > 1
        ]
        if repeated:
            self.notes = (*self.notes, *repeated)
            self.writer.annotate("notes", list(self.notes))

    def _name_empty_quantities(self) -> None:
        """Say of each array that has no value yet what would give it one."""
        empty = [name for name in self.recorded if name not in {*self._assemble.present, *self.missing}]
        self._say_missing({name: NEEDS.get(name, NO_VALUE) for name in empty if NEEDS.get(name, NO_VALUE)})

    def _name_silent_sites(self, streams: frozenset[str]) -> None:
        """Say which sites fell silent with this row, and once enough rows were due, which never fired."""
        for place in self.sites.take_lost():
            where = self.sites.called(place)
            self._say_missing({where: STOPPED})
            self.warnings.append(f"nothing comes from the {where} any more: it {STOPPED}")
        if not self._misfits and any(self.sites.rows.get(stream) == SILENT_AFTER for stream in streams):
            silent = {self.sites.called(each.place): each.cause for each in self.sites.silences(streams)}
            if silent:
                self._say_missing(silent)
                first, reason = next(iter(silent.items()))
                more = f" (and {len(silent) - 1} more, see recorder.report())" if len(silent) > 1 else ""
                self.warnings.append(f"nothing was recorded at the {first}: {reason}{more}")
        if self.sites.changed or self._rows in (1, SILENT_AFTER):
            self._note_sites()

    def _note_sites(self, *, final: bool = False) -> None:
        self.sites.changed = False
        self.writer.annotate("sites", [line.to_json() for line in self.sites.lines(final=final)])


def _writer(
    description: RunDescription, layout: DepthLayout, streams: Sequence[StreamSpec], model: nn.Module
) -> RunWriter:
    """Go on with the run at the path, or create one."""
    shapes = {name: tuple(parameter.shape) for name, parameter in stored_parameters(model).items()}
    if holds_rows(description.path):
        refuse_other_parameters(description.path, shapes)
        return RunWriter.resume(description.path, layout=layout, streams=streams)
    writer = RunWriter.create(
        description.path,
        name=description.name,
        config=description.config,
        tags=description.tags,
        layout=layout,
        streams=streams,
        versions={"torch": torch.__version__},
    )
    keep_parameters(description.path, shapes)
    return writer
