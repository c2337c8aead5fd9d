"""Training in the same process is bitwise what it is without interventions: before, during and after."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch
from torch import Tensor, nn

from depthscope.causal import Subject, batch_of, depth_sources, losses_under
from depthscope.models import Decoder, DecoderConfig, residual_from_string

CONFIG = DecoderConfig(vocabulary=29, width=16, layers=4, heads=2, context=8)
STEPS = 30


def build() -> Decoder:
    torch.manual_seed(3)
    return Decoder(CONFIG, residual_from_string("block-attnres:S=2", CONFIG))


def train(model: Decoder, steps: int = STEPS) -> list[Tensor]:
    """Train with one-line backward passes and a dropout that draws from the process's generator."""
    torch.manual_seed(11)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for step in range(steps):
        ids = torch.randint(0, 29, (4, 9), generator=torch.Generator().manual_seed(step))
        logits = model(ids[:, :-1])
        loss = nn.functional.cross_entropy(
            nn.functional.dropout(logits, 0.1).flatten(0, 1), ids[:, 1:].flatten()
        )
        # fmt: off
        with contextlib.nullcontext(): loss.backward()
        # fmt: on
        optimizer.step()
        optimizer.zero_grad()
    return [parameter.detach().clone() for parameter in model.parameters()]


def same(one: list[Tensor], other: list[Tensor]) -> bool:
    return all(torch.equal(first, second) for first, second in zip(one, other, strict=True))


def test_training_before_during_and_after_a_sweep_is_bitwise_the_same() -> None:
    before = train(build())
    model = build()
    given = batch_of(torch.randint(0, 29, (4, 9), generator=torch.Generator().manual_seed(0)))
    untrained, swept, stop = build(), threading.Semaphore(0), threading.Event()

    def sweep() -> None:
        while not stop.is_set():
            try:
                subject = Subject.of(untrained, given.args)
                sources = depth_sources(subject, given)
                losses_under(subject, given, [sources.cut(3, [column]) for column in sources.readable(3)])
            finally:
                swept.release()

    with ThreadPoolExecutor(1) as pool:
        sweeping = pool.submit(sweep)
        swept.acquire()  # one sweep before and one after, so that training lies inside
        during = train(model)
        swept.acquire()
        stop.set()
        sweeping.result()
    assert same(before, during)
    assert same(before, train(build()))


def test_a_model_that_was_copied_trains_on_as_if_it_had_not_been() -> None:
    model, twin = build(), build()
    Subject.of(model, (torch.zeros(1, 4, dtype=torch.long),))
    assert same(train(model), train(twin))


def test_what_nnsight_changes_for_the_whole_process_is_put_back() -> None:
    Subject.of(build(), (torch.zeros(1, 4, dtype=torch.long),))
    assert "nnsight" in sys.modules
    assert not hasattr(object(), "save")
    weight = torch.ones(3, requires_grad=True)
    loss = (weight * 2).sum()
    # fmt: off
    with contextlib.nullcontext(): loss.backward()
    # fmt: on
    assert weight.grad is not None
    assert weight.grad.tolist() == [2, 2, 2]


def loaded(script: str) -> str:
    command = [sys.executable, "-c", f"{script}\nimport sys\nprint('nnsight' in sys.modules)"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()[-1]


def test_nnsight_is_not_loaded_by_recording_nor_by_serving_nor_by_importing_the_room(tmp_path: Path) -> None:
    recording = f"""
import torch, depthscope
model = torch.nn.Sequential()
from depthscope.testing.small_model import small_model
small = small_model("block-attnres:S=2")
optimizer = torch.optim.SGD(small.model.parameters(), lr=0.1)
with depthscope.Recorder(small.model, {str(tmp_path / "run")!r}, optimizer=optimizer) as recorder:
    small.loss(small.model).backward()
    optimizer.step()
    recorder.step()
import depthscope.causal
"""
    assert loaded(recording) == "False"
    serving = f"""
import depthscope
from depthscope.app.application import create_app
assert create_app({str(tmp_path)!r}).server.test_client().get("/").status_code == 200
depthscope.findings(depthscope.open({str(tmp_path / "run")!r}))
"""
    assert loaded(serving) == "False"
