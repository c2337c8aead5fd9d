"""What `compare` sets side by side: steps on equal footing, and one number a line for each run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from depthscope.cli.errors import CliError

if TYPE_CHECKING:
    from depthscope.store import Run

_NAN = float("nan")
Number = Callable[["Run", int], float]


def footing(runs: Sequence[Run], at: str, asked: int | None) -> dict[str, int]:
    """Return the step of each run, by id, at which `at` (step, tokens or loss) is equal.

    `asked` is a step of the first run; None: as far as the run goes that is furthest behind. CliError where a
    run has no rows, or lacks what the comparison needs.
    """
    from depthscope.figures import aligned_step

    for run in runs:
        if run.last_step is None:
            raise CliError(f"compare: {run.name} has no record yet ({run.path})")
    if at == "step":
        last = min(run.last_step for run in runs if run.last_step is not None)
        return {run.id: last if asked is None else min(asked, last) for run in runs}
    reached = {run.id: _reached(run, at, runs) for run in runs}
    behind = (min if at == "tokens" else max)(runs, key=lambda run: reached[run.id])
    reference = behind if asked is None else runs[0]
    step = behind.last_step if asked is None else asked
    steps = {}
    for run in runs:
        found = aligned_step(run, reference, step, "tokens" if at == "tokens" else "loss")
        assert found is not None, "a step was asked for"
        steps[run.id] = found
    return steps


def _reached(run: Run, at: str, runs: Sequence[Run]) -> float:
    """Return the tokens that a run has seen, or the lowest loss it has reached."""
    import numpy as np

    if at == "tokens":
        if "tokens" not in run.quantities:
            raise CliError(f"compare: {run.name} has no tokens recorded; compare --at step")
        return float(run.read("tokens", columns=1).sel(stat="max").values[-1])
    name = _loss_name(runs)
    lowest = run.read(name, columns=1).sel(stat="min").values if name in run.quantities else np.empty(0)
    if not np.isfinite(lowest).any():
        raise CliError(f"compare: {run.name} has no {name} loss recorded; compare --at step")
    return float(lowest[-1])


def _loss_name(runs: Sequence[Run]) -> str:
    """Return the loss that all runs hold: validation, another evaluation, else the training loss."""
    from depthscope.figures import shared_losses

    names = [name for name in shared_losses(runs) if all(name in run.quantities for run in runs)]
    return names[0] if names else "loss"


def tokens_per_step(run: Run) -> float | None:
    """Return tokens per optimizer step: as recorded, else as configured, else None."""
    import numpy as np

    if "tokens" in run.quantities:
        tokens = run["tokens"].dropna("step")
        if tokens.size > 1:
            steps = np.asarray(tokens["step"].values, dtype=np.float64)
            return float((tokens.values[-1] - tokens.values[0]) / (steps[-1] - steps[0]))
    configured = run.config.get("tokens_per_step")
    return float(configured) if isinstance(configured, int | float) else None


def _scalar(*names: str) -> Number:
    """Return the newest finite value, at or before a step, of the first name that a run holds."""

    def read(run: Run, step: int) -> float:
        for name in names:
            if name in run.quantities:
                values = run.read(name, stop=step + 1).dropna("step")
                if values.ndim == 1 and values.size:
                    return float(values[-1])
        return _NAN

    return read


def _finding(kind: str, key: str, *, unless: str = "") -> Number:
    """Return a value of the first finding of a kind, but where its value `unless` is true."""

    def read(run: Run, step: int) -> float:
        from depthscope.analysis import findings

        for finding in findings(run, step=step):
            if finding.kind == kind:
                value: Any = None if finding.values.get(unless) else finding.values.get(key)
                return float(value) if isinstance(value, int | float) else _NAN
        return _NAN

    return read


def _cost(run: Run, step: int) -> float:
    """Return the time spent in `recorder.step` over that between steps, medians."""
    import numpy as np

    if not {"recording_seconds", "step_seconds"} <= set(run.quantities):
        return _NAN
    spent = run.read("recording_seconds", stop=step + 1).values
    between = run.read("step_seconds", stop=step + 1).values
    return float(np.nanmedian(spent) / np.nanmedian(between)) if np.isfinite(between).any() else _NAN


NUMBERS: Mapping[str, Number] = {
    "tokens": _scalar("tokens"),
    "validation loss": _scalar("validation"),
    "training loss": _scalar("loss"),
    "state rms, last over first transformer block": _finding("state_growth", "ratio"),
    "state rms, slope on log depth": _finding("state_growth", "exponent"),
    "fresh share, first quarter of depth": _finding("dilution", "first_quarter", unless="sampled"),
    "fresh share, last quarter of depth": _finding("dilution", "last_quarter", unless="sampled"),
    "the same on a sample of tokens, first quarter": _finding("dilution", "sample_first_quarter"),
    "the same on a sample of tokens, last quarter": _finding("dilution", "sample_last_quarter"),
    "state at block ends, smallest": _finding("block_sums", "low"),
    "state at block ends, largest": _finding("block_sums", "high"),
    "reset over construction ratio": _finding("block_boundary", "reset_over_construction"),
    "read change at boundaries": _finding("block_boundary", "read_change"),
    "position in block explains (R²)": _finding("block_boundary", "periodicity"),
    "gradient times write, variation over depth": _finding("gradient_uniformity", "relative_variation"),
    "widest skip path, weight": _finding("skip_path", "weight"),
    "widest skip path, contribution": _finding("skip_path", "contribution"),
    "attention sink, times uniform": _finding("attention_sink", "times_uniform"),
    "recorder.step(), share of a step": _cost,
}
"""One line each. Raw gradients are not among them: a design that rescales its states rescales them."""
