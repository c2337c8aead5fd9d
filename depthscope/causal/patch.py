"""The state of one prompt put into the forward of another."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from depthscope.causal.batch import Batch
from depthscope.causal.error import CausalError
from depthscope.causal.intervention import Change, Edit, Intervention
from depthscope.causal.subject import Subject
from depthscope.causal.sublayers import sublayer_of
from depthscope.causal.values import Values
from depthscope.marks import Port


def patch_state(
    subject: Subject, layer: int, other: Batch, positions: Sequence[int] | None = None
) -> Intervention:
    """Return the intervention that puts the state of `other` after sublayer `layer` (from 1) in place of the own one.

    The state is all that later sublayers know of the depth so far: the stream; with depth mixers every source; with an
    outer state that and the inner stream. Patched at every position, the rest is the forward of `other`.

    Args:
        subject: the model.
        layer: 1 to L.
        other: the prompt that gives its state; of one sequence, it serves every row.
        positions: the tokens whose state is replaced, from 0; None: all. Both prompts need the same length.

    Raises:
        CausalError: the state after that sublayer does not pass one place, or has parts that are not [batch, time, ...].
    """
    ports = state_ports(subject, layer)
    _, donor = subject.look(other.args, other.kwargs, ports)
    odd = [port for port in ports if donor[port].shape[:2] != other.targets.shape]
    if odd and positions is not None:
        raise CausalError(
            f"{subject.axis.design}: {odd[0]} is not [batch, time, ...], so single positions cannot be replaced there; replace "
            "all, or take a design that computes the same without it (block-attnres for two-phase-attnres)"
        )
    edits = tuple(Edit(port=port, change=_patched(port, donor[port], positions)) for port in ports)
    return Intervention(
        name=f"state after {sublayer_of(subject.axis, layer).name} of another prompt", edits=edits
    )


def state_ports(subject: Subject, layer: int) -> tuple[Port, ...]:
    """Return where each tensor of the state after sublayer `layer` passes."""
    sublayer, blocks = sublayer_of(subject.axis, layer), subject.anatomy.blocks
    carried = sublayer.carried
    last = all(each.transformer_block > sublayer.transformer_block for each in subject.axis.sublayers[layer:])
    if carried is None and blocks and last:
        # Of a block found by looking: its first output is the stream.
        return (Port(module=blocks[sublayer.transformer_block - 1], side="output"),)
    if carried is None:
        raise CausalError(
            f"{sublayer.name}: the state after it passes no module; choose the last sublayer of a block"
        )
    return tuple(
        Port(module=carried.module, side="output", path=(*carried.path, *path))
        for path in subject.tensors_at(carried)
    )


def _patched(port: Port, given: Tensor, positions: Sequence[int] | None) -> Change:
    def change(value: Tensor, values: Values) -> Tensor:
        if given.ndim < 3 or given.shape[1:] != value.shape[1:] or given.shape[0] not in (1, value.shape[0]):
            raise CausalError(
                f"{port}: the other prompt's state has shape {tuple(given.shape)}, this one's {tuple(value.shape)}; "
                "give prompts of one length"
            )
        if positions is None:
            return given.expand_as(value)
        patched = value.clone()
        patched[:, list(positions)] = given[:, list(positions)].to(value.dtype)
        return patched

    return change
