"""Parameters and norms of which a rank may hold a shard only."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from depthscope.anatomy import is_sharded
from depthscope.probes import l2_norms

Keys = npt.NDArray[np.int64]

EMPTY = -1
"""The key of a shard with nothing in it: it needs no rank to bring it."""


def local(tensor: Tensor) -> Tensor:
    """Return what this rank holds of `tensor`, without any communication."""
    part: Tensor = tensor._local_tensor if is_sharded(tensor) else tensor  # type: ignore[attr-defined]
    return part.detach()


def local_gradient(parameter: nn.Parameter) -> Tensor | None:
    """Return what this rank holds of a gradient; None where there is none, or it is not reduced yet."""
    gradient = parameter.grad
    if gradient is None or not is_sharded(parameter):
        return gradient
    if not is_sharded(gradient) or gradient.placements != parameter.placements:  # type: ignore[attr-defined]
        return None
    return local(gradient)


def key(parameter: Tensor) -> int:
    """Return which shard of `parameter` this rank holds: ranks with equal keys hold the same numbers."""
    if not is_sharded(parameter):
        return 0
    return EMPTY if local(parameter).numel() == 0 else _place(parameter)[0]


def norm_share(norm: Any) -> dict[str, float]:
    """Return what is needed to put together a norm given as a DTensor, as ``clip_grad_norm_`` does under FSDP2."""
    if not is_sharded(norm):
        return {}
    share, shares = _place(norm)
    orders = {float(getattr(each, "norm_type", 1)) for each in norm.placements if not each.is_replicate()}
    return {"norm_share": share, "norm_shares": shares, "norm_order": min(orders, default=2.0)}


def everybodys_share(rank: int, world: int) -> dict[str, float]:
    """Return the same for a `contribution` of every rank."""
    return {"norm_share": rank, "norm_shares": world, "norm_order": 2.0}


def put_together(values: Mapping[float, float], shares: int, order: float) -> float:
    """Return the norm of `order` (inf: the largest) whose parts are `values`, by share; NaN when one is missing."""
    if len(values) < shares:
        return math.nan
    parts = np.array(list(values.values()), dtype=np.float64)
    if shares == 1:
        return float(parts[0])
    return float(parts.max() if math.isinf(order) else (parts**order).sum() ** (1 / order))


class LocalParameter:
    """A sharded parameter as those see it who only reduce: this rank's part, and whether a gradient is under way.

    Where several micro-batches come before the gradients are reduced (``set_requires_gradient_sync(False)``),
    FSDP2 keeps them beside the parameter: `gradient_waits` looks there.
    """

    def __init__(self, parameter: nn.Parameter, gradient_waits: Callable[[], bool]) -> None:
        self.parameter, self._gradient_waits = parameter, gradient_waits

    @property
    def grad(self) -> Tensor | None:
        if self.parameter.grad is None and self._gradient_waits():
            return self.detach()
        return local_gradient(self.parameter)

    def detach(self) -> Tensor:
        """Return this rank's part; one number that another rank holds is minus infinity, which no maximum keeps."""
        part = local(self.parameter)
        if self.parameter.numel() == 1 and not part.numel():
            return torch.full((1,), -math.inf, dtype=part.dtype, device=part.device)
        return part


def stored_parameters(model: nn.Module) -> dict[str, nn.Parameter]:
    """Return the parameters of `model` (unwrapped) by name, as the optimizer has them.

    FSDP2 puts whole parameters in the place of the sharded ones during a forward, and leaves the root's there.
    """
    sharded = {
        id(whole): each.sharded_param for each in _managed(model) if (whole := _whole(each)) is not None
    }
    return {name: sharded.get(id(parameter), parameter) for name, parameter in model.named_parameters()}


def local_parameters(model: nn.Module) -> dict[str, Any]:
    """Return the parameters of `model` (unwrapped) by name, the sharded ones as `LocalParameter`.

    Raises:
        ValueError: they are sharded in a way that is not recorded.
    """
    if any(type(module).__name__ == "FullyShardedDataParallel" for module in model.modules()):
        raise ValueError(
            "the model is wrapped in FullyShardedDataParallel, whose flat parameters belong to no sublayer; "
            "shard it with torch.distributed.fsdp.fully_shard"
        )
    managed = {id(each.sharded_param): each for each in _managed(model)}
    found: dict[str, Any] = {}
    for name, parameter in stored_parameters(model).items():
        if not is_sharded(parameter):
            found[name] = parameter
            continue
        placements = parameter.placements  # type: ignore[attr-defined]
        if id(parameter) not in managed or sum(not each.is_replicate() for each in placements) > 1:
            raise ValueError(
                f"{name} is sharded as {placements}, not by fully_shard alone: data parallelism (DDP, fully_shard) "
                "is recorded, tensor parallelism is not, since its ranks see the same tokens"
            )
        found[name] = LocalParameter(parameter, _waiting(managed[id(parameter)]))
    return found


def reshard(model: nn.Module) -> None:
    """Give up the gathered parameters that a sharded root keeps after a forward without a backward.

    It would go on with them after the optimizer has changed the shards.
    """
    fsdp = sys.modules.get("torch.distributed.fsdp")
    if fsdp is None:
        return  # whoever has sharded a model has loaded it
    for module in model.modules():
        if isinstance(module, fsdp.FSDPModule):
            module.reshard()


def holders(keys: Keys, rank: int) -> list[int]:
    """Return for each column of `keys` [ranks, parameters] how many ranks hold what `rank` holds."""
    return [int(count) for count in (keys == keys[rank]).sum(axis=0)]


def contribution(gradients: Mapping[str, Tensor], held_by: Mapping[str, int]) -> Tensor:
    """Return the L2 norm of this rank's gradients, 0-dim, such that the squares of all ranks add up.

    `held_by` is the number of ranks that hold the same part of each.
    """
    norms = l2_norms(list(gradients.values()))
    weights = [held_by.get(name, 1) ** -0.5 for name in gradients]
    if any(weight != 1 for weight in weights):
        norms = list(
            torch._foreach_mul(norms, weights)
        )  # numbers of the host that no tensor has to carry there
    norm: Tensor = torch.linalg.vector_norm(torch.stack(norms))
    return norm


def root_sum_square(values: npt.NDArray[np.float64], keys: Keys) -> npt.NDArray[np.float64]:
    """Return norms [entries] put together from those of all ranks, `values` [ranks, entries].

    -1 is no norm: the rank did not come, or has no gradient. Ranks with equal `keys` hold the same shard, which
    counts once, whoever brings it. An entry that nobody brings is -1; one that lacks a shard is NaN.
    """
    count = keys.shape[1]
    columns = np.arange(count)
    brought = np.zeros((count, int(keys.max(initial=0)) + 1), dtype=bool)
    square = np.zeros(count)
    for row, own in zip(keys, values, strict=True):
        place = np.maximum(row, 0)
        fresh = (row != EMPTY) & ~(own < 0) & ~brought[columns, place]
        square += np.where(fresh, np.square(own), 0)
        brought[columns, place] |= fresh
    wanted = np.array([len(np.unique(column[column != EMPTY])) for column in keys.T])
    came = brought.sum(axis=1)
    partial = np.where(came < wanted, np.nan, np.sqrt(square))
    return np.where(came == 0, -1.0, partial)


def _place(tensor: Any) -> tuple[int, int]:
    """Return this rank's place along the mesh dims that split `tensor`, and the number of places."""
    coordinates = tensor.device_mesh.get_coordinate()
    place, places = 0, 1
    for dim, placement in enumerate(tensor.placements):
        if not placement.is_replicate():
            size = tensor.device_mesh.size(dim)
            place, places = place * size + coordinates[dim], places * size
    return place, places


def _managed(model: nn.Module) -> list[Any]:
    """Return what FSDP2 keeps of each parameter that it shards."""
    found = []
    for module in model.modules():
        state = getattr(module, "_get_fsdp_state", lambda: None)()
        groups = getattr(state, "_fsdp_param_groups", None)
        if groups is None:  # before torch 2.10 there was one group a module
            group = getattr(state, "_fsdp_param_group", None)
            groups = [] if group is None else [group]
        found += [each for group in groups for each in group.fsdp_params]
    return found


def _whole(kept: Any) -> nn.Parameter | None:
    """Return what stands in for a sharded parameter in a forward; None before the first."""
    whole: nn.Parameter | None = getattr(kept, "_unsharded_param", None)
    return whole


def _waiting(kept: Any) -> Callable[[], bool]:
    def waits() -> bool:
        whole = _whole(kept)
        return kept.unsharded_accumulated_grad is not None or (whole is not None and whole.grad is not None)

    return waits
