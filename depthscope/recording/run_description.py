"""What is written once into a run's ``run.json``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True, kw_only=True)
class RunDescription:
    """Where a run goes, and what its ``run.json`` says beside what the model says."""

    path: Path
    name: str
    config: Mapping[str, Any] = field(default_factory=dict)
    tags: tuple[str, ...] = ()
    mantissa_bits: int | None = None
