"""What the training thread hands over for one optimizer step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain

from torch import Tensor

from depthscope.recording.accumulator import Accumulator
from depthscope.recording.merge import Visit


@dataclass(frozen=True, kw_only=True, slots=True)
class Looks:
    """Where probes looked while one forward and its backward ran, in that order; three lists of one length."""

    visits: list[Visit] = field(default_factory=list)
    tokens: list[int | Tensor] = field(default_factory=list)
    """Token positions behind each visit: on the device where a mask counts them."""
    widths: list[int] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class Packet:
    """The meaning of one flat vector: the scalar moments of `visits` in order, the others, then `device_scalars`."""

    stream_rows: frozenset[str]
    """The streams that get a row: fast, slow, or one named by the user's values (metrics, evaluation)."""
    step: int
    looks: tuple[Looks, ...] = ()
    """By reference: to go through them is left to the drain thread."""
    counted: Mapping[int, str] = field(default_factory=dict)
    """By id of a tensor among the tokens, the name of the device scalar that it travels as."""
    device_scalars: tuple[str, ...] = ()
    """Names of values that stayed on the device until now: loss, loss_scale, metrics."""
    host_scalars: Mapping[str, float]
    traced: tuple[Accumulator, ...] | None = None
    """What compiled code added up, when some ran: its numbers end the vector, each accumulator's sums and maxima, then two counts."""
    low_precision: bool = False
    """Some activation was fp16 or bf16: checks of identities get the wider tolerance."""
    stopped: str = ""
    """Instead of a row: this rank's recording has ended, for this reason."""

    @cached_property
    def visits(self) -> tuple[Visit, ...]:
        return tuple(chain.from_iterable(each.visits for each in self.looks))

    @cached_property
    def tokens(self) -> tuple[int | str, ...]:
        """Token positions behind each visit; where a mask counts them, the name of the device scalar that tells."""
        return tuple(
            count if isinstance(count, int) else self.counted[id(count)]
            for count in chain.from_iterable(each.tokens for each in self.looks)
        )

    @cached_property
    def widths(self) -> tuple[int, ...]:
        return tuple(chain.from_iterable(each.widths for each in self.looks))
