"""A run's past in words: earlier attempts, and rows that were lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from depthscope.store.run import Run

_MOST = 5


def attempts_in_words(run: Run) -> list[str]:
    """Return one text an earlier attempt, the newest first, and how many more there were."""
    rewinds = run.attempts
    told = []
    for number in range(len(rewinds), max(0, len(rewinds) - _MOST), -1):
        try:
            last = run.attempt(number).last_step
            end = "no row" if last is None else f"up to step {last:,}"
        except (OSError, ValueError):  # RunError: its files are damaged or were deleted
            end = "cannot be read"
        told.append(f"attempt {number}: {end}, taken back to step {rewinds[number - 1].step:,}")
    return _and_more(told, len(rewinds))


def gaps_in_words(run: Run) -> list[str]:
    """Return one text a gap, the newest first, and how many more there were."""
    gaps = sorted(run.gaps, key=lambda gap: gap.last_step, reverse=True)
    told = [
        f"{gap.stream}: {gap.rows:,} row{'s' if gap.rows > 1 else ''}, "
        f"steps {gap.first_step:,} to {gap.last_step:,} ({gap.reason or 'reason not recorded'})"
        for gap in gaps[:_MOST]
    ]
    return _and_more(told, len(gaps))


def _and_more(told: list[str], count: int) -> list[str]:
    return [*told, f"and {count - _MOST} more before"] if count > _MOST else told
