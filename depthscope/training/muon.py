"""Muon: momentum whose matrices are brought close to orthogonal before the step.

Jordan et al. 2024, "Muon: An optimizer for hidden layers in neural networks"; the factor on the step that lets it
share AdamW's learning rate and weight decay is from Liu et al., arXiv 2502.16982.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, overload

import torch
from torch import Tensor
from torch.optim import Optimizer

# Of the quintic p(x) = a x + b x^3 + c x^5: chosen for a steep start, so that five rounds take singular values
# from 1e-3 to the neighbourhood of 1, where they stay between about 0.7 and 1.2 (Jordan et al.).
_A, _B, _C = 3.4445, -4.7750, 2.0315


def orthogonalise(matrix: Tensor, rounds: int = 5) -> Tensor:
    """Return a matrix with the singular vectors of `matrix` [rows, columns] and singular values near 1.

    Newton-Schulz: with the spectral norm below 1, each round applies an odd polynomial to the singular values.
    """
    tall = matrix.shape[0] > matrix.shape[1]
    x: Tensor = matrix.T if tall else matrix
    x = x / (x.norm() + 1e-7)
    for _ in range(rounds):
        gram = x @ x.T
        x = _A * x + (_B * gram + _C * gram @ gram) @ x
    return x.T if tall else x


class Muon(Optimizer):
    """Muon with Nesterov momentum and decoupled weight decay, for matrices [rows, columns] only.

    Give embeddings, heads, norms and vectors to AdamW. ValueError for a parameter that is no matrix.
    """

    def __init__(
        self,
        parameters: Iterable[Tensor],
        *,
        lr: float = 3e-3,
        momentum: float = 0.95,
        weight_decay: float = 0.1,
        rounds: int = 5,
    ) -> None:
        super().__init__(
            parameters, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay, "rounds": rounds}
        )
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.ndim != 2:
                    raise ValueError(
                        f"Muon takes matrices, found a parameter of shape {tuple(parameter.shape)}; give it to AdamW"
                    )

    @overload
    def step(self, closure: None = None) -> None: ...

    @overload
    def step(self, closure: Callable[[], float]) -> float: ...

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self._update(parameter, parameter.grad, group)
        return loss

    def _update(self, parameter: Tensor, gradient: Tensor, group: dict[str, Any]) -> None:
        state = self.state[parameter]
        if not state:
            state["momentum"] = torch.zeros_like(parameter)
        momentum = state["momentum"]
        momentum.lerp_(gradient, 1 - group["momentum"])
        direction = orthogonalise(gradient.lerp(momentum, group["momentum"]), group["rounds"])
        # AdamW moves an entry by about 0.2 of the rate; an orthogonal matrix has entries of 1/sqrt(longer side).
        scale = 0.2 * max(parameter.shape) ** 0.5
        parameter.mul_(1 - group["lr"] * group["weight_decay"])
        parameter.add_(direction, alpha=-group["lr"] * scale)
