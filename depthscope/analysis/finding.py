"""What a finding is: one sentence about a run, with the numbers and the place that back it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Severity = Literal["info", "warning"]
Value: TypeAlias = "float | int | str | bool | tuple[float, ...] | tuple[str, ...] | None"


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One finding about one run.

    `values` holds plain numbers and names; a value that could not be computed is None, never a guess.
    """

    kind: str
    """`state_growth`, `dilution`, ...: the name of the rule that found it."""
    run_name: str
    text: str
    """One line in plain words, without the run's name."""
    values: Mapping[str, Value] = field(default_factory=dict)
    page: str
    """The page of the app that shows the evidence: `depth`, `boundaries`, `attention`, ..."""
    quantity: str
    """The quantity to show there."""
    step: int
    """The recorded step that the numbers were read at."""
    severity: Severity = "info"
    detail: str = ""
    """What the number is and what it leaves out, for a tooltip or a longer report."""
    baseline_name: str = ""
    """The run that `baseline_values` belong to, both read at or before the same step; empty without one."""
    baseline_values: Mapping[str, Value] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", MappingProxyType(dict(self.values)))
        object.__setattr__(self, "baseline_values", MappingProxyType(dict(self.baseline_values)))

    @property
    def sentence(self) -> str:
        """The line to print: the run's name, then the text."""
        return f"{self.run_name}: {self.text}"


def as_values(result: DataclassInstance) -> dict[str, Value]:
    """Return the fields of a result as a finding stores them: what holds a number that is not finite is None."""
    out: dict[str, Value] = {}
    for entry in fields(result):
        value = getattr(result, entry.name)
        numbers = value if isinstance(value, tuple) else (value,)
        broken = any(isinstance(number, float) and not math.isfinite(number) for number in numbers)
        out[entry.name] = None if broken else value
    return out
