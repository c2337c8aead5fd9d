"""Messages from every rank to rank 0, point to point, off the training threads."""

from __future__ import annotations

import pickle
import queue
import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch

from depthscope.recording.rank_rows import MergedRow

PATIENCE = timedelta(minutes=30)
"""How long a rank may be silent within one step: as long as torch's collectives wait by default."""


@dataclass(frozen=True, kw_only=True)
class Message:
    """A row, or the end of a rank's recording: with the reason, when it is not the end of its training."""

    row: MergedRow | None = None
    reason: str = ""

    @property
    def ends(self) -> bool:
        return self.row is None


class Lost(Exception):
    """Nothing comes from a rank any more, or nothing can be sent to it."""


def send(group: Any, message: Message) -> None:
    """Send to rank 0; returns when rank 0 took it. Raises `Lost`."""
    body = torch.frombuffer(bytearray(pickle.dumps(message)), dtype=torch.uint8)
    try:
        # gloo takes no message of unknown size.
        group.send([torch.tensor([body.numel()])], 0, 0).wait(PATIENCE)
        group.send([body], 0, 0).wait(PATIENCE)
    except RuntimeError as error:
        raise Lost(_first_line(error)) from error


def receive(group: Any, rank: int) -> Message:
    """Wait for the next message of `rank`. Raises `Lost`."""
    size = torch.zeros(1, dtype=torch.int64)
    try:
        group.recv([size], rank, 0).wait(PATIENCE)
        body = torch.empty(int(size), dtype=torch.uint8)
        group.recv([body], rank, 0).wait(PATIENCE)
    except RuntimeError as error:
        raise Lost(_first_line(error)) from error
    message: Message = pickle.loads(body.numpy().tobytes())
    return message


class Receiver:
    """Receives on a thread of its own: gloo's wait can't be interrupted, and a recording must be able to end."""

    def __init__(self, take: Callable[[int], Message], name: str) -> None:
        self._take = take
        self._asked: queue.SimpleQueue[int | None] = queue.SimpleQueue()
        self._came: queue.SimpleQueue[Message | Lost] = queue.SimpleQueue()
        self._deadline: float | None = None
        self._stuck = False
        self._name = f"depthscope receive {name}"
        self._thread: threading.Thread | None = None

    def __call__(self, rank: int) -> Message:
        """Return the next message of `rank`. Raises `Lost`."""
        if self._stuck:
            raise Lost("the recording was closed before it came")
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            self._thread.start()
        self._asked.put(rank)
        while True:
            try:
                came = self._came.get(timeout=0.2)
            except queue.Empty:
                if self._deadline is None or time.monotonic() < self._deadline:
                    continue
                self._stuck = True
                raise Lost("the recording was closed before it came") from None
            if isinstance(came, Lost):
                raise came
            return came

    def finish_by(self, seconds: float) -> None:
        """From now on wait for `seconds` at most, over all messages."""
        self._deadline = time.monotonic() + seconds

    def close(self) -> None:
        """End the thread, once what it waits for has come."""
        self._asked.put(None)

    def _run(self) -> None:
        while (rank := self._asked.get()) is not None:
            try:
                self._came.put(self._take(rank))
            except Lost as lost:
                self._came.put(lost)
            except Exception as error:  # noqa: BLE001 - a message that can't be read is as good as none
                self._came.put(Lost(f"{type(error).__name__}: {error}"))


def _first_line(error: Exception) -> str:
    """Return what gloo says, without its source file and its jokes."""
    line = str(error).splitlines()[0].split("This is typically")[0]
    return re.sub(r"^\[\S+:\d+\] ", "", line).strip(" .")
