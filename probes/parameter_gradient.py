"""Gradient norms of the parameters, grouped by what they belong to."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from depthscope.probes.activation import Activation
from depthscope.probes.probe import Array, Merge, Row, Site, SiteKind

SCALARS = ("embedding", "head", "final_norm", "rest")
SCALE = ""
"""Among the gradients that are seen: what they are multiplied by, where an optimizer unscales inside its kernel."""
INTERFACE_PARTS = ("read", "write", "gate")


_LARGE = 2**19
"""Entries past which a CPU's fp32 sum is off by more than 5e-6."""


def l2_norms(tensors: Sequence[Tensor]) -> list[Tensor]:
    """Return the L2 norm of each, 0-dim: fp32 whatever the dtype, fp64 for all where one of them is."""
    wide = torch.float64 if any(tensor.dtype == torch.float64 for tensor in tensors) else torch.float32
    # On a CPU torch adds a whole tensor up in a few lanes: 6.5e-4 off for a normal 4096 x 4096. By rows it is 1e-7.
    parts = [
        torch.linalg.vector_norm(tensor, dim=-1, dtype=wide)
        if tensor.dim() > 1 and tensor.numel() > _LARGE and tensor.device.type == "cpu"
        else tensor
        for tensor in tensors
    ]
    return list(torch._foreach_norm(parts, 2, wide))


@dataclass(frozen=True, kw_only=True)
class ParameterGradient:
    """L2 norms over groups that partition the parameters, so that their squares add up to the global norm's.

    `groups` maps a group to its parameters' places in `parameters`: ``layer/l``, ``mixer/target``,
    ``interface/b/read|write|gate``, ``embedding``, ``head``, ``final_norm``, ``rest``. The mixer in front of the
    final read stands in no layer and counts with the rest.
    """

    parameters: tuple[str, ...]
    groups: Mapping[str, tuple[int, ...]]

    name: ClassVar[str] = "parameter_gradient"
    stream: ClassVar[str] = "fast"
    sites: ClassVar[tuple[SiteKind, ...]] = ("parameters",)
    quantities: ClassVar[tuple[str, ...]] = (
        "param_grad_norm",
        "mixer_grad_norm",
        "interface_grad_norm",
        "embedding_grad_norm",
        "head_grad_norm",
        "final_norm_grad_norm",
        "rest_grad_norm",
        "grad_norm",
    )
    merges: ClassVar[Mapping[str, Merge]] = MappingProxyType({"norm": "norm"})

    def moments(self, site: Site, seen: Mapping[str, Activation]) -> dict[str, Tensor]:
        """Return ``norm`` [parameters], -1 for a parameter without a gradient: missing, neither 0 nor NaN.

        The maximum over visits then fills in what several optimizers see one after the other.
        """
        present = [name for name in self.parameters if name in seen]
        if not present:
            return {}
        gradients = [seen[name].tensor for name in present]
        unscaled = l2_norms(gradients)
        if SCALE in seen:
            scale = seen[SCALE].tensor
            unscaled = [norm / scale.to(norm.device, non_blocking=True) for norm in unscaled]
        norms = dict(zip(present, unscaled, strict=True))
        if len(present) < len(self.parameters):
            missing = torch.full_like(norms[present[0]], -1.0)
            return {"norm": torch.stack([norms.get(name, missing) for name in self.parameters])}
        return {"norm": torch.stack(tuple(norms.values()))}

    def finish(self, merged: Mapping[str, Array], row: Row) -> dict[str, Array]:
        norms = merged["norm"].reshape(-1)
        missing = norms < 0
        places, bins = self._group_of, len(self.groups) + 1
        squares = np.bincount(places, weights=np.where(missing, 0.0, np.square(norms)), minlength=bins)
        present = np.bincount(places, weights=~missing, minlength=bins)
        known = {
            group: square
            for group, square, count in zip(self.groups, squares.tolist(), present.tolist(), strict=False)
            if count
        }
        layout = row.layout
        final = f"mixer/{layout.layers + 1}"

        def norm(*groups: str) -> float:
            squares = [known[group] for group in groups if group in known]
            members = any(self.groups.get(group) for group in groups)
            if not squares and (members or groups != ("rest", final)):
                return (
                    math.nan
                )  # a group of its own that this model lacks, or whose gradients are all missing
            return math.sqrt(sum(squares))

        layers = range(1, layout.layers + 1)
        mixed = layout.sources[: layout.layers] or ((),) * layout.layers
        values = {
            "param_grad_norm": np.array([norm(f"layer/{layer}") for layer in layers]),
            "mixer_grad_norm": np.array(
                [norm(f"mixer/{layer}") if mixed[layer - 1] else math.nan for layer in layers]
            ),
            "interface_grad_norm": np.array(
                [
                    [norm(f"interface/{block}/{part}") for part in INTERFACE_PARTS]
                    for block in range(1, layout.outer_blocks + 1)
                ]
            ).reshape(layout.outer_blocks, len(INTERFACE_PARTS)),
            "grad_norm": np.array(norm(*self.groups)),
        }
        for group in SCALARS:
            values[f"{group}_grad_norm"] = np.array(norm(*((group, final) if group == "rest" else (group,))))
        return values

    @cached_property
    def _group_of(self) -> npt.NDArray[np.intp]:
        """For each parameter the place of its group; one past the last where it has none."""
        places = np.full(len(self.parameters), len(self.groups), dtype=np.intp)
        for place, members in enumerate(self.groups.values()):
            places[list(members)] = place
        return places
