"""Small trained models with every kind of site, and one step of each, recorded in different ways."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor, nn

from depthscope.anatomy import inspect_model
from depthscope.marks import DepthAxis
from depthscope.models import Decoder, DecoderConfig, residual_from_string
from depthscope.probes import Probe
from depthscope.quantities import DepthLayout
from depthscope.recording import Recorder, Rows, strictly

DESIGNS = ("prenorm", "block-attnres:S=2", "hires:B=2,n=2")
"""One stream, depth mixers, a wide outer state."""
_VOCABULARY, _ROWS, _TIME = 29, 4, 6


@dataclass(frozen=True, kw_only=True)
class SmallModel:
    """A decoder after some training, with a batch [rows, time]."""

    design: str
    model: Decoder
    inputs: Tensor
    targets: Tensor

    @property
    def axis(self) -> DepthAxis:
        axis = inspect_model(self.model).axis
        assert axis is not None, "it describes itself"
        return axis

    def loss(self, model: nn.Module, part: slice = slice(None)) -> Tensor:
        """Return the mean loss over some rows of the batch."""
        logits: Tensor = model(self.inputs[part])
        return nn.functional.cross_entropy(logits.flatten(0, 1), self.targets[part].flatten())


@dataclass(frozen=True, kw_only=True)
class RecordedStep:
    """One recorded optimizer step."""

    values: dict[str, Any]
    """By quantity, in fp64, as they were before storage."""
    layout: DepthLayout
    loss: float


def small_model(design: str) -> SmallModel:
    """Return a copy that may be changed."""
    return copy.deepcopy(_trained(design))


@cache
def _trained(design: str) -> SmallModel:
    """Away from the start, where many a mistake does not show: zero queries, one size of all tokens."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        config = DecoderConfig(vocabulary=_VOCABULARY, width=16, layers=4, heads=2, context=_TIME)
        model = Decoder(config, residual_from_string(design, config))
        ids = torch.randint(0, _VOCABULARY, (_ROWS, _TIME + 1))
    small = SmallModel(design=design, model=model, inputs=ids[:, :-1], targets=ids[:, 1:])
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for _ in range(8):
        small.loss(model).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        optimizer.zero_grad()
    return small


def record_step(
    small: SmallModel,
    probe: Probe,
    *,
    call: Callable[[nn.Module], Any] = lambda model: model,
    parts: int = 1,
) -> RecordedStep:
    """Record one step that leaves the weights, its batch in `parts`; `call` makes of the model what is called."""
    model = small.model
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    optimizer.zero_grad()  # a step before may have failed half way
    rows = Rows()
    size = _ROWS // parts
    with TemporaryDirectory() as folder, strictly(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what a probe leaves out is told by the check
        path = Path(folder) / "run"
        every = {"fast": 1, "slow": 1}
        with Recorder(model, path, optimizer=optimizer, every=every, probes=(probe,)) as recorder:
            recorder.watch(rows)
            called, total = call(model), 0.0
            for begin in range(0, _ROWS, size):
                loss = small.loss(called, slice(begin, begin + size)) / parts
                loss.backward()  # type: ignore[no-untyped-call]
                total += loss.item()
            optimizer.step()
            recorder.step(tokens=small.inputs.numel())
            optimizer.zero_grad()
        session = recorder._session
        assert session is not None, "the model describes itself"
    return RecordedStep(values=rows.values, layout=session.layout, loss=total)
