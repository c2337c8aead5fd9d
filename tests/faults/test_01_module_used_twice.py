"""Fault 1: a module used several times in a forward is one sublayer, merged over its calls, or has no record."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from depthscope.anatomy import AnatomyError
from depthscope.marks import DepthAxis, Port, Sublayer
from depthscope.recording import Recorder
from depthscope.store import open_run
from tests.faults.truth import one_step, same, truth, without_updates
from tests.recording.loops import ForeignGPT, batches
from tests.recording.rows import spy_on_rows

ROUNDS = 3
SQUARES = ("read_rms", "write_rms", "state_rms", "grad_write_rms", "grad_read_rms")
MEANS = ("read_logrms", "write_cosine", "write_ratio")


class Looped(ForeignGPT):
    """One block, run several times, that describes itself as the two sublayers it has."""

    def __init__(self) -> None:
        super().__init__(stages=1)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.letters(ids) + self.places.weight[: ids.shape[1]]
        for _ in range(ROUNDS):
            x = self.tower[0](x)
        return self.out(self.last(x))

    def sublayer(self, index: int, norm: str, name: str, state: Port, write: str | None = None) -> Sublayer:
        return Sublayer(
            index=index,
            name=f"{index} {name}",
            kind="other",
            transformer_block=1,
            residual_block=0,
            read=Port(module=f"tower.0.{norm}", side="input"),
            write=Port(module=f"tower.0.{write or name}", side="output"),
            state=state,
            additive=True,
            fresh="state",
            parameters=(f"tower.0.{norm}", f"tower.0.{name}"),
        )

    def describe_depth(self) -> DepthAxis:
        between = Port(module="tower.0.w", side="input")
        return DepthAxis(
            design="looped",
            embedding=None,
            final_read=Port(module="last", side="input"),
            sublayers=(
                self.sublayer(1, "u", "alpha", between),
                self.sublayer(2, "w", "beta", Port(module="tower.0", side="output")),
            ),
        )


class Embedded(Looped):
    """The same with an embedding that is a module."""

    def __init__(self) -> None:
        super().__init__()
        self.enter = nn.Identity()

    def forward(self, ids: Tensor) -> Tensor:
        x = self.enter(self.letters(ids) + self.places.weight[: ids.shape[1]])
        for _ in range(ROUNDS):
            x = self.tower[0](x)
        return self.out(self.last(x))

    def describe_depth(self) -> DepthAxis:
        plain = super().describe_depth()
        return DepthAxis(
            design=plain.design,
            embedding=Port(module="enter", side="output"),
            final_read=plain.final_read,
            sublayers=plain.sublayers,
        )


@pytest.fixture(autouse=True)
def fresh_compiler() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.mark.parametrize("compiled", [False, True])
def test_a_module_that_is_called_three_times_is_merged_over_its_calls_which_is_said(
    compiled: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(0)
    rows, model, (inputs, targets) = spy_on_rows(monkeypatch), Embedded(), batches()()
    unrolled = ForeignGPT(stages=1)
    unrolled.load_state_dict(model.state_dict())
    unrolled.tower = nn.ModuleList([unrolled.tower[0]] * ROUNDS)
    calls = truth(unrolled, inputs, targets)
    optimizer = without_updates(model)
    called = torch.compile(model, fullgraph=True, backend="aot_eager") if compiled else model
    with Recorder(model, tmp_path / "run", optimizer=optimizer) as recorder:
        one_step(called, optimizer, recorder, inputs, targets)
    expected: dict[str, Any] = {
        name: np.sqrt(np.square(calls[name].reshape(ROUNDS, 2)).mean(0)) for name in SQUARES
    }
    expected |= {name: calls[name].reshape(ROUNDS, 2).mean(0) for name in MEANS}
    expected["abs_max"] = calls["abs_max"].reshape(ROUNDS, 2).max(0)
    row = rows["fast"][0]
    if compiled:
        # The gradient of the first read is known of one call, and so of none.
        assert np.isnan(row["grad_read_rms"][0])
        row["grad_read_rms"][0] = expected["grad_read_rms"][0]
    same(row, expected, *SQUARES, *MEANS, "abs_max")
    same(row, calls, "grad_norm")
    notes = str(open_run(tmp_path / "run").notes)
    assert "layer 1 (1 alpha) is called 3 times in a forward: its numbers are merged over the calls" in notes
    assert "layer 2 (2 beta) is called 3 times" in str(recorder.report())


def test_two_layers_of_one_module_are_refused_when_the_recorder_is_attached(tmp_path: Path) -> None:
    """Each of the two would hold what the other did as well."""

    class Twice(Looped):
        def describe_depth(self) -> DepthAxis:
            plain = super().describe_depth()
            again = self.sublayer(2, "w", "beta", Port(module="tower.0", side="output"), write="alpha")
            return DepthAxis(
                design="twice", embedding=None, final_read=None, sublayers=(plain.sublayers[0], again)
            )

    with pytest.raises(AnatomyError, match=r"layers 1 and 2 one write, tower\.0\.alpha\.output"):
        Recorder(Twice(), tmp_path / "run")


def test_a_block_that_does_not_describe_itself_has_no_record_with_the_reason(tmp_path: Path) -> None:
    class Unknown(Looped):
        describe_depth = None  # type: ignore[assignment]

    with pytest.raises(
        AnatomyError, match=r"tower\.0: no record: the block is called 3 times in one forward"
    ):
        Recorder(Unknown(), tmp_path / "run", example=batches()()[0])
