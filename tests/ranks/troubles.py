"""Scenarios in which some rank does not do what the others do."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

from depthscope.anatomy import inspect_model
from depthscope.recording import Recorder, rank_link, ranks
from depthscope.store import RunWriter, flush_thread
from tests.ranks.models import batch_of, trained
from tests.ranks.recordings import EVERY, step, still, wrapped


def _recorder(model: nn.Module, path: Path, **options: Any) -> Recorder:
    arguments = {"optimizer": still(model), "every": EVERY, "example": batch_of(0)[0]} | options
    return Recorder(model, path, **arguments)


def early(design: str, how: str, path: Path) -> dict[str, Any]:
    """Rank 1 has two batches, rank 0 three."""
    model = wrapped(trained(design), how)
    rank = dist.get_rank()
    optimizer = still(model)
    with Recorder(model, path, optimizer=optimizer, every=EVERY) as recorder, model.join():
        for place in range(3 - rank):
            step(model, optimizer, recorder, 10 * place + rank)
    return {"missing": recorder.report().missing, "accepted": recorder.accepted_step}


def failed(design: str, how: str, path: Path) -> dict[str, Any]:
    """The recording of rank 1 fails at its second step; its training goes on."""
    os.environ["DEPTHSCOPE_STRICT"] = "0"
    model = wrapped(trained(design), how)
    rank = dist.get_rank()
    optimizer = still(model)
    losses = []
    with _recorder(model, path, optimizer=optimizer) as recorder:
        for place in range(3):
            if (rank, place) == (1, 1):
                recorder._session.observer.take = lambda: 1 / 0
            losses.append(step(model, optimizer, recorder, 10 * place + rank))
    os.environ["DEPTHSCOPE_STRICT"] = "1"
    return {"missing": recorder.report().missing, "losses": losses}


def dropped(design: str, how: str, path: Path) -> dict[str, Any]:
    """Rank 1 drops its second row, as it does when its queue is full."""
    model = wrapped(trained(design), how)
    rank = dist.get_rank()
    optimizer = still(model)
    with _recorder(model, path, optimizer=optimizer) as recorder:
        submit = recorder._session.handover.submit
        for place in range(3):
            full = (rank, place) == (1, 1)
            recorder._session.handover.submit = (lambda packet, flat: False) if full else submit
            step(model, optimizer, recorder, 10 * place + rank)
    return {"missing": recorder.report().missing}


def stuck(design: str, how: str, path: Path) -> dict[str, Any]:
    """Rank 1 neither hands over its row nor ends its recording while rank 0 closes."""
    model = trained(design)
    optimizer = still(model)
    recorder = _recorder(model, path, optimizer=optimizer)
    kept, rank_link.CLOSING_SECONDS = rank_link.CLOSING_SECONDS, 1.0
    started = time.monotonic()
    if dist.get_rank() == 0:
        for place in range(3):
            step(model, optimizer, recorder, 10 * place)
        recorder.close()
    seconds = time.monotonic() - started
    dist.barrier()
    if dist.get_rank() == 1:
        recorder.close()
    rank_link.CLOSING_SECONDS = kept
    return {"missing": recorder.report().missing, "seconds": seconds}


class _Printed:
    """Stands in for stderr, and notes when what was printed."""

    def __init__(self) -> None:
        self.lines: list[tuple[float, str]] = []

    def write(self, text: str) -> int:
        if text.strip():
            self.lines.append((time.monotonic(), text))
        return len(text)

    def flush(self) -> None: ...


def closed_alone(design: str, how: str, path: Path) -> dict[str, Any]:
    """One rank closes behind a row of its own, the other only when that one has given up; `how` says which."""
    model = trained(design)
    optimizer = still(model)
    recorder = _recorder(model, path, optimizer=optimizer)
    rank = dist.get_rank()
    kept, rank_link.CLOSING_SECONDS = rank_link.CLOSING_SECONDS, 4.0
    printed, stderr = _Printed(), sys.stderr
    first = rank == int(how)
    if first or rank == 0:
        # Rank 0 has its own row, rank 1's part of which it still waits for when it closes.
        step(model, optimizer, recorder, rank)
    started = time.monotonic()
    if first:
        sys.stderr = printed  # type: ignore[assignment]
        recorder.close()
        sys.stderr = stderr
    seconds = time.monotonic() - started
    dist.barrier()
    if not first:
        recorder.close()
    rank_link.CLOSING_SECONDS = kept
    dist.barrier()
    return {"printed": [(at - started, text) for at, text in printed.lines], "seconds": seconds}


def disagreeing(design: str, how: str, path: Path) -> dict[str, Any]:
    """Rank 1 asks for other rows; rank 0's path is taken."""
    said = {}
    rank = dist.get_rank()
    for name, options in {"every": {"every": 1 + rank}, "anatomy": {}, "path": {}}.items():
        model = trained("prenorm" if name == "anatomy" and rank else design)
        if name == "path":
            folder = path / "taken"
            if rank == 0:
                (folder.parent).mkdir(parents=True, exist_ok=True)
                folder.write_text("a file")
        else:
            folder = path / name
        try:
            _recorder(model, folder, **options)
        except (RuntimeError, OSError) as error:
            said[name] = f"{type(error).__name__}: {error}"
        dist.barrier()
    return said


def refused(design: str, how: str, path: Path) -> dict[str, Any]:
    """Parameters sharded in ways that are not recorded."""
    tensor, flat = trained(design), trained(design)
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    parallelize_module(tensor.tower[1].beta, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
    flat.tower[1] = FullyShardedDataParallel(flat.tower[1], device_id=torch.device("cpu"))
    said = {}
    for name, model in {"tensor": tensor, "flat": flat}.items():
        try:
            _recorder(model, path, example=None, anatomy=inspect_model(trained(design), batch_of(0)[0]))
        except ValueError as error:
            said[name] = str(error)
        dist.barrier()
    return said


def alone(design: str, how: str, path: Path) -> dict[str, Any]:
    """Rank 0 makes a recorder, rank 1 none."""
    said = ""
    kept, ranks.MEETING_SECONDS = ranks.MEETING_SECONDS, 1
    if dist.get_rank() == 0:
        try:
            _recorder(trained(design), path)
        except RuntimeError as error:
            said = str(error)
    else:
        next(ranks._attached)
    ranks.MEETING_SECONDS = kept
    return {"said": said}


def late(design: str, how: str, path: Path) -> dict[str, Any]:
    """The recorder comes before init_process_group, on both ranks with the same path; rank 1 then takes another."""
    rank = int(os.environ["RANK"])
    model = trained(design)
    optimizer = still(model)
    folder, said = path / "run", ""
    if rank == 1:
        while not (folder / "run.json").exists():
            time.sleep(0.01)
        try:
            _recorder(model, folder, optimizer=optimizer)
        except ValueError as error:
            said = f"{type(error).__name__}: {error}"
            folder = path / "other"
    recorder = _recorder(model, folder, optimizer=optimizer)
    dist.init_process_group("gloo")
    for place in range(2):
        step(model, optimizer, recorder, rank + 10 * place)
    recorder.close()
    return {"notes": recorder.report().notes, "said": said}


def destroyed(design: str, how: str, path: Path) -> dict[str, Any]:
    """The process group goes before the recorder does."""
    model = wrapped(trained(design), how)
    optimizer = still(model)
    rank = dist.get_rank()
    with _recorder(model, path, optimizer=optimizer) as recorder:
        for place in range(3):
            step(model, optimizer, recorder, 10 * place + rank)
        dist.destroy_process_group()
    return {"missing": recorder.report().missing}


def killed(design: str, how: str, path: Path) -> dict[str, Any]:
    """Rank 1 is killed after two rows; rank 0 trains on, by itself."""
    model = trained(design)
    optimizer = still(model)
    rank = dist.get_rank()
    recorder = _recorder(model, path, optimizer=optimizer)
    losses = []
    for place in range(5):
        if (rank, place) == (1, 2):
            while recorder.accepted_step != 1:
                time.sleep(0.01)
            os.kill(os.getpid(), signal.SIGKILL)
        losses.append(step(model, optimizer, recorder, 10 * place + rank))
    started = time.monotonic()
    recorder.close()
    seconds = time.monotonic() - started
    return {"missing": recorder.report().missing, "losses": losses, "seconds": seconds}


def cut_off(design: str, how: str, path: Path) -> dict[str, Any]:
    """Rank 1 dies after two rows, and rank 0 as soon as the third is in the log, before anything else is written."""
    # Notes and rows reach no commit by themselves within the time that this takes.
    flush_thread._NOTE_SECONDS = flush_thread._FIRST_SECONDS = 600.0
    model = trained(design)
    optimizer = still(model)
    rank = dist.get_rank()
    recorder = _recorder(model, path, optimizer=optimizer)
    accept = RunWriter.append

    def append(self: RunWriter, stream: str, step_: int, values: Mapping[str, Any]) -> bool:
        accepted = accept(self, stream, step_, values)
        if (stream, step_) == ("fast", 2):
            os.kill(os.getpid(), signal.SIGKILL)
        return accepted

    RunWriter.append = append  # type: ignore[method-assign]
    for place in range(3):
        if (rank, place) == (1, 2):
            while recorder.accepted_step != 1:
                time.sleep(0.01)
            os._exit(3)
        step(model, optimizer, recorder, 10 * place + rank)
    recorder.close()
    return {}


def raised(design: str, how: str, path: Path) -> dict[str, Any]:
    """An error of rank 0's own after two rows; rank 1 is through one step later."""
    model = trained(design)
    optimizer = still(model)
    rank = dist.get_rank()
    with _recorder(model, path, optimizer=optimizer) as recorder:
        for place in range(3):
            if (rank, place) == (0, 2):
                raise KeyError("the script's own")
            step(model, optimizer, recorder, 10 * place + rank)
    return {}
