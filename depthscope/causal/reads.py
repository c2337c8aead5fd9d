"""What each sublayer and the end read, in one forward: the state at every depth."""

from __future__ import annotations

from torch import Tensor

from depthscope.causal.batch import Batch
from depthscope.causal.error import CausalError
from depthscope.causal.subject import Subject
from depthscope.marks import DepthAxis, Port


def read_ports(axis: DepthAxis) -> tuple[Port, ...]:
    """Return where h_1 ... h_L and the final read pass: the state after 0 ... L sublayers as the next reader sees it.

    With a plain stream that is the stream; with depth mixers the mixed state; with an outer state the inner stream.

    Raises:
        CausalError: one of them is not seen.
    """
    ports = [*(sublayer.read for sublayer in axis.sublayers), axis.final_read]
    seen = tuple(port for port in ports if port is not None)
    if len(seen) != len(ports):
        names = [*(sublayer.name for sublayer in axis.sublayers), "the output"]
        missing = [name for name, port in zip(names, ports, strict=True) if port is None]
        raise CausalError(
            f"{axis.design}: what {', '.join(missing)} reads is not seen, so there is no state to look at"
        )
    return seen


def depth_names(axis: DepthAxis) -> tuple[str, ...]:
    """Return what was written last before each of `read_ports`."""
    return ("embedding", *(sublayer.name for sublayer in axis.sublayers))


def reads(subject: Subject, batch: Batch) -> tuple[list[Tensor], Tensor]:
    """Return the states [batch, time, d] at `read_ports`, and the model's output."""
    ports = read_ports(subject.axis)
    output, values = subject.look(batch.args, batch.kwargs, ports)
    return [values[port] for port in ports], output
