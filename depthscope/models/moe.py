"""A mixture of experts in place of an MLP: each token is computed by a few of many."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn


class MixtureOfExperts(nn.Module):
    """sum over the k best experts of p_e E_e(x), p the softmax over all experts, scaled to sum 1 over the k.

    Top-k routing token by token without capacity, so no token is dropped and none depends on another (Shazeer et al.,
    arXiv 1701.06538, Eqs. 1-5 without noise; renormalised as in Mixtral, arXiv 2401.04088, Section 2.1). There is no
    balancing loss: the decoder gives logits only. `router` [experts, d]; x and the result are [batch, time, d].
    """

    def __init__(self, width: int, expert: Callable[[], nn.Module], *, experts: int, active: int) -> None:
        super().__init__()
        self.active = active
        self.router = nn.Linear(width, experts, bias=False)
        self.experts = nn.ModuleList(expert() for _ in range(experts))

    def forward(self, x: Tensor) -> Tensor:
        tokens = x.reshape(-1, x.shape[-1])
        best, chosen = self.router(tokens).float().topk(self.active, dim=-1)
        # The softmax over the k best logits is the softmax over all, scaled to sum 1.
        shares = torch.softmax(best, dim=-1)
        total: Tensor | None = None
        for index, expert in enumerate(self.experts):
            # An expert that no token chose still takes part: its gradient is 0, not absent.
            place, rank = torch.where(chosen == index)
            given = expert(tokens[place])
            weighed = (shares[place, rank].unsqueeze(-1) * given).to(given.dtype)
            sums = given.new_zeros(tokens.shape) if total is None else total
            total = sums.index_add(0, place, weighed)
        assert total is not None
        return total.reshape(x.shape)
