"""From the training thread to the drain thread: a copy in the background, never a wait."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from depthscope.probes import Array
from depthscope.recording.packet import Packet

LIMIT_BYTES = 64 * 2**20


@dataclass(frozen=True, kw_only=True)
class _Sent:
    packet: Packet
    host: Tensor
    length: int
    arrived: torch.cuda.Event | None


class Handover:
    """A queue bounded by bytes, drained by one daemon thread.

    On CUDA a packet travels through a pinned buffer with a non-blocking copy and an event that only the drain
    thread waits for. Past `LIMIT_BYTES` under way, a packet is dropped and counted.
    """

    def __init__(
        self, consume: Callable[[Packet, Array], None], name: str, last: Callable[[], None] = lambda: None
    ) -> None:
        """`last` is called on the thread when it ends."""
        self.dropped = 0
        self._consume, self._last = consume, last
        self._queue: queue.SimpleQueue[_Sent | None] = queue.SimpleQueue()
        self._buffers: queue.SimpleQueue[Tensor] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._under_way = 0
        self._bytes = 0
        self._empty = threading.Condition(self._lock)
        self._thread = threading.Thread(target=self._drain, name=f"depthscope drain {name}", daemon=True)
        self._thread.start()

    def submit(self, packet: Packet, flat: Tensor) -> bool:
        """Hand over; False when the drain is so far behind that the packet is dropped."""
        size = flat.numel() * flat.element_size()
        with self._lock:
            if self._bytes + size > LIMIT_BYTES:
                self.dropped += 1
                return False
            self._bytes += size
            self._under_way += 1
        arrived = None
        host = flat
        if flat.device.type == "cuda":
            host = self._pinned(flat.numel())
            host[: flat.numel()].copy_(flat, non_blocking=True)
            arrived = torch.cuda.Event(blocking=True)  # type: ignore[no-untyped-call]
            # The stream of the copy: the current one of that device, which need not be the current device.
            arrived.record(torch.cuda.current_stream(flat.device))
        self._queue.put(_Sent(packet=packet, host=host, length=flat.numel(), arrived=arrived))
        return True

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until everything handed over was consumed; False when `timeout` seconds did not suffice."""
        with self._empty:
            return self._empty.wait_for(lambda: self._under_way == 0, timeout)

    def close(self, timeout: float | None = None) -> bool:
        """Consume what is under way and end the thread; False when `timeout` seconds did not suffice."""
        self._queue.put(None)
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def _numbers(self, sent: _Sent) -> Array:
        if sent.arrived is not None:
            sent.arrived.synchronize()
        # Of other devices than CUDA the copy is made here, where it may wait.
        numbers = np.asarray(sent.host[: sent.length].cpu().numpy(), dtype=np.float64)
        if sent.arrived is not None:
            self._buffers.put(sent.host)
        return numbers

    def _pinned(self, length: int) -> Tensor:
        try:
            buffer = self._buffers.get_nowait()
        except queue.Empty:
            return torch.empty(2 * length, pin_memory=True)
        return buffer if buffer.numel() >= length else torch.empty(2 * length, pin_memory=True)

    def _drain(self) -> None:
        while (sent := self._queue.get()) is not None:
            try:
                self._consume(sent.packet, self._numbers(sent))
            except RuntimeError:  # of the device; training hears of it by itself
                self.dropped += 1
            finally:
                with self._empty:
                    self._bytes -= sent.length * sent.host.element_size()
                    self._under_way -= 1
                    self._empty.notify_all()
        self._last()
