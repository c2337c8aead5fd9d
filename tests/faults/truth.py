"""What a step's row must hold, from the fp64 reference, and the plain loop that records it."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from depthscope.recording import Recorder
from tests.recording import reference
from tests.recording.loops import loss_of

FORWARD = ("read_rms", "write_rms", "write_cosine", "state_rms", "state_logrms", "abs_max")
GRADIENTS = ("grad_write_rms", "grad_read_rms")
PARAMETERS = ("param_grad_norm", "grad_norm")
ALL = (*FORWARD, *GRADIENTS, *PARAMETERS)


def truth(model: nn.Module, inputs: Tensor, targets: Tensor) -> dict[str, np.ndarray]:
    """Compute one step by hand, on a copy of a model that no recorder has touched."""
    return truth_of(copy.deepcopy(model), inputs, targets)


def truth_of(model: nn.Module, inputs: Tensor, targets: Tensor) -> dict[str, np.ndarray]:
    """The same on the model itself, whose gradients it replaces."""
    model.zero_grad()
    seen = reference.capture(model, inputs, targets)
    return reference.over_layers(seen) | {
        "loss": np.array(seen.loss.item()),
        "param_grad_norm": reference.layer_gradient_norms(model),
        "grad_norm": np.array(reference.gradient_norms(model, "")),
    }


def without_updates(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=0.0)


def one_step(
    called: nn.Module, optimizer: torch.optim.Optimizer, recorder: Recorder, inputs: Tensor, targets: Tensor
) -> None:
    """One optimizer step as a user writes it."""
    loss = loss_of(called, inputs, targets)
    loss.backward()
    optimizer.step()
    recorder.step(loss=loss.detach())
    optimizer.zero_grad()


def same(
    row: Mapping[str, Any], expected: Mapping[str, Any], *names: str, layers: list[int] | None = None
) -> None:
    """Hold quantities of a row against their true values; `layers` (from 1) leaves the others out."""
    for name in names:
        found, wanted = np.asarray(row[name]), np.asarray(expected[name])
        if layers is not None:
            places = [layer - 1 for layer in layers]
            found, wanted = found[places], wanted[places]
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6, err_msg=name)
