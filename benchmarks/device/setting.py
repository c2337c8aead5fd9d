"""Where the device benchmark runs, how long it may take, and what a section reports."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from depthscope.models import Decoder, DecoderConfig, residual_from_string

NEEDS_CUDA = "needs CUDA"


@dataclass(frozen=True, kw_only=True)
class Line:
    """One measurement, or why there is none."""

    section: str
    what: str
    value: float | None = None
    unit: str = ""
    limit: str = ""
    held: bool | None = None
    """Whether the limit held; None without one."""
    note: str = ""

    def __str__(self) -> str:
        shown = self.note if self.value is None else f"{self.value:.4g} {self.unit}".strip()
        more = f" ({self.note})" if self.note and self.value is not None else ""
        verdict = {None: "", True: "held", False: "MISSED"}[self.held]
        return f"{self.section:<16}{self.what:<58}{shown + more:<44}{self.limit:<12}{verdict}"


@dataclass(frozen=True, kw_only=True)
class Setting:
    """One CUDA device, or the CPU in its place for a rehearsal."""

    device: torch.device
    folder: Path
    ends: float
    """On the clock of `time.monotonic`."""

    @property
    def rehearsal(self) -> bool:
        return self.device.type != "cuda"

    @property
    def seconds_left(self) -> float:
        return self.ends - time.monotonic()

    def compile(self, model: nn.Module, **options: Any) -> Any:
        """Compile the whole model without a break: with inductor, or in a rehearsal with the tracer alone."""
        return torch.compile(
            model, fullgraph=True, **({"backend": "aot_eager"} if self.rehearsal else options)
        )

    def autocast(self, on: bool = True) -> AbstractContextManager[Any]:
        return torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=on)

    def seconds(self, run: Callable[[], object]) -> float:
        """Time by the device's own events; in a rehearsal by the processor time of this process."""
        if self.rehearsal:
            started = time.process_time()
            run()
            return time.process_time() - started
        first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        first.record()
        run()
        last.record()
        last.synchronize()
        return float(first.elapsed_time(last)) / 1000

    def decoder(
        self, design: str, *, width: int, layers: int, heads: int, context: int, seed: int = 0
    ) -> Decoder:
        torch.manual_seed(seed)
        config = DecoderConfig(vocabulary=256, width=width, layers=layers, heads=heads, context=context)
        return Decoder(config, residual_from_string(design, config)).to(self.device)

    def tokens(self, batch: int, context: int) -> tuple[Tensor, Tensor]:
        """Return random ids and their targets, made on the device: one that comes from the host would be waited for."""
        ids = torch.randint(0, 256, (batch, context + 1), device=self.device)
        return ids[:, :-1], ids[:, 1:]


def loss_of(called: Callable[[Tensor], Tensor], inputs: Tensor, targets: Tensor) -> Tensor:
    return nn.functional.cross_entropy(called(inputs).flatten(0, 1), targets.flatten())


def at_most(section: str, what: str, value: float, limit: float, unit: str = "", note: str = "") -> Line:
    return Line(
        section=section,
        what=what,
        value=value,
        unit=unit,
        limit=f"<= {limit:g}",
        held=bool(value <= limit),
        note=note,
    )


def at_least(section: str, what: str, value: float, limit: float, unit: str = "", note: str = "") -> Line:
    return Line(
        section=section,
        what=what,
        value=value,
        unit=unit,
        limit=f">= {limit:g}",
        held=bool(value >= limit),
        note=note,
    )


def needs_cuda(section: str, what: str) -> Line:
    return Line(section=section, what=what, note=NEEDS_CUDA)
