"""Learning rate over training: warm up, stay, decay."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class WarmupStableDecay:
    """A factor on the learning rate: linear rise, plateau at 1, linear fall to `final` (Hu et al., arXiv 2404.06395)."""

    warmup: int
    """Steps of the rise; the last of them runs at the full rate."""
    decay_start: int
    """First step (from 0) of the fall."""
    total: int
    """Number of steps; the last of them runs at `final`."""
    final: float = 0.1

    def __post_init__(self) -> None:
        if not 0 <= self.warmup <= self.decay_start <= self.total:
            raise ValueError(
                f"warmup={self.warmup}, decay_start={self.decay_start}, total={self.total}: expected rising "
                "numbers of steps"
            )

    @classmethod
    def over(
        cls, steps: int, *, warmup: float = 0.1, decay: float = 0.2, final: float = 0.1
    ) -> WarmupStableDecay:
        """Return the schedule that warms up over the first and decays over the last share of `steps`."""
        rise = min(max(1, round(warmup * steps)), steps)
        return cls(warmup=rise, decay_start=max(rise, steps - round(decay * steps)), total=steps, final=final)

    def factor(self, step: int) -> float:
        """Return the factor for the step after `step` completed ones; `final` past the end."""
        if step < self.warmup:
            return (step + 1) / self.warmup
        if step < self.decay_start:
            return 1.0
        if step >= self.total:
            return self.final
        fallen = (step - self.decay_start + 1) / (self.total - self.decay_start)
        return 1.0 - (1.0 - self.final) * fallen
