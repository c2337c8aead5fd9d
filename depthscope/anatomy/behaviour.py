"""Attention or MLP, told by what a sublayer does: whether a token's output depends on other tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from depthscope.anatomy.ports import Path, floating_arguments, follow, replaced
from depthscope.anatomy.solve import Write
from depthscope.anatomy.trace import protected
from depthscope.anatomy.words import Kind

_SEED = 7


class BlockAlone:
    """Runs a block on its own, watching its writes, with the earlier writes held where they were.

    Holding them keeps what attention moves between tokens out of the sublayers that come after it.
    """

    def __init__(
        self,
        block: nn.Module,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        entry: Path,
        writes: Sequence[Write],
    ) -> None:
        self.block, self.args, self.kwargs = block, tuple(args), dict(kwargs)
        self.entry, self.writes = entry, writes
        self.stream = dict(floating_arguments(self.args, self.kwargs))[entry]
        self.held: list[Tensor | None] = [None] * len(writes)
        self.held = list(self.run(self.stream))

    def kinds(self) -> list[Kind | None]:
        """Return each write's kind; None where the run can't tell: one token, or nothing ever moves."""
        verdicts: list[Kind | None] = [None] * len(self.writes)
        for axis in self._token_axes():
            half = self.stream.shape[axis] // 2
            stream = self.stream.clone()
            first = stream.narrow(axis, 0, half)
            first.add_(self._noise(first))
            for place, tensor in enumerate(self.run(stream)):
                before = self.held[place]
                if verdicts[place] != "attention" and tensor is not None and before is not None:
                    verdicts[place] = self._judge(tensor, before, axis) or verdicts[place]
        return verdicts

    def depends(self, place: int) -> bool:
        """Whether a write changes when the write before it does: the sublayers follow one another."""
        held = self.held
        previous = held[place - 1]
        if previous is None:
            return False
        try:
            self.held = [
                *held[: place - 1],
                previous + self._noise(self.stream, like=previous),
                *held[place:],
            ]
            tensor, before = self.run(self.stream)[place], held[place]
        finally:
            self.held = held
        return tensor is not None and before is not None and not torch.equal(tensor, before)

    def run(self, stream: Tensor) -> list[Tensor | None]:
        """Return what each write was, before it was replaced by the one held."""
        args, kwargs = protected(self.args), protected(self.kwargs)
        if isinstance(self.entry[0], str):
            kwargs = replaced(kwargs, self.entry, stream.clone())
        else:
            args = replaced(args, self.entry, stream.clone())
        seen: list[Tensor | None] = [None] * len(self.writes)
        handles = [self._attach(place, write, seen) for place, write in enumerate(self.writes)]
        torch.manual_seed(_SEED)
        try:
            self.block.forward(*args, **kwargs)
        finally:
            for handle in handles:
                handle.remove()
        return seen

    def _attach(self, place: int, write: Write, seen: list[Tensor | None]) -> Any:
        module = self.block.get_submodule(write.call.module)

        def output(module: nn.Module, args: Any, output: Any) -> Any:
            seen[place] = follow(output, write.path).clone()
            held = self.held[place]
            # A copy: the block may go on to change it in place.
            return None if held is None else replaced(output, write.path, held.clone())

        def arguments(module: nn.Module, args: Any, kwargs: Any) -> Any:
            inside = kwargs if isinstance(write.path[0], str) else args
            seen[place] = follow(inside, write.path).clone()
            held = self.held[place]
            if held is None:
                return None
            changed = replaced(inside, write.path, held.clone())
            return (args, changed) if inside is kwargs else (changed, kwargs)

        if write.side == "output":
            return module.register_forward_hook(output)
        return module.register_forward_pre_hook(arguments, with_kwargs=True)

    def _token_axes(self) -> list[int]:
        """The axes that can hold tokens, the usual one ([batch, time, width]) first."""
        axes = range(self.stream.ndim - 1)
        return [axis for axis in reversed(axes) if self.stream.shape[axis] > 1]

    def _judge(self, tensor: Tensor, before: Tensor, axis: int) -> Kind | None:
        if tensor.shape != self.stream.shape:
            # [batch * time, width]: as many entries in the same order.
            if tensor.numel() != self.stream.numel():
                return None
            tensor, before = tensor.reshape(self.stream.shape), before.reshape(self.stream.shape)
        moved = (tensor.float() - before.float()).norm(dim=-1)
        half = tensor.shape[axis] // 2
        inside = float(moved.narrow(axis, 0, half).amax())
        outside = float(moved.narrow(axis, half, tensor.shape[axis] - half).amax())
        if not inside > 0 and not outside > 0:
            return None
        rounding = 1e-3 if tensor.dtype in (torch.float32, torch.float64) else 3e-2
        if outside > rounding * inside:
            return "attention"
        # With one token each, sequences of a batch don't meet: that says nothing.
        return None if self.stream.ndim > 2 and self.stream.shape[1] == 1 else "mlp"

    def _noise(self, tensor: Tensor, like: Tensor | None = None) -> Tensor:
        shape = tensor.shape if like is None else like.shape
        size = float(tensor.float().square().mean().sqrt()) or 1.0
        generator = torch.Generator().manual_seed(_SEED)
        positions = torch.randn(*shape[:-1], 1, generator=generator)
        features = torch.randn(shape[-1], generator=generator)
        return (size * positions * features).to(tensor.device, tensor.dtype if like is None else like.dtype)
