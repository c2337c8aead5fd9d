"""What the training loop is told: each thing once, as a warning."""

from __future__ import annotations

import warnings
from collections.abc import Mapping

from depthscope.recording.values import Value, not_one_number

NO_FORWARD = (
    "no training forward of the module was seen before this step(): call the module that was given to the recorder. "
    "One that was compiled and has run before the recorder was attached goes on without its hooks: attach first, or "
    "call torch.compiler.reset(); and give example=, since compiled code can't show its depth axis"
)
NO_OPTIMIZER_STEP = (
    "no step of the optimizer was seen before this step(), so gradients are left out of its row: call "
    "recorder.step() after optimizer.step(), and pass scaler= when a GradScaler may skip steps"
)
STEP_TOO_EARLY = (
    "optimizer.step() comes behind recorder.step() in this loop, so each row would hold the parameter gradients of the step "
    "before: they are left out of all rows; call recorder.step() after optimizer.step()"
)
STEPPED_IN_PART = (
    "in some steps only some of the optimizers step: parameter gradients and their norms are left out of those rows, since "
    "others go on adding up"
)
COMPILED_WITHOUT_AXIS = (
    "the model is compiled as a whole, and compiled code can't show its depth axis: nothing is recorded; give the recorder "
    "example= (what the model is called with)"
)
ALL_POSITIONS = (
    "loss_tokens counts every position; where targets are masked, pass step(tokens=...), since the gradients per "
    "token are scaled by it"
)
RANK_ZERO_WRITES = "rank 0 writes the run; this rank hands its numbers to it"
RANKS_CAME_LATER = (
    "torch.distributed was initialised after the recorder was attached, so this run holds one process's tokens, and "
    "its activation gradients are those of that process's own loss: make the recorder after init_process_group and "
    "after the model is wrapped, on every rank"
)
PROBE_MISSED = (
    "the probe batch was not run in this step, since the loop calls compiled code and no step of an optimizer was seen "
    "before its update: give the recorder the optimizer"
)
NO_AXIS_YET = "the depth axis is found on the first training forward, which has not come yet"


class Notices:
    """Remembers what was said."""

    def __init__(self) -> None:
        self._said: set[str] = set()

    def say(self, text: str) -> None:
        """Warn, once for each text."""
        if text not in self._said:
            self._said.add(text)
            warnings.warn(f"depthscope: {text}", stacklevel=7)

    def usable(self, values: Mapping[str, Value | None]) -> dict[str, Value]:
        """Return the values that are one number each; another is left out, and that is said."""
        kept: dict[str, Value] = {}
        for name, value in values.items():
            if value is None:
                continue
            if problem := not_one_number(value):
                self.say(
                    f"{name} is {problem}, expected one number or a tensor with one entry: it is left out"
                )
            else:
                kept[name] = value
        return kept
