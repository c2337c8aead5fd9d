"""Finding the list of blocks, and saying so when that can't be done."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from torch import Tensor, nn

from depthscope.anatomy import AnatomyError, inspect_model
from depthscope.marks import Port
from tests.anatomy.foreign_blocks import WIDTH, Causal, StreamInPlace, UnknownNames, feed_forward
from tests.anatomy.foreign_gpt import ForeignGPT, tokens


def test_a_model_without_blocks_is_an_error_that_says_what_to_type():
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    with pytest.raises(AnatomyError) as error:
        inspect_model(model)
    message = str(error.value)
    assert "no list of transformer blocks in Sequential" in message
    assert "0 (Linear), 1 (ReLU), 2 (Linear)" in message
    assert "blocks=[" in message


def test_what_is_no_module_is_an_error():
    with pytest.raises(AnatomyError, match=r"expected a torch\.nn\.Module, found dict"):
        inspect_model({"a": 1})


class Twins(nn.Module):
    """Two lists of blocks of the same size."""

    def __init__(self) -> None:
        super().__init__()
        self.left = nn.ModuleList(UnknownNames() for _ in range(2))
        self.right = nn.ModuleList(UnknownNames() for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        for block in (*self.left, *self.right):
            x = block(x)
        return x


def test_two_lists_of_one_size_are_ambiguous_and_all_are_named():
    with pytest.raises(AnatomyError) as error:
        inspect_model(Twins())
    message = str(error.value)
    assert "several lists of Twins could be the transformer blocks" in message
    assert "left: ModuleList of 2 UnknownNames" in message
    assert "right: ModuleList of 2 UnknownNames" in message
    assert 'blocks="left"' in message


@pytest.mark.parametrize("choose", [lambda m: "right", lambda m: m.right, lambda m: ["right.0", m.right[1]]])
def test_a_choice_ends_the_ambiguity(choose):
    model = Twins()
    anatomy = inspect_model(model, torch.randn(2, 5, WIDTH), blocks=choose(model))
    assert anatomy.blocks == ("right.0", "right.1")
    assert anatomy.found_by == "explicit"
    assert [sublayer.name for sublayer in anatomy.axis.sublayers] == [
        "right.0.alpha",
        "right.0.zig",
        "right.1.alpha",
        "right.1.zig",
    ]


def test_a_path_that_is_not_there_is_an_error_with_the_lists_that_are():
    with pytest.raises(AnatomyError) as error:
        inspect_model(Twins(), blocks="middle")
    assert "blocks='middle': Twins has no module of that path" in str(error.value)
    assert "left: ModuleList of 2" in str(error.value)


def test_a_module_of_another_model_is_an_error():
    with pytest.raises(AnatomyError, match="blocks= holds UnknownNames, not a part of Twins"):
        inspect_model(Twins(), blocks=[UnknownNames()])


def test_the_list_with_the_number_of_layers_in_the_config_wins_over_a_larger_one():
    model = ForeignGPT(UnknownNames, blocks=2)
    model.experts = nn.ModuleList(nn.Sequential(nn.Linear(WIDTH, 90), nn.Linear(90, WIDTH)) for _ in range(9))
    assert inspect_model(model).blocks[0] == "experts.0"
    model.config = SimpleNamespace(num_hidden_layers=2)
    anatomy = inspect_model(model)
    assert anatomy.blocks == ("stack.0", "stack.1")
    assert [(candidate.path, candidate.chosen) for candidate in anatomy.candidates] == [
        ("stack", True),
        ("experts", False),
    ]
    assert "not taken: experts: ModuleList of 9 Sequential" in str(anatomy)


def test_blocks_in_a_sequential_are_found():
    class Straight(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = nn.Sequential(*(UnknownNames() for _ in range(3)))

        def forward(self, x: Tensor) -> Tensor:
            return self.body(x)

    anatomy = inspect_model(Straight(), torch.randn(2, 5, WIDTH))
    assert anatomy.blocks == ("body.0", "body.1", "body.2")
    assert len(anatomy.axis.sublayers) == 6


def test_without_a_forward_the_sublayers_are_a_guess_and_called_so():
    anatomy = inspect_model(ForeignGPT(UnknownNames, blocks=2))
    assert anatomy.axis is None
    assert not anatomy.settled
    assert [(guess.block, guess.module, guess.kind) for guess in anatomy.guess] == [
        (1, "stack.0.zig", "mlp"),
        (1, "stack.0.alpha", "attention"),
        (2, "stack.1.zig", "mlp"),
        (2, "stack.1.alpha", "attention"),
    ]
    assert str(anatomy).count("not verified yet") == 5


def test_the_guess_looks_into_lists_and_dicts_of_parts():
    guess = inspect_model(ForeignGPT(StreamInPlace, blocks=1)).guess
    assert [(g.module, g.kind) for g in guess] == [
        ("stack.0.parts.a", "attention"),
        ("stack.0.parts.b", "mlp"),
    ]


def test_what_is_used_between_two_blocks_is_neither_head_nor_final_read():
    class Supervised(ForeignGPT):
        """Every block's output goes through a head of its own, and a matrix lies between the blocks."""

        def __init__(self) -> None:
            super().__init__(UnknownNames)
            self.heads = nn.ModuleList(nn.Linear(WIDTH, 2) for _ in range(2))
            self.between = nn.Linear(WIDTH, WIDTH)

        def forward(self, ids: Tensor) -> Tensor:
            x = self.stack[0](self.embed(ids))
            self.heads[0](x)
            x = self.stack[1](self.between(x))
            self.heads[1](x)
            return self.w(self.m(self.stack[2](x)))

    model = Supervised()
    axis = inspect_model(model, tokens(), blocks="stack").axis
    assert axis.final_read == Port(module="m", side="input", path=(0,))
    assert axis.head_parameters == ("w",)
    assert axis.final_norm_parameters == ("m",)
    assert axis.embedding_parameters == ("t", "r")
    # `between` changes the stream behind layer 2, so what is read next is not that layer's state.
    assert [sublayer.fresh for sublayer in axis.sublayers] == ["state", None, *["state"] * 4]


def test_the_first_forward_settles_what_an_example_would_have():
    torch.manual_seed(0)
    model, ids = ForeignGPT(UnknownNames), tokens()
    later = inspect_model(model).settle(model, (ids,), {})
    assert later == inspect_model(model, ids)
    assert later.settled
    assert later.settle(model, (torch.randn(1),), {}) is later


@pytest.mark.parametrize("example", [lambda x: x, lambda x: (x,), lambda x: [x], lambda x: {"tokens": x}])
def test_an_example_is_a_tensor_a_tuple_or_a_dict(example):
    model, ids = ForeignGPT(UnknownNames), tokens()
    assert inspect_model(model, example(ids)).axis == inspect_model(model, ids).axis


def test_a_model_that_knows_inputs_of_its_own_needs_no_example():
    class WithDummies(ForeignGPT):
        @property
        def dummy_inputs(self) -> dict[str, Tensor]:
            return {"tokens": torch.tensor([[1, 2, 3]])}

    assert inspect_model(WithDummies(UnknownNames)).settled


def test_attention_and_mlp_in_either_order_are_told_apart():
    class Reversed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.n1, self.n2, self.a, self.b = (
                nn.LayerNorm(WIDTH),
                nn.LayerNorm(WIDTH),
                feed_forward(),
                Causal(),
            )

        def forward(self, x: Tensor) -> Tensor:
            x = x + self.a(self.n1(x))
            return x + self.b(self.n2(x))

    axis = inspect_model(ForeignGPT(Reversed), tokens()).axis
    assert [sublayer.kind for sublayer in axis.sublayers] == ["mlp", "attention"] * 3
