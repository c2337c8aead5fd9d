"""What can't be recorded rightly is left out, and the notes say why."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from depthscope.anatomy import AnatomyError, inspect_model
from depthscope.marks import Port
from tests.anatomy.foreign_blocks import WIDTH, Causal, UnknownNames, feed_forward
from tests.anatomy.foreign_gpt import ForeignGPT, tokens


class Parts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.a, self.b = Causal(), feed_forward()


class Plain(Parts):
    def forward(self, x: Tensor) -> Tensor:
        x = x + self.a(self.n1(x))
        return x + self.b(self.n2(x))


class ScaledResidual(Parts):
    """What is added is the output times a constant: no module gives it."""

    def forward(self, x: Tensor) -> Tensor:
        x = x + 0.22 * self.a(self.n1(x))
        return x + 0.22 * self.b(self.n2(x))


class LearnedScale(Parts):
    """A learned scale of the block that is 1 at the start."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.scale * self.a(self.n1(x))
        return x + self.b(self.n2(x))


class ClosedGate(Parts):
    """A learned gate of the block that is 0 at the start (ReZero)."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Parameter(torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.gate * self.a(self.n1(x))
        return x + self.gate * self.b(self.n2(x))


class PostNorm(Parts):
    def forward(self, x: Tensor) -> Tensor:
        x = self.n1(x + self.a(x))
        return self.n2(x + self.b(x))


class FunctionalDropout(Parts):
    """Right in evaluation, wrong in training."""

    def forward(self, x: Tensor) -> Tensor:
        x = x + F.dropout(self.a(self.n1(x)), 0.1, self.training)
        return x + self.b(self.n2(x))


class SharedDropout(Parts):
    """One dropout module gives both writes."""

    def __init__(self) -> None:
        super().__init__()
        self.drop = nn.Dropout(0.1)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.drop(self.a(self.n1(x)))
        return x + self.drop(self.b(self.n2(x)))


class LeftOutAtRandom(Parts):
    """A sublayer that is left out in most training forwards."""

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or float(torch.rand(())) < 0.4:
            x = x + self.a(self.n1(x))
        return x + self.b(self.n2(x))


@pytest.mark.parametrize(
    ("block", "reason"),
    [
        (ScaledResidual, "the output is 1 input + 0.22 a + 0.22 b: the residual is scaled"),
        (LearnedScale, "no outputs of its parts sum to output - input"),
        (ClosedGate, "the residual is scaled"),
        (PostNorm, "no outputs of its parts sum to output - input"),
        (FunctionalDropout, "output - input is a + b in evaluation but not in training: a dropout"),
        (SharedDropout, "drop gives several writes in one forward"),
    ],
)
def test_a_block_whose_writes_no_module_gives_has_no_record(block, reason):
    torch.manual_seed(0)
    anatomy = inspect_model(ForeignGPT(block).train(), tokens())
    assert anatomy.settled
    assert anatomy.axis is None
    assert len(anatomy.notes) == 1
    assert anatomy.notes[0].startswith("stack.0, stack.1, stack.2: no record: ")
    assert reason in anatomy.notes[0]
    assert anatomy.notes[0] in str(anatomy)
    # Where one module gives two writes the sum itself holds.
    expected = [] if block is SharedDropout else ["stack.0", "stack.1", "stack.2"]
    assert [check.block for check in anatomy.checks] == expected
    assert all(not check.passed and check.value > 10 * check.tolerance for check in anatomy.checks)


def test_only_the_block_that_failed_is_left_out():
    torch.manual_seed(0)
    model = ForeignGPT(UnknownNames)
    model.stack[1] = ScaledResidual()
    axis = inspect_model(model, tokens()).axis
    assert axis is not None
    assert [sublayer.transformer_block for sublayer in axis.sublayers] == [1, 1, 3, 3]
    assert [sublayer.index for sublayer in axis.sublayers] == [1, 2, 3, 4]
    # What comes after layer 2 is another block's business: its write is not known to be what is read next.
    assert [sublayer.fresh for sublayer in axis.sublayers] == ["state", None, "state", "state"]
    assert axis.sublayers[1].state == Port(module="stack.0", side="output")


def test_a_sublayer_that_is_left_out_at_random_in_training_is_found():
    for seed in range(4):
        torch.manual_seed(seed)
        axis = inspect_model(ForeignGPT(LeftOutAtRandom).train(), tokens()).axis
        assert axis is not None
        assert [sublayer.name for sublayer in axis.sublayers[:2]] == ["stack.0.a", "stack.0.b"]


def test_a_block_that_is_used_twice_has_no_record():
    class Recurrent(ForeignGPT):
        def forward(self, ids: Tensor) -> Tensor:
            x = self.embed(ids)
            for block in (*self.stack, *self.stack):
                x = block(x)
            return self.w(self.m(x))

    anatomy = inspect_model(Recurrent(UnknownNames), tokens())
    assert anatomy.axis is None
    assert any("the block is called 2 times in one forward" in note for note in anatomy.notes)


def test_an_attention_that_all_blocks_share_has_no_record():
    torch.manual_seed(0)
    model = ForeignGPT(Plain)
    for block in model.stack:
        block.a = model.stack[0].a
    anatomy = inspect_model(model, tokens())
    assert anatomy.axis is None
    assert [note.partition(":")[2] for note in anatomy.notes] == [
        f" no record: stack.{block}.a is called 3 times in one forward" for block in range(3)
    ]


def test_a_learned_scale_between_blocks_ends_the_stream_there_even_while_it_is_one():
    class Between(ForeignGPT):
        def __init__(self) -> None:
            super().__init__(UnknownNames)
            self.scales = nn.Parameter(torch.ones(3))

        def forward(self, ids: Tensor) -> Tensor:
            x = self.embed(ids)
            for scale, block in zip(self.scales, self.stack, strict=True):
                x = block(scale * x)
            return self.w(self.m(x))

    anatomy = inspect_model(Between(), tokens())
    assert anatomy.axis is not None
    ends = [anatomy.axis.sublayers[index] for index in (1, 3, 5)]
    assert [end.state for end in ends] == [Port(module=f"stack.{i}", side="output") for i in range(3)]
    assert [end.fresh for end in ends] == [None, None, "state"]
    assert any("the stream is changed between" in note for note in anatomy.notes)


def test_blocks_that_are_lists_of_parts_are_named_as_such():
    class Flat(ForeignGPT):
        def __init__(self) -> None:
            super().__init__(UnknownNames)
            self.stack = nn.ModuleList(nn.ModuleList([Causal(), feed_forward()]) for _ in range(2))

        def forward(self, ids: Tensor) -> Tensor:
            x = self.embed(ids)
            for attention, mlp in self.stack:
                x = x + attention(x)
                x = x + mlp(x)
            return self.w(self.m(x))

    anatomy = inspect_model(Flat(), tokens())
    assert anatomy.axis is None
    assert anatomy.notes == ("stack.0, stack.1: no record: it is a container that is never called itself",)


def test_a_forward_that_raises_is_told_with_the_way_to_give_an_example():
    model = ForeignGPT(UnknownNames)
    with pytest.raises(
        AnatomyError, match=r"raised .*Error while its depth axis was looked for: .*example= takes"
    ):
        inspect_model(model, torch.randn(2, 5))


def test_a_model_with_lazy_modules_is_told_to_run_once():
    model = ForeignGPT(UnknownNames)
    model.w = nn.LazyLinear(17)
    with pytest.raises(
        AnatomyError, match=r"w\.weight and 1 more parameters are not made yet .* run one forward"
    ):
        inspect_model(model, tokens())
