"""Models that describe themselves, wrappers, layouts, and whose parameters are whose."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from depthscope.anatomy import AnatomyError, inspect_model, layout_of, parameter_groups, unwrap
from depthscope.marks import DepthAxis
from depthscope.models import Decoder, DecoderConfig, residual_from_string
from depthscope.quantities import DepthLayout
from tests.anatomy.foreign_blocks import VARIANTS, UnknownNames
from tests.anatomy.foreign_gpt import ForeignGPT, tokens

DESIGNS = ["prenorm", "full-attnres", "block-attnres:S=3", "hires:n=2,B=2", "hires:n=1.5,B=1"]


def decoder(design: str, **options: bool) -> Decoder:
    config = DecoderConfig(vocabulary=17, width=12, layers=8, heads=3, context=16, **options)
    return Decoder(config, residual_from_string(design, config))


@pytest.mark.parametrize("design", DESIGNS)
def test_a_model_that_describes_itself_is_taken_by_its_word(design):
    model = decoder(design)
    anatomy = inspect_model(model)
    assert anatomy.axis == model.describe_depth()
    assert anatomy.found_by == "described by the model"
    assert anatomy.settled
    assert anatomy.settle(model, (), {}) is anatomy


def test_a_description_of_modules_that_are_not_there_is_an_error():
    class Wrong(Decoder):
        def describe_depth(self) -> DepthAxis:
            axis = super().describe_depth()
            self.end = nn.Identity()
            del self.norm
            return axis

    model = decoder("prenorm")
    model.__class__ = Wrong
    with pytest.raises(AnatomyError, match="names 'norm'"):
        inspect_model(model)


@pytest.fixture
def one_rank() -> Iterator[None]:
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    yield
    torch.distributed.destroy_process_group()


def test_wrappers_are_taken_off(one_rank):
    model = ForeignGPT(UnknownNames)
    assert unwrap(model) is model
    assert unwrap(DistributedDataParallel(model)) is model
    assert unwrap(torch.compile(model, backend="eager")) is model
    assert unwrap(torch.compile(DistributedDataParallel(model), backend="eager")) is model


def test_a_wrapped_model_is_described_with_the_paths_of_the_inner_one(one_rank):
    model = ForeignGPT(UnknownNames)
    expected = inspect_model(model, tokens()).axis
    wrapped = DistributedDataParallel(model)
    assert inspect_model(wrapped, tokens()).axis == expected
    assert inspect_model(wrapped).settle(wrapped, (tokens(),), {}).axis == expected
    described = decoder("prenorm")
    assert inspect_model(DistributedDataParallel(described)).axis == described.describe_depth()


def test_on_a_compiled_model_the_note_says_that_attaching_comes_first():
    model = ForeignGPT(UnknownNames)
    expected = inspect_model(model, tokens())
    compiled = inspect_model(torch.compile(model, backend="eager"), tokens())
    assert compiled.axis == expected.axis
    assert expected.notes == ()
    assert len(compiled.notes) == 1
    assert "attach before torch.compile(model)" in compiled.notes[0]


def test_blocks_that_are_compiled_are_looked_into_eagerly():
    model = ForeignGPT(UnknownNames)
    expected = inspect_model(model, tokens()).axis
    for block in model.stack:
        block.compile(backend="eager")
    assert inspect_model(model, tokens()).axis == expected


@pytest.mark.parametrize("design", DESIGNS)
def test_the_layout_is_the_outline_of_the_axis(design):
    model = decoder(design)
    axis = model.describe_depth()
    layout = layout_of(axis, model)
    assert layout.design == axis.design
    assert layout.layers == 8
    assert layout.layer_kinds == ("attention", "mlp") * 4
    assert layout.transformer_block == (1, 1, 2, 2, 3, 3, 4, 4)
    assert DepthLayout.from_json(layout.to_json()) == layout


def test_the_layout_of_block_attnres_names_its_sources():
    model = decoder("block-attnres:S=3")
    layout = layout_of(model.describe_depth(), model)
    assert layout.residual_block == (1, 1, 1, 2, 2, 2, 3, 3)
    assert layout.source_names == ("embedding", "block 1", "block 2", "block 3")
    assert layout.sources == (
        (0,),
        (0, 1),
        (0, 1),
        (0, 1),
        (0, 1, 2),
        (0, 1, 2),
        (0, 1, 2),
        (0, 1, 2, 3),
        (0, 1, 2, 3),
    )
    assert layout.partial == (-1, 1, 1, -1, 2, 2, -1, 3, -1)
    assert layout.additive == (False,) * 8
    assert layout.outer_blocks == layout.outer_width == 0


@pytest.mark.parametrize(
    ("design", "width", "blocks"), [("hires:n=2,B=2", 24, 2), ("hires:n=1.5,B=1", 18, 1)]
)
def test_the_layout_of_hires_has_the_outer_width(design, width, blocks):
    model = decoder(design)
    layout = layout_of(model.describe_depth(), model)
    assert (layout.outer_width, layout.outer_blocks) == (width, blocks)
    assert layout.sources == layout.partial == ()


def test_the_layout_of_a_foreign_model_says_what_is_not_seen():
    model = ForeignGPT({variant.name: variant for variant in VARIANTS}["functional norm"].block)
    layout = layout_of(inspect_model(model, tokens()).axis, model)
    assert layout.reads == (True, False) * 3
    assert layout.states == (False, True) * 3
    assert layout.fresh == (True, False) * 3


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from([*DESIGNS, *(variant.name for variant in VARIANTS)]),
    st.booleans(),
    st.lists(st.integers(0, 200), max_size=4),
)
def test_the_groups_are_a_partition_of_all_parameters(name, tied, frozen):
    torch.manual_seed(0)
    if name in DESIGNS:
        model: nn.Module = decoder(name, tied_head=tied)
    else:
        model = ForeignGPT({variant.name: variant for variant in VARIANTS}[name].block, blocks=2, tied=tied)
        model.unused = nn.Linear(2, 3)
    parameters = list(model.named_parameters())
    for place in frozen:
        parameters[place % len(parameters)][1].requires_grad_(False)
    axis = inspect_model(model, tokens()).axis
    groups = parameter_groups(axis, model)
    members = [member for names in groups.values() for member in names]
    assert sorted(members) == sorted(name for name, _ in parameters)
    assert len(members) == len(set(members))
    squares = {name: float(parameter.detach().double().square().sum()) for name, parameter in parameters}
    total = sum(sum(squares[member] for member in names) for names in groups.values())
    assert abs(total - sum(squares.values())) <= 1e-9 * total


def test_tied_weights_count_once_with_the_embedding():
    tied = ForeignGPT(UnknownNames, tied=True)
    groups = parameter_groups(inspect_model(tied, tokens()).axis, tied)
    # The head's name comes first in the model, so it is the name that named_parameters() gives.
    assert set(groups["embedding"]) == {"w.weight", "r"}
    assert groups["head"] == []
    model = decoder("prenorm", tied_head=True)
    groups = parameter_groups(model.describe_depth(), model)
    assert "embedding.token.weight" in groups["embedding"]
    assert groups["head"] == []


def test_mixers_and_interfaces_have_groups_of_their_own():
    model = decoder("block-attnres:S=3")
    groups = parameter_groups(model.describe_depth(), model)
    assert sorted(groups["mixer/9"]) == ["residual.mix.8.key_norm.weight", "residual.mix.8.query"]
    model = decoder("hires:n=2,B=2")
    groups = parameter_groups(model.describe_depth(), model)
    assert groups["interface/2/read"] == ["residual.R.1.weight"]
    assert groups["interface/2/write"] == ["residual.W.1.weight"]
    assert sorted(groups["interface/2/gate"]) == ["residual.R.1.gate", "residual.W.1.gate"]
    assert set(groups["rest"]) >= {"residual.E.weight", "residual.H.weight"}
    assert all(name.startswith("layers.2.") for name in groups["layer/3"])
