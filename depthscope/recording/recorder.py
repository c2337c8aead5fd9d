"""`Recorder`: attach it to a model, call `step` once per optimizer step."""

from __future__ import annotations

import math
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.hooks import RemovableHandle

from depthscope.anatomy import Anatomy, inspect_model, unwrap
from depthscope.probes import Probe, checked_probes, registered_probes
from depthscope.recording import registry
from depthscope.recording.arming import Arming
from depthscope.recording.attaching import (
    check_resume,
    checked_model,
    checked_optimizers,
    checked_path,
    displace,
    unheld_parameters,
)
from depthscope.recording.clock import Clock
from depthscope.recording.evaluations import Evaluations
from depthscope.recording.graph_room import make_room
from depthscope.recording.leaving import close_at_exit
from depthscope.recording.neglect import Neglect
from depthscope.recording.notices import (
    ALL_POSITIONS,
    COMPILED_WITHOUT_AXIS,
    NO_AXIS_YET,
    NO_FORWARD,
    PROBE_MISSED,
    RANK_ZERO_WRITES,
    RANKS_CAME_LATER,
    STEP_TOO_EARLY,
    STEPPED_IN_PART,
    Notices,
)
from depthscope.recording.optimizers import OptimizerReader
from depthscope.recording.probe_batch import PROBE, ProbeBatch
from depthscope.recording.ranks import agreed, meet, several_ranks
from depthscope.recording.replaying import COMPILED_WHOLE, Replayed
from depthscope.recording.report import Report
from depthscope.recording.root_hooks import attach_root
from depthscope.recording.run_description import RunDescription
from depthscope.recording.schedule import Schedule, schedules
from depthscope.recording.session import Session
from depthscope.recording.shards import stored_parameters
from depthscope.recording.step_facts import Handed, Scaler, StepFacts
from depthscope.recording.strict import strict
from depthscope.recording.token_mask import TokenMask
from depthscope.recording.values import Value, checked_count, token_positions
from depthscope.store import refuse_writers


class Recorder:
    """Record a model's depth axis while it trains, without changing a bit of the training.

    Arguments:
        model: the module that the training loop calls.
            Among several ranks (DDP, ``fully_shard``): after it is wrapped, on every rank, after
            ``init_process_group``.
        path: folder of the run; created. See `resume` for one that already holds rows. Rank 0's counts.
        optimizer: one or several; parameter gradients are read at the moment of their step, as they use
            them. Without one, they are read in `step`, and are missing when ``zero_grad`` came before.
        scaler: the loop's GradScaler, so that gradients are recorded unscaled.
        start_step: number of optimizer steps already done.
        every: steps between rows of the fast stream (the slow stream: 100 times that), or a mapping of
            ``fast`` and ``slow`` to a number or a `Schedule`. Step s is due when ``s % every == 0``.
        probes: instead of the default ones and those that installed packages register under the entry point
            ``depthscope.probes``.
        anatomy: what `inspect_model` returned, when it had to be told something.
        example: arguments of the model's forward (a tensor, a tuple, or a dict of keywords) to find the
            depth axis with, before training. Without it the first training batch is used.
        config: anything JSON can hold; written into the run.
        name: shown in the viewer; the folder's name by default.
        mantissa_bits: round f4 values over depth to so many of their 23 mantissa bits; with 10 they are right
            to 0.05 %, and the run takes about half the space. None keeps all, as scalars always do.
        resume: what to do with a run that is there. ``"auto"`` goes on with it, or begins one: rows from the
            step of the first new row on (`start_step`, or that of the loaded state) become an earlier
            attempt, which is kept (``run.attempts``). ``"never"``: FileExistsError. ``"must"``:
            FileNotFoundError where no run is. A model other than the run's is a SchemaError.

        probe_batch: arguments of the model's forward (as `example`, which it stands in for) on the model's device:
            held-out tokens that are run in evaluation mode at given steps, so that two runs differ by what they
            learned and not by their data. Read them as ``run["probe/state_rms"]``. Training stays bitwise the same.
        probe_every: steps between its rows, or a `Schedule`; the slow stream's by default.
        per_rank: among several ranks, every rank also writes a run of its own beside the merged one
            (``PATH.rank00000``, ...): the statistics of its own tokens, gradients of its own loss, parameter gradients
            as its optimizer has them (under ``fully_shard``, of its shard). In one process there is nothing to add.

    A row's number is the count of optimizer steps completed before it: row 0 shows the untrained model. Attach
    before the first training step. After attaching nothing raises into the training loop: a
    recording that fails ends with one warning (under ``DEPTHSCOPE_STRICT=1`` it raises).

    With several ranks, rank 0 writes one run of the whole batch: statistics merge over all tokens of all ranks, the
    loss is the mean of the ranks' losses, tokens are summed, parameter gradients are those after their reduction, and
    activation gradients are those of that mean loss. What a loop hands in beside (learning rate, metrics, evaluation)
    is rank 0's. The ranks talk on threads of their own; one that stops or dies leaves its numbers missing, and that
    is said, but holds nobody up.

    In a step in which the slow stream is due, the model runs a few times more in evaluation mode on about 128 tokens of
    its batch, for ``mixing_contribution``: hooks of your own fire then too, and see origins that give zero.

    Warning: `step` is the clock. Call it once per optimizer step, after ``optimizer.step()``.
    """

    def __init__(
        self,
        model: nn.Module,
        path: str | Path,
        *,
        optimizer: torch.optim.Optimizer | Sequence[torch.optim.Optimizer] | None = None,
        scaler: Scaler | None = None,
        start_step: int = 0,
        every: int | Mapping[str, int | Schedule] = 1,
        probes: Sequence[Probe] | None = None,
        anatomy: Anatomy | None = None,
        example: Any = None,
        config: Mapping[str, Any] | None = None,
        name: str | None = None,
        tags: Sequence[str] = (),
        mantissa_bits: int | None = None,
        resume: Literal["auto", "never", "must"] = "auto",
        probe_batch: Any = None,
        probe_every: int | Schedule | None = None,
        per_rank: bool = False,
    ) -> None:
        self.path = checked_path(path)
        self.closed = False
        self._model, self._inner = checked_model(model), unwrap(model)
        self._every = schedules(every)
        optimizers = checked_optimizers(optimizer)
        displace(model, self.path)
        self._ranks = meet()
        with agreed(self._ranks, "attach") as agreement:
            agreement.own = self.path
            if self._ranks is None or self._ranks.writes:
                refuse_writers(self.path)
                check_resume(resume, self.path)
            if probes is None:
                registered_probes()  # one that can't be loaded is told of now, not at the first forward
            self._probe = ProbeBatch.given(self._inner, probe_batch, probe_every, self._every["slow"])
            shown = probe_batch if example is None else example
            self._anatomy = anatomy if anatomy is not None else inspect_model(model, shown)
            if self._probe is not None:
                self._probe.check()
            parameters = stored_parameters(self._inner)
            self._unheld = unheld_parameters(optimizers, parameters)
        if self._unheld:
            warnings.warn(f"depthscope: {self._unheld}", stacklevel=2)
        self.path = agreement.everyone[0]
        self._description = RunDescription(
            path=self.path,
            name=name or self.path.name,
            config=dict(config or {}),
            tags=tuple(tags),
            mantissa_bits=mantissa_bits,
        )
        self._probes = None if probes is None else checked_probes(probes)
        self._per_rank = per_rank
        self._session: Session | None = None
        self._arming = Arming(self._inner)
        make_room()
        self._tell: Callable[[str, int, Mapping[str, Any]], None] | None = None
        self._failure: str | None = None
        self._inert = False
        self._notices = Notices()
        self._clock = Clock(int(start_step))
        self._neglect = Neglect()
        self._stopped = False
        """An exception ends the recording, maybe before the first call of `step`."""
        self._rows = 0
        self._evaluated: dict[str, Value] = {}
        self._mask = TokenMask(self._arming)
        self._tokens_given = False
        self._alone_among_ranks = False
        """torch.distributed was initialised after attaching."""
        self._evaluations = Evaluations(self._evaluate_again, self._evaluate)
        self._optimizers = OptimizerReader(optimizers, parameters, self._read_gradients, self._evaluations)
        self._facts = StepFacts(self._optimizers, scaler, self._clock, self._notices)
        if self._anatomy.settled:
            self._open_session()
        self._handles: list[RemovableHandle] = [
            *attach_root(model, self, self._arming),
            *self._optimizers.attach(),
        ]
        self._forward_completed = False
        registry.enter(self)
        self._arm()

    # --- the training loop ------------------------------------------------------------------------------

    def step(
        self,
        loss: Value | None = None,
        *,
        step: int | None = None,
        tokens: int | None = None,
        grad_norm: Value | None = None,
        max_norm: float | None = None,
        metrics: Mapping[str, Value] | None = None,
    ) -> None:
        """End an optimizer step: its row is handed over, and the next step begins.

        Arguments:
            loss: mean loss over the step's tokens on this rank; a tensor stays on its device until the row is
                written.
            step: the number of this row, for loops that number steps themselves (gaps are fine).
            tokens: tokens that count in the loss over the whole step, on this rank. Default: positions of the
                first tensor that the model was called with. N is their sum over the ranks.
            grad_norm: what ``clip_grad_norm_`` returned, the global norm before clipping; under FSDP2 a DTensor,
                taken as it is.
            max_norm: the norm clipped to; with `grad_norm` it gives the clip coefficient.
            metrics: further numbers to keep with the run, under names of your own.
        """
        started = time.perf_counter()
        if not self._inert:
            handed = Handed(
                loss=loss, step=step, tokens=tokens, grad_norm=grad_norm, max_norm=max_norm, metrics=metrics
            )
            self._guarded(lambda: self._end_step(started, handed))
            self._facts.recording_seconds = time.perf_counter() - started

    def before_clip(self) -> None:
        """Note the global gradient norm before clipping. Optional; call it between backward and clipping."""
        session = self._session
        if not self._inert and session is not None and self._armed("fast"):
            self._guarded(lambda: self._facts.note_norm(session.link))

    @contextmanager
    def tokens(self, mask: Tensor) -> Iterator[None]:
        """Leave positions out of all statistics over tokens, in the forwards inside: padding, say.

        Only around the model's forward; the backward may lie outside. `step`'s default for `tokens` then is the
        number of positions that count. Micro-batches have masks of their own.

        Arguments:
            mask: True where a position counts, [batch, time] as the sublayers' tensors [batch, time, d] have it;
                whole numbers, 0 for padding, do too.
        """
        earlier = self._mask.set_aside()
        if not self._inert:
            self._guarded(lambda: self._mask.enter(mask))
        try:
            yield
        finally:
            self._mask.leave(earlier)

    def evaluation(self, **losses: Value) -> None:
        """Keep validation losses, any number of named sets, at the number of steps completed so far."""
        if not self._inert:
            # A copy: the tensor waits for the end of the step, and the loop may go on to use it.
            self._evaluated |= {
                name: value.detach().clone() if isinstance(value, Tensor) else value
                for name, value in losses.items()
            }

    # --- state ------------------------------------------------------------------------------------------

    @property
    def accepted_step(self) -> int | None:
        """Newest step that would survive a kill now; None before the first row. Rank 0 writes: on another, the
        newest that it has taken."""
        return None if self._session is None else self._session.writer.accepted_step

    def report(self) -> Report:
        """Return what is recorded, what is not and why; print it."""
        session, anatomy = self._session, self._anatomy
        known = {
            NO_AXIS_YET: session is None and not self._failure,
            RANK_ZERO_WRITES: self._ranks is not None and not self._ranks.writes,
            RANKS_CAME_LATER: self._alone_among_ranks,
            ALL_POSITIONS: bool(self._rows) and not self._tokens_given,
        }
        failed = [self._failure] if self._failure else []
        report = Report(
            path=str(self.path),
            design=anatomy.axis.design if anatomy.axis is not None else type(self._inner).__name__,
            found_by=anatomy.found_by,
            layers=len(anatomy.axis.sublayers) if anatomy.axis is not None else 0,
            rows=self._rows,
            streams={name: schedule.every for name, schedule in self._schedules().items()},
            notes=(
                *(anatomy.notes if session is None else session.notes),
                *failed,
                *filter(
                    None, [self._unheld, self._neglected(), "" if self.closed else self._evaluations.words]
                ),
                *(note for note, holds in known.items() if holds),
            ),
        )
        return report if session is None else replace(report, **session.reported(final=self.closed))

    def _schedules(self) -> dict[str, Schedule]:
        return self._every if self._probe is None else {**self._every, PROBE: self._probe.schedule}

    def state_dict(self) -> dict[str, Any]:
        """Return what a checkpoint has to hold so that it resumes the record (torch's Stateful protocol).

        Take it between two steps, beside the model's own: step number, tokens seen, evaluations to come.
        """
        evaluated = {name: float(value) for name, value in self._notices.usable(self._evaluated).items()}
        return {**self._clock.state(), "evaluated": evaluated}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on behind a checkpoint. Rows that lie beyond it become an earlier attempt with the next row."""
        self._clock.restore(state)
        self._evaluated = dict(state.get("evaluated", {}))
        self._facts.forget()
        if self._probe is not None:
            self._probe.forget()
        if self._session is not None:
            self._session.resumes = True
        self._arm()

    def close(self) -> None:
        """Detach from the model and write everything. Safe to call twice; in a forked child it does nothing.

        With several ranks every one closes: rank 0 writes what the others hand over until they do, and waits a
        minute at most for one that does not. Another rank waits as long for rank 0 to take its rows. Whoever waits
        longer than a second says on stderr for whom.
        """
        self._close(leaving=False)

    def _close(self, *, leaving: bool) -> None:
        if self.closed or self._inert:
            return
        self.closed = True
        for handle in self._handles:
            handle.remove()
        if self._session is not None:
            self._guarded(self._submit_evaluation)
            if self._evaluations.words:
                self._session.add_note(self._evaluations.words)
            self._session.close(leaving=leaving)
            self._guarded(self._say_warnings)
        neglected = "" if self._stopped else self._neglected()
        self._inert = True
        if neglected:
            warnings.warn(f"depthscope: {neglected}", stacklevel=3)
        elif self._session is None and not self._failure:
            warnings.warn(
                f"depthscope recorded nothing into {self.path}: the model never ran forward in training mode with "
                "gradients enabled while the recorder was attached",
                stacklevel=2,
            )

    def _neglected(self) -> str:
        """Return the words for calls of `step` that are missing, or nothing."""
        arming = self._arming
        forwards = self._clock.forwards + (int(arming.counted[0]) if arming.traced_root else 0)
        return self._neglect.words(forwards, [steps for steps in self._optimizers.steps.values() if steps])

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self._note_stopped(kind.__name__)
        self._close(leaving=kind is not None)

    def leave(self) -> None:
        """Close because the interpreter ends; an uncaught exception ended it if Python has printed one."""
        if getattr(sys, "last_value", None) is not None and not self.closed:
            self._note_stopped(type(sys.last_value).__name__)
        self._close(leaving=True)

    def _note_stopped(self, by: str) -> None:
        self._stopped = True
        if self._session is not None and not self._inert:
            self._session.writer.annotate("stopped", by)

    def watch(self, tell: Callable[[str, int, Mapping[str, Any]], None]) -> None:
        """Have `tell` called with stream, step and values of every row, in fp64 as it was before storage rounds it.

        It runs on a thread of the recorder's; rows are complete once the recorder is closed. Among several ranks,
        rank 0 has them.
        """
        self._tell = tell
        if self._session is not None:
            self._session.watch(tell)

    @property
    def anatomy(self) -> Anatomy:
        """Where the depth axis is; settled once a training forward, or an example, was seen."""
        return self._anatomy

    # --- the registry -----------------------------------------------------------------------------------

    def records(self, model: nn.Module) -> bool:
        return unwrap(model) is self._inner

    def abandon(self) -> None:
        """In a forked child: record nothing, write nothing, close nothing."""
        self._inert = True
        if self._session is not None:
            self._session.observer.live = False

    # --- inside -----------------------------------------------------------------------------------------

    def _open_session(self) -> None:
        self._session = Session(
            self._inner,
            self._anatomy,
            self._description,
            self._every,
            self._probes,
            self._guarded,
            self._arming,
            self._ranks,
            self._probe,
            self._ranks is None or isinstance(self._model, DistributedDataParallel),
            self._per_rank,
        )
        self._session.wiring.strangers = self._optimizers.strangers
        if self._tell is not None:
            self._session.watch(self._tell)
        close_at_exit(self)

    def _armed(self, stream: str) -> bool:
        return self._session is not None and stream in self._session.observer.streams

    def _arm(self) -> None:
        """Decide what the coming step records: a pure function of its number."""
        if self._session is not None:
            due = {stream for stream, schedule in self._every.items() if schedule.due(self._clock.next)}
            recorded = frozenset(due) & self._session.due_streams
            self._session.observer.streams = frozenset() if self._failure else recorded
            self._arming.set(self._session.observer.streams)

    def before_forward(self, module: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """Called by the root module's hook. A checkpoint's recomputation runs inside a backward and is no forward."""
        recomputing = torch._C._current_graph_task_id() != -1
        if not recomputing:
            self._forget_interrupted()
        if module.training and torch.is_grad_enabled() and not (recomputing or self._failure or self._inert):
            self._guarded(lambda: self._begin_forward(args, kwargs))

    def forward_completed(self) -> None:
        """Called by the root module's hook when forward returned."""
        self._forward_completed = True

    def after_forward(self) -> None:
        """Called by the root module's hook whether forward returned or raised."""
        if not self._inert:
            self._guarded(self._end_forward)

    def _forget_interrupted(self) -> None:
        """Close a forward that never ended: torch calls no hook when Ctrl-C stops it."""
        if self._session is not None and self._session.observer.in_step and not self._inert:
            self._forward_completed = False
            self._guarded(self._end_forward)

    def _begin_forward(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        if self._session is None:
            with agreed(self._ranks, "find the depth axis on the first forward"):
                self._anatomy = self._anatomy.settle(self._inner, args, dict(kwargs))
            self._open_session()
            self._arm()
        self._run_probe()
        replayed = self._replay(args, kwargs)
        self._mask.begin_forward()
        called_with = token_positions(args, kwargs)
        positions = called_with if self._mask.coming is None else self._mask.coming.sum()
        self._clock.saw_forward(positions, called_with)
        self._forward_completed = False
        if self._session is not None and self._session.observer.streams:
            self._session.follow_device()
            self._session.observer.begin_forward(positions)
            if replayed is not None:
                self._session.observer.see_replay(replayed)
            self._arming.gate.fill_(1.0)

    def _end_forward(self) -> None:
        if self._session is None or not self._session.observer.in_step:
            return
        self._session.observer.end_forward(completed=self._forward_completed)
        self._arming.gate.zero_()
        if not self._forward_completed:
            self._session.forward_failed()
        self._facts.note_scale()

    def _run_probe(self) -> None:
        """Run the probe batch where the step is due: before its first forward, or else before its update."""
        session, probe = self._session, self._probe
        if probe is None or session is None or self._failure or not probe.wanted(self._clock.next):
            return
        observer = session.observer if session.link.sending is None else None
        probe.take(self._clock.next, observer, session.replay)

    def _replay(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Replayed | None:
        """Replay a sample of the first forward of a step in which the slow stream is due."""
        session = self._session
        if session is None or "slow" not in session.observer.streams or session.observer.generations:
            return None
        return session.replay.take(args, kwargs, self._mask.coming)

    def _read_gradients(self, gradients: Callable[[], Mapping[str, Tensor]], scale: Tensor | None) -> None:
        if not self._inert and self._optimizers.optimizers and not self._optimizers.closure:
            # The first forward was compiled code, where nothing can be run in between.
            self._guarded(self._run_probe)
        if self._inert or self._failure:
            return
        seen = self._clock.forwards or self._arming.traced_root
        if self._clock.any_forward and not seen and not self._optimizers.closure:
            self._optimizers.early = True
            self._notices.say(STEP_TOO_EARLY)
        elif self._armed("fast") and self._session is not None:
            observer = self._session.observer
            self._guarded(lambda: observer.see_parameter_gradients(gradients(), scale))

    def _evaluate(self) -> None:
        """An optimizer begins a step in which it evaluates its loss itself."""
        self._clock.mark()
        if self._session is not None and not self._inert:
            self._session.mark()

    def _evaluate_again(self) -> None:
        """It evaluates once more: what the evaluation before showed belongs to no row."""
        self._clock.back()
        if self._session is not None and not self._inert:
            self._forget_interrupted()
            self._guarded(self._session.back)

    def _end_step(self, started: float, handed: Handed) -> None:
        self._forget_interrupted()
        self._neglect.calls += 1
        clock, session = self._clock, self._session
        label, tokens = clock.label(handed.step), self._checked_tokens(handed.tokens)
        step_tokens: int | Tensor = clock.positions if tokens is None else tokens
        self._submit_evaluation()
        unseen = self._arming.traced_root and not clock.forwards
        if unseen:
            clock.saw_forward(0, 0)
        if unseen and session is None:
            self._notices.say(COMPILED_WITHOUT_AXIS)
        if not clock.forwards and not self._failure:
            self._notices.say(NO_FORWARD)
        if not self._rows and self._ranks is None and several_ranks():
            self._alone_among_ranks = True
            self._notices.say(RANKS_CAME_LATER)
        if session is not None:
            self._submit_probe(session, label)
            if session.observer.streams:
                if unseen and "slow" in session.observer.streams and self._probe is None:
                    session.replay.refuse(COMPILED_WHOLE)
                step_tokens = self._submit_row(session, label, started, handed, tokens)
            if handed.metrics:
                session.submit_named("metrics", label, self._notices.usable(handed.metrics))
        clock.advance(label, given=handed.step is not None, tokens=step_tokens, now=started)
        self._tokens_given |= tokens is not None or self._mask.given
        self._mask.end_step()
        self._facts.forget()
        self._optimizers.forget()
        self._arm()
        self._say_warnings()

    def _checked_tokens(self, given: int | None) -> int | None:
        tokens = None if given is None else checked_count(given)
        if given is not None and tokens is None:
            self._notices.say(
                f"tokens is {given!r}, expected a whole number of tokens: positions are counted in their place"
            )
        return tokens

    def _submit_row(
        self, session: Session, label: int, started: float, handed: Handed, tokens: int | None
    ) -> int | Tensor:
        """Hand over what the step's forwards and backwards showed; return the number of its tokens."""
        if not self._optimizers.optimizers:
            self._read_gradients(self._optimizers.gradients, None)
        if self._optimizers.in_part:
            self._notices.say(STEPPED_IN_PART)
        generations = session.observer.take()
        counted = session.positions_of(generations)
        step_tokens: int | Tensor | None = counted if tokens is None else tokens
        if step_tokens is None:
            step_tokens = self._clock.called_with
        facts = self._facts.collect(handed, started=started, loss_tokens=step_tokens) | {
            "read_in_step": None if self._optimizers.optimizers else 1.0,
            "read_in_part": 1.0 if self._optimizers.in_part else None,
            "masked": 1.0 if self._mask.given else None,
        }
        if tokens is None and isinstance(step_tokens, int) and not step_tokens:
            facts["tokens"] = None  # nothing that the model was called with tells
        if tokens is None and counted is None:
            facts["loss_tokens"] = math.nan
        session.submit_row(label, generations, self._notices.usable(facts))
        session.follow_device()
        self._rows += 1
        return step_tokens

    def _submit_probe(self, session: Session, label: int) -> None:
        probe = self._probe
        if probe is None:
            return
        if probe.wanted(self._clock.next):
            self._notices.say(PROBE_MISSED)
        elif (shown := probe.hand_over()) is not None:
            session.submit_probe(label, shown, probe.positions)

    def _submit_evaluation(self) -> None:
        if self._evaluated and self._session is not None:
            self._session.submit_named("evaluation", self._clock.next, self._notices.usable(self._evaluated))
            self._evaluated = {}

    def _say_warnings(self) -> None:
        session = self._session
        if session is None:
            return
        if session.error is not None:
            error, session.error = session.error, None
            raise error
        while session.warnings:
            warnings.warn(f"depthscope: {session.warnings.pop(0)}", stacklevel=4)

    def _guarded(self, action: Callable[[], None]) -> None:
        """Run `action`; its failure ends the recording with one warning and leaves the training alone."""
        try:
            action()
        except Exception as error:
            if strict():
                raise
            self._failure = f"recording ended: {type(error).__name__}: {error}"
            if self._session is not None:
                self._session.observer.live = False
                self._session.observer.streams = frozenset()
                self._session.stop(self._failure)
            self._notices.say(f"{self._failure}; training goes on")
