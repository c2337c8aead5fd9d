"""What the training thread hands over for one optimizer step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from depthscope.recording.accumulator import Accumulator
from depthscope.recording.merge import Visit


@dataclass(frozen=True, kw_only=True)
class Packet:
    """The meaning of one flat vector: the scalar moments of `visits` in order, the others, then `device_scalars`."""

    stream_rows: frozenset[str]
    """The streams that get a row: fast, slow, or one named by the user's values (metrics, evaluation)."""
    step: int
    visits: tuple[Visit, ...] = ()
    tokens: tuple[int | str, ...] = ()
    """Token positions behind each visit; where a mask counts them, the name of the device scalar that tells."""
    widths: tuple[int, ...] = ()
    device_scalars: tuple[str, ...] = ()
    """Names of values that stayed on the device until now: loss, loss_scale, metrics."""
    host_scalars: Mapping[str, float]
    traced: tuple[Accumulator, ...] | None = None
    """What compiled code added up, when some ran: its numbers end the vector, each accumulator's sums and maxima, then two counts."""
    low_precision: bool = False
    """Some activation was fp16 or bf16: checks of identities get the wider tolerance."""
    stopped: str = ""
    """Instead of a row: this rank's recording has ended, for this reason."""
