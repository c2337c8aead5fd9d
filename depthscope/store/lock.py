"""Who writes a run: a lock held for the writer's life, and a note that says who it is."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import socket
import time
import uuid
from functools import cache
from pathlib import Path
from typing import Any, Literal

from depthscope.store.errors import RunLocked
from depthscope.store.files import read_json, replace_json

Status = Literal["live", "finished", "stopped", "crashed"]
"""Stopped: closed, but by an exception, Ctrl-C, or a recording that failed."""
HEARTBEAT_SECONDS = 15.0
_SILENT_SECONDS = 120.0
_SETTLE_SECONDS = 0.1
_LOCK, _OWNER = "LOCK", "owner.json"
_NO_LOCKS = (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS)


class WriterLock:
    """An exclusive `flock` on a rank's folder. The kernel drops it when the process dies."""

    def __init__(self, folder: Path, run: Path) -> None:
        """Take the lock; RunLocked names the holder when there is one."""
        self._folder = folder
        self._file = os.open(folder / _LOCK, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o666)
        self._run = run
        self._by_heartbeat = False
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self._by_heartbeat = error.errno in _NO_LOCKS
            if not self._by_heartbeat or is_live(folder):
                os.close(self._file)
                raise RunLocked(run, _locked_message(run, folder)) from None
        self._owner: dict[str, Any] = {}

    def claim(self) -> None:
        """Write who holds the lock: only once it is sure that this process will write here.

        On a file system without locks the last one of several to write it has the run; RunLocked for others.
        """
        now = time.time()
        self._owner = {
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "boot_id": _boot_id(),
            "process_start": _process_start(os.getpid()),
            "start": now,
            "heartbeat": now,
            "token": uuid.uuid4().hex,
        }
        self._write()
        if self._by_heartbeat:
            time.sleep(_SETTLE_SECONDS)
            if self.lost():
                self.release()
                raise RunLocked(self._run, _locked_message(self._run, self._folder))

    def lost(self) -> bool:
        """Tell whether another process has taken the path over, which no lock can prevent everywhere."""
        if not self._owner or self._file < 0:
            return False
        if not self._by_heartbeat:
            # The folder was deleted, and another run made in its place.
            with contextlib.suppress(OSError):
                return os.stat(self._folder / _LOCK).st_ino != os.fstat(self._file).st_ino
            return False
        token = _owner(self._folder).get("token", self._owner["token"])
        return bool(token != self._owner["token"])

    def beat(self, *, left: bool = False) -> None:
        """Say that the writer is there, or that it has left without closing the run."""
        if self.lost():
            return
        self._owner["heartbeat"] = time.time()
        if left:
            self._owner["left"] = True
        self._write()

    def _write(self) -> None:
        replace_json(self._folder / _OWNER, self._owner, fsync=False)

    def leave(self) -> None:
        """Let go of a run that stays as it is, not closed."""
        if self._owner:
            with contextlib.suppress(OSError):
                self.beat(left=True)
        self.release()

    def release(self) -> None:
        """Let go. Closing is enough, and right in a forked child: its parent keeps the lock."""
        handle, self._file = self._file, -1
        if handle >= 0:
            os.close(handle)


def status(folder: Path, *, closed: bool) -> Status:
    """Return how the writer of a rank's folder is doing. Readers never lock."""
    if closed:
        return "finished"
    return "live" if is_live(folder) else "crashed"


def is_live(folder: Path) -> bool:
    """Tell whether the process in ``owner.json`` still writes."""
    owner = _owner(folder)
    if not owner or owner.get("left"):
        return False
    heartbeat, pid = owner.get("heartbeat"), owner.get("pid")
    if owner.get("host") == socket.gethostname() and owner.get("boot_id", _boot_id()) != _boot_id():
        return False
    if owner.get("host") != socket.gethostname() or not isinstance(pid, int):
        return isinstance(heartbeat, int | float) and time.time() - heartbeat < _SILENT_SECONDS
    start = owner.get("process_start")
    if start is not None:
        return bool(_process_start(pid) == start)
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        pass
    return True


def _locked_message(run: Path, folder: Path) -> str:
    owner = _owner(folder)
    pid, host, start = owner.get("pid"), owner.get("host", "an unknown host"), owner.get("start")
    age = f", for {_duration(time.time() - start)}" if isinstance(start, int | float) else ""
    if pid == os.getpid() and host == socket.gethostname():
        who, remedy = "this very process", "close the earlier recorder"
    else:
        who, remedy = f"process {pid} on {host}", "stop it"
    return f"{run} is being written by {who}{age}; {remedy}, or record to another path"


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{max(seconds, 0):.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"


def _owner(folder: Path) -> dict[str, Any]:
    with contextlib.suppress(OSError, ValueError):
        return read_json(folder / _OWNER)
    return {}


@cache
def _boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def _process_start(pid: int) -> int | None:
    """Return the start time of a process in clock ticks after boot, None when there is none (or no /proc).

    A pid comes round again; the pair of pid and start does not.
    """
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (OSError, ValueError):
        return None
    after = text[text.rfind(")") + 2 :].split()
    # A zombie is dead: it only waits for its parent to notice.
    return None if after[0] in "ZX" else int(after[19])
