"""What hooks do inside compiled code: the same reductions as in eager code, added up in the graph.

Nothing here may depend on which sublayer it stands at, save through tensors: under ``block.compile()`` all blocks
share one graph, as long as all their hooks look alike.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeAlias

import torch
from torch import Tensor, nn

from depthscope.anatomy import floating, follow, port_value, replaced
from depthscope.marks import Port
from depthscope.probes import Activation
from depthscope.recording.accumulator import Accumulator
from depthscope.recording.arming import Arming, in_region
from depthscope.recording.heads import by_head
from depthscope.recording.interface_matrices import matrix_of
from depthscope.recording.precision import full_precision
from depthscope.recording.tap import tap

Pair: TypeAlias = tuple[Accumulator | None, Accumulator | None]
"""Of one site: for the probes of the fast and of the slow stream."""

_READ = "_depthscope_read"
"""On the output of a sublayer's norm, inside a checkpointed region: the read that it normalised."""


class Link:
    """A tensor on its way from one hook to a later one of the same forward."""

    def __init__(self) -> None:
        self.tensor: Tensor | None = None

    def put(self, tensor: Tensor) -> None:
        # A copy, which costs nothing unless the model changes the tensor in place before it is used.
        self.tensor = tensor.detach().clone()

    def take(self) -> Tensor | None:
        tensor, self.tensor = self.tensor, None
        return tensor


class Role(Protocol):
    """What is done with the tensor at a port; returns the tensor to go on with, or None to leave it."""

    def __call__(
        self, seen: Activation, tensor: Tensor, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Any: ...


class TracedPorts:
    """Lets every role at the ports of one side of one module act."""

    def __init__(
        self,
        arming: Arming,
        ports: tuple[tuple[Port, tuple[Role, ...]], ...],
        without_positions: frozenset[Port],
    ) -> None:
        self.arming = arming
        self.ports = tuple((port, roles, port not in without_positions) for port, roles in ports)

    def __call__(self, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> Any:
        """Return what replaces the module's output, or its arguments in front of it; None to leave them."""
        arming = self.arming
        # The mode first: in evaluation nothing else is asked, and so there is one graph of it.
        if not arming.root.training or not (arming.fast or arming.slow):
            return None
        changed = None
        for port, roles, positioned in self.ports:
            tensor = port_value(port, args, kwargs, output)
            if tensor is None or tensor.device != arming.device:
                continue
            if not in_region():
                arming.traced = True
                if tensor.dtype in (torch.float16, torch.bfloat16):
                    arming.low_precision = True
            if positioned and not arming.fits(tensor):
                if not in_region():
                    arming.misfit = True
                continue
            seen = arming.see(tensor)
            with full_precision(tensor):
                for role in roles:
                    instead = role(seen, tensor, args, kwargs)
                    if instead is None:
                        continue
                    if port.side == "output":
                        output = changed = _with(output, port.path, instead)
                    else:
                        args, kwargs = changed = _with_argument(args, kwargs, port.path, instead)
        return changed


def _with(output: Any, path: tuple[int | str, ...], tensor: Tensor) -> Any:
    """Return `output` with `tensor` in the place that `path` and then the first floating tensor give."""
    where = next((found for found, _ in floating(follow(output, path))), ())
    return replaced(output, (*path, *where), tensor)


def _with_argument(
    args: tuple[Any, ...], kwargs: dict[str, Any], path: tuple[int | str, ...], tensor: Tensor
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return a call's arguments with `tensor` where an input port's `path` leads."""
    if not path:
        path = (0,) if args else (next(iter(kwargs)),)
    if isinstance(path[0], str):
        return args, _with(kwargs, path, tensor)
    return _with(args, path, tensor), kwargs


class _Adds:
    def __init__(self, arming: Arming) -> None:
        self.arming = arming

    def add(self, pair: Pair, seen: Mapping[str, Activation], counted: Activation) -> None:
        fast, slow = pair
        # In this order: code without an accumulator of a stream has no guard on it, and no graph more for it.
        if fast is not None and self.arming.fast:
            fast.add(seen, counted, self.arming.gate)
        if slow is not None and self.arming.slow:
            slow.add(seen, counted, self.arming.gate)


class SeeAlone(_Adds):
    """A tensor that is looked at by itself: embedding, state, final read."""

    def __init__(self, arming: Arming, kind: str, pair: Pair) -> None:
        super().__init__(arming)
        self.kind, self.pair = kind, pair

    def __call__(
        self, seen: Activation, tensor: Tensor, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> None:
        self.add(self.pair, {self.kind: seen}, seen)


class KeepRead:
    """Hands the read to the sublayer's write."""

    def __init__(self, link: Link) -> None:
        self.link = link

    def __call__(
        self, seen: Activation, tensor: Tensor, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> None:
        if not in_region():
            self.link.put(tensor)


class CarryRead:
    """The same inside a checkpointed region: the read travels on the output of the module that took it."""

    def __init__(self, port: Port) -> None:
        self.port = port

    def __call__(
        self, seen: Activation, tensor: Tensor, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> None:
        if in_region():
            setattr(tensor, _READ, port_value(self.port, args, kwargs, None))


class SeeWrite(_Adds):
    """A write, alone and with the read behind it."""

    def __init__(self, arming: Arming, alone: Pair, joint: Pair, read: Link, later: Link | None) -> None:
        super().__init__(arming)
        self.alone, self.joint, self.read, self.later = alone, joint, read, later

    def __call__(
        self, seen: Activation, tensor: Tensor, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> None:
        read = _carried(args, kwargs) if in_region() else self.read.take()
        if read is None:
            self.add(self.alone, {"write": seen}, seen)
        else:
            self.add(self.joint, {"write": seen, "read": self.arming.see(read)}, seen)
        if self.later is not None and not in_region():
            self.later.put(tensor)


class SeeMix(_Adds):
    """The weights of a depth mixer, with the sources that the module behind them took, stacked or one by one."""

    def __init__(self, arming: Arming, mix: Pair, mixed_write: Pair, write: Link | None, heads: int) -> None:
        super().__init__(arming)
        self.mix, self.mixed_write, self.write, self.heads = mix, mixed_write, write, heads

    def __call__(
        self, seen: Activation, tensor: Tensor, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> None:
        write = None if self.write is None or in_region() else self.write.take()
        stacked = args[0] if isinstance(args[0], Tensor) else torch.stack(tuple(args[0]))
        weights, sources = tensor.detach(), by_head(stacked.detach(), self.heads)
        read = self.arming.see((weights.unsqueeze(-1) * sources).sum(0).to(sources.dtype))
        parts = {"weights": Activation(weights.reshape(len(weights), -1)), "read": read}
        parts |= {f"source {place}": Activation(sources[place]) for place in range(len(sources))}
        self.add(self.mix, parts, read)
        if write is not None:
            newest = Activation(weights[-1])
            self.add(
                self.mixed_write, {"write": Activation(write), "next_read": read, "weight": newest}, read
            )


class SeeMixing(_Adds):
    """The weights that mix streams, [..., n, n]."""

    def __init__(self, arming: Arming, pair: Pair, by_token: bool, later: Link) -> None:
        super().__init__(arming)
        self.pair, self.by_token, self.later = pair, by_token, later

    def __call__(
        self, seen: Activation, tensor: Tensor, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> None:
        if not self.arming.slow:
            return
        rows = tensor.detach().flatten(-2)
        weights = self.arming.see(rows) if self.by_token else Activation(rows)
        self.add(self.pair, {"weights": weights}, weights)
        if not in_region():
            self.later.put(rows)


class SeeProduct(_Adds):
    """The last weights that mix streams, with those of all layers before."""

    def __init__(self, arming: Arming, pair: Pair, by_token: bool, every: tuple[Link, ...]) -> None:
        super().__init__(arming)
        self.pair, self.by_token, self.every = pair, by_token, every

    def __call__(
        self, seen: Activation, tensor: Tensor, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> None:
        if not self.arming.slow or in_region():
            return
        held = [link.take() for link in self.every]
        parts = {
            f"weights {index + 1}": self.arming.see(rows) if self.by_token else Activation(rows)
            for index, rows in enumerate(held)
            if rows is not None
        }
        if len(parts) == len(held):
            self.add(self.pair, parts, parts[f"weights {len(held)}"])


class KeepOuter:
    """Hands a tensor of a residual-block boundary on."""

    def __init__(self, arming: Arming, *links: Link) -> None:
        self.arming, self.links = arming, links

    def __call__(
        self, seen: Activation, tensor: Tensor, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> None:
        if self.arming.slow and not in_region():
            for link in self.links:
                link.put(tensor)


class SeeOuterRead(_Adds):
    """What a block reads of the outer state, with the matrix by which it reads."""

    def __init__(self, arming: Arming, pair: Pair, carry: Link, module: nn.Module) -> None:
        super().__init__(arming)
        self.pair, self.carry, self.module = pair, carry, module

    def __call__(
        self, seen: Activation, tensor: Tensor, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> None:
        if not self.arming.slow or in_region():
            return
        carry = self.carry.take()
        if carry is not None:
            held = self.arming.see(carry)
            self.add(self.pair, {"carry": held, "matrix": Activation(matrix_of(self.module, carry))}, held)


class SeeBoundary(_Adds):
    """The boundary of a residual block, with its carry, read and write."""

    def __init__(self, arming: Arming, pair: Pair, carry: Link, read: Link, write: Link) -> None:
        super().__init__(arming)
        self.pair, self.carry, self.read, self.write = pair, carry, read, write

    def __call__(
        self, seen: Activation, tensor: Tensor, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> None:
        if not self.arming.slow or in_region():
            return
        carry, read, write = self.carry.take(), self.read.take(), self.write.take()
        if carry is not None and read is not None and write is not None:
            parts = {"carry": Activation(carry), "outer_read": Activation(read), "write": Activation(write)}
            self.add(self.pair, {**parts, "boundary": seen}, seen)


class SeeDirect(_Adds):
    """The last outer state, with every boundary and the first carry."""

    def __init__(self, arming: Arming, pair: Pair, embedding: Link, boundaries: tuple[Link, ...]) -> None:
        super().__init__(arming)
        self.pair, self.embedding, self.boundaries = pair, embedding, boundaries

    def __call__(
        self, seen: Activation, tensor: Tensor, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> None:
        if not self.arming.slow or in_region():
            return
        embedding, boundaries = self.embedding.take(), [link.take() for link in self.boundaries]
        if embedding is not None and all(boundary is not None for boundary in boundaries):
            parts = {
                f"boundary {index + 1}": Activation(held)
                for index, held in enumerate(boundaries)
                if held is not None
            }
            self.add(self.pair, {**parts, "embedding": Activation(embedding), "state": seen}, seen)


class TapGradient:
    """Looks at the gradient that comes back to the tensor."""

    def __init__(self, arming: Arming, accumulators: tuple[Accumulator, ...]) -> None:
        self.arming, self.accumulators = arming, accumulators

    def __call__(
        self, seen: Activation, tensor: Tensor, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Tensor | None:
        if self.arming.fast and torch.is_grad_enabled() and tensor.requires_grad:
            return tap(tensor, seen.counted, self.accumulators)
        return None


def _carried(args: Sequence[Any], kwargs: Mapping[str, Any]) -> Tensor | None:
    for value in (*args, *kwargs.values()):
        if isinstance(value, Tensor) and hasattr(value, _READ):
            read: Tensor = getattr(value, _READ)
            return read
    return None
