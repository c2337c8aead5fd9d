"""The definitions a second time: plain fp64 arithmetic on the tensors of one eager step, with no probe involved."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from depthscope.anatomy import port_value
from depthscope.marks import DepthAxis, Mixer, OuterBlock, Port
from depthscope.quantities import QUANTITIES, DepthLayout
from depthscope.testing.wide_reference import of_read, of_streams

Sums = dict[tuple[str, tuple[int, ...]], tuple[float, float]]
"""By quantity and entry: numerator and denominator. Those of several ranks add up."""
_ROOT = frozenset(
    f"{tensor}_rms"
    for tensor in (
        "write",
        "state",
        "read",
        "output",
        "state_prenorm",
        "embedding",
        "final_read",
        "source",
        "outer_read",
    )
)
_GRADIENTS = frozenset({"grad_write_rms", "grad_read_rms"})
_LARGEST = frozenset({"abs_max"})
_TOTAL = frozenset({"nonfinite"})


class Reference:
    """Hooks on a model in double that sum up what the definitions need, forward by forward."""

    def __init__(self, model: nn.Module, axis: DepthAxis) -> None:
        self.sums: Sums = defaultdict(lambda: (0.0, 0.0))
        self._axis, self._model = axis, model
        self._seen: dict[str, Tensor] = {}
        self._sources: dict[int, tuple[Tensor, ...]] = {}
        self._handles: list[Any] = []
        for name, port, gradient in _ports(axis):
            self._watch(model, name, port, gradient)
        for mixer in axis.mixers:
            module = model.get_submodule(mixer.module)
            self._handles.append(module.register_forward_hook(self._mixing(mixer)))
        self._handles.append(model.register_forward_hook(lambda *_: self._reduce()))

    def detach(self) -> None:
        for handle in self._handles:
            handle.remove()

    # --- what passes ------------------------------------------------------------------------------------

    def _watch(self, model: nn.Module, name: str, port: Port, gradient: tuple[str, int] | None) -> None:
        module = model.get_submodule(port.module)

        def see(args: Any, kwargs: Any, output: Any) -> None:
            tensor = port_value(port, args, kwargs, output)
            if tensor is None:
                return
            if gradient is not None and tensor.requires_grad and torch.is_grad_enabled():
                quantity, layer = gradient
                tensor.register_hook(lambda given: self._root(quantity, (layer,), _tokens(given)))  # type: ignore[no-untyped-call]
            if torch._C._current_graph_task_id() == -1:  # not a checkpoint's recomputation
                self._seen[name] = tensor.detach().clone()

        if port.side == "input":
            hook: Callable[..., None] = lambda module, args, kwargs: see(args, kwargs, None)
            self._handles.append(module.register_forward_pre_hook(hook, with_kwargs=True))
        else:
            self._handles.append(
                module.register_forward_hook(
                    lambda module, args, kwargs, output: see(args, kwargs, output), with_kwargs=True
                )
            )

    def _mixing(self, mixer: Mixer) -> Callable[..., None]:
        def see(module: nn.Module, args: Any, output: Any) -> None:
            if torch._C._current_graph_task_id() == -1:
                self._sources[mixer.target] = tuple(source.detach().clone() for source in args[0])
                self._seen[f"mixed {mixer.target}"] = output.detach().clone()

        return see

    # --- the definitions --------------------------------------------------------------------------------

    def _reduce(self) -> None:
        """Sum up a forward that has ended."""
        if torch._C._current_graph_task_id() != -1:
            return
        seen = {
            name: _tokens(tensor)
            for name, tensor in self._seen.items()
            if not name.startswith(("weights", "mixing"))
        }
        weights = {name: held.double() for name, held in self._seen.items() if name.startswith("mixing")}
        for quantity, at, per_token in of_streams(self._axis, seen | weights):
            self._mean(quantity, at, per_token)
        for sublayer in self._axis.sublayers:
            self._sublayer(sublayer.index, seen)
        for name, quantity in (("embedding", "embedding"), ("final read", "final_read")):
            if name in seen:
                self._size(quantity, (), seen[name])
        for mixer in self._axis.mixers:
            if f"weights {mixer.target}" in self._seen and f"mixed {mixer.target}" in seen:
                self._mix(mixer, seen)
        for block in self._axis.outer:
            self._outer(block, seen)
        if self._axis.outer:
            self._direct(seen)
        self._seen.clear()
        self._sources.clear()

    def _sublayer(self, layer: int, seen: Mapping[str, Tensor]) -> None:
        at = (layer - 1,)
        read, write, state = (seen.get(f"{kind} {layer}") for kind in ("read", "write", "state"))
        for kind, tensor in (("read", read), ("write", write), ("state", state)):
            if tensor is not None and (kind != "read" or write is not None):
                self._size(kind, at, tensor)
        if state is not None:
            key = ("abs_max", at)
            self.sums[key] = (max(self.sums[key][0], float(state.abs().max())), 1.0)
            self._mean("nonfinite", at, (~torch.isfinite(state).all(dim=-1)).double())
        for kind in ("output", "state_prenorm"):
            if f"{kind} {layer}" in seen:
                self._root(f"{kind}_rms", at, seen[f"{kind} {layer}"])
        if read is None or write is None:
            return
        if read.shape != write.shape:
            self._mean("write_ratio", at, write.norm(dim=-1) / read.norm(dim=-1))
            return
        inner, long, wide = (read * write).sum(-1), write.norm(dim=-1), read.norm(dim=-1)
        self._mean("write_ratio", at, long / wide)
        self._mean("write_cosine", at, inner / (long * wide))
        self._mean("write_dot", at, inner / read.shape[-1])
        fresh = self._axis.sublayers[layer - 1].fresh
        if fresh == "state" and state is not None:
            self._mean("fresh_share", at, (write * state).sum(-1) / state.square().sum(-1))
        weights, mixed = self._seen.get(f"weights {layer + 1}"), seen.get(f"mixed {layer + 1}")
        if fresh == "mixer" and weights is not None and mixed is not None:
            newest = weights[-1].reshape(-1)
            self._mean("fresh_share", at, newest * (write * mixed).sum(-1) / mixed.square().sum(-1))

    def _mix(self, mixer: Mixer, seen: Mapping[str, Tensor]) -> None:
        target = mixer.target - 1
        alpha = self._seen[f"weights {mixer.target}"].reshape(len(mixer.sources), -1)
        read, count, heads = seen[f"mixed {mixer.target}"], len(mixer.sources), mixer.heads
        for place, (column, source) in enumerate(
            zip(mixer.sources, self._sources[mixer.target], strict=True)
        ):
            value, at = _tokens(source), (target, column)
            self._mean("depth_attention", at, alpha[place])
            self._mean("depth_attention_std", at, alpha[place].square())
            weighed = alpha[place].reshape(-1, heads, 1) * value.reshape(len(value), heads, -1)
            share = (weighed.flatten(-2) * read).sum(-1) / read.square().sum(-1)
            self._mean("depth_contribution", at, share)
            for head in range(heads if heads > 1 else 0):
                self._mean("depth_attention_by_head", (*at, head), alpha[place].reshape(-1, heads)[:, head])
            self._root("source_rms", at, value)
        if count > 1:
            entropy = -(alpha * alpha.clamp_min(1e-300).log()).sum(0) / math.log(count)
            self._mean("depth_attention_entropy", (target,), entropy)
        self._mean("depth_attention_max", (target,), alpha.amax(0))
        distance = torch.arange(count, 0, -1, dtype=alpha.dtype, device=alpha.device)[:, None]
        self._mean("depth_distance", (target,), (alpha * distance).sum(0))
        self._mean("newest_weight", (target,), alpha[-1])
        self._mean("embedding_weight", (target,), alpha[0])

    def _outer(self, block: OuterBlock, seen: Mapping[str, Tensor]) -> None:
        at = (block.index - 1,)
        carry, read, write, boundary = (
            seen.get(f"outer {part} {block.index}") for part in ("carry", "read", "write", "boundary")
        )
        if carry is None or read is None or write is None or boundary is None:
            return
        if block.linear:
            for quantity, entry, per_token in of_read(block, self._model, carry):
                self._mean(quantity, entry, per_token)
        self._mean("outer_energy", at, boundary.square().mean(-1))
        self._mean("outer_write_energy", at, write.square().mean(-1))
        self._mean("outer_carry_energy", at, carry.square().mean(-1))
        self._mean("outer_write_ratio", at, write.norm(dim=-1) / carry.norm(dim=-1))
        self._mean("outer_write_cosine", at, torch.cosine_similarity(write, carry, dim=-1))
        self._root("outer_read_rms", at, read)
        inner = boundary[:, : read.shape[-1]].square().sum(-1) / boundary.square().sum(-1)
        self._mean("outer_extra_share", at, 1 - inner)
        for channel, energy in enumerate(boundary.square().T):
            self._mean("outer_channel_energy", (*at, channel), energy)

    def _direct(self, seen: Mapping[str, Tensor]) -> None:
        """What is left of the first carry's amplitude behind the norms of all boundaries."""
        count = len(self._axis.outer)
        passed = [seen.get(f"outer boundary {block}") for block in range(1, count + 1)]
        first, last = seen.get("outer carry 1"), seen.get(f"outer state {count}")
        if first is None or last is None:
            return
        amplitude = first.norm(dim=-1) / last.norm(dim=-1)
        for boundary in passed:
            if boundary is None:
                return
            amplitude = amplitude / boundary.square().mean(-1).sqrt()
        self._mean("outer_direct", (), amplitude)

    def _size(self, kind: str, at: tuple[int, ...], tensor: Tensor) -> None:
        self._root(f"{kind}_rms", at, tensor)
        self._mean(f"{kind}_logrms", at, tensor.square().mean(-1).sqrt().log())

    def _mean(self, name: str, at: tuple[int, ...], per_token: Tensor) -> None:
        self._add(name, at, float(per_token.sum()), per_token.numel())

    def _root(self, name: str, at: tuple[int, ...], tensor: Tensor) -> None:
        self._add(name, at, float(tensor.square().sum()), tensor.numel())

    def _add(self, name: str, at: tuple[int, ...], numerator: float, denominator: float) -> None:
        held = self.sums[name, at]
        self.sums[name, at] = (held[0] + numerator, held[1] + denominator)


def values_of(
    everyone: Sequence[Mapping[tuple[str, tuple[int, ...]], tuple[float, float]]],
    layout: DepthLayout,
    loss_tokens: float,
) -> dict[str, Any]:
    """Return the quantities of a step from the sums of all ranks; entries that nothing reached are NaN.

    `loss_tokens` is N, of all ranks; the loss is the mean of the ranks' losses.
    """
    whole: dict[tuple[str, tuple[int, ...]], tuple[float, float]] = {}
    for sums in everyone:
        for key, (numerator, denominator) in sums.items():
            held = whole.get(key, (0.0, 0.0))
            together = max(held[0], numerator) if key[0] in _LARGEST else held[0] + numerator
            whole[key] = (together, held[1] + denominator)
    values: dict[str, Any] = {}
    for (name, at), (numerator, denominator) in whole.items():
        value = numerator if name in _LARGEST | _TOTAL else numerator / denominator
        if name in _ROOT | _GRADIENTS:
            value = math.sqrt(value)
        if name in _GRADIENTS:
            value *= loss_tokens / len(everyone)
        if name == "depth_attention_std":
            mean = whole["depth_attention", at]
            value = math.sqrt(max(0.0, value - (mean[0] / mean[1]) ** 2))
        shape = _shape(name, layout)
        values.setdefault(name, np.full(shape, np.nan))[at] = value
    return values


def _shape(name: str, layout: DepthLayout) -> tuple[int, ...]:
    sizes = {
        "layer": layout.layers,
        "target": len(layout.sources),
        "source": len(layout.source_names),
        "head": layout.heads,
        "block": layout.outer_blocks,
        "channel": layout.outer_width,
        **dict.fromkeys(("stream", "stream_out", "stream_in"), layout.streams),
    }
    return tuple(sizes[dim] for dim in QUANTITIES[name].dims)


def _ports(axis: DepthAxis) -> list[tuple[str, Port, tuple[str, int] | None]]:
    """Return every port with the name under which its tensor is kept, and the gradient that is taken there."""
    ports: list[tuple[str, Port | None, tuple[str, int] | None]] = [("embedding", axis.embedding, None)]
    for sublayer in axis.sublayers:
        layer = sublayer.index
        ports += [
            (f"read {layer}", sublayer.read, ("grad_read_rms", layer - 1)),
            (f"write {layer}", sublayer.write, ("grad_write_rms", layer - 1)),
            (f"state {layer}", sublayer.state, None),
            (f"output {layer}", sublayer.output, None),
            (f"state_prenorm {layer}", sublayer.state_prenorm, None),
        ]
    ports.append(("final read", axis.final_read, None))
    ports += [(f"weights {mixer.target}", mixer.weights, None) for mixer in axis.mixers]
    ports += [(f"mixing {mixing.layer}", mixing.weights, None) for mixing in axis.streams]
    sides = ("carry", "read", "write", "boundary", "state")
    for block in axis.outer:
        ports += [(f"outer {side} {block.index}", getattr(block, side), None) for side in sides]
    return [(name, port, gradient) for name, port, gradient in ports if port is not None]


def _tokens(tensor: Tensor) -> Tensor:
    """Return [tokens, features] in fp64."""
    return tensor.detach().double().reshape(-1, tensor.shape[-1])
