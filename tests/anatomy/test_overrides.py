"""What the caller says wins, as long as the numbers bear it out."""

from __future__ import annotations

import pytest
import torch

from depthscope.anatomy import AnatomyError, inspect_model, layout_of
from depthscope.marks import Mixer, Port
from depthscope.models import Decoder, DecoderConfig, residual_from_string
from tests.anatomy.foreign_blocks import Sandwich, UnknownNames
from tests.anatomy.foreign_gpt import ForeignGPT, tokens


def test_named_modules_whose_outputs_are_the_writes_are_taken():
    anatomy = inspect_model(ForeignGPT(Sandwich), tokens(), attention="n2", mlp="n4")
    assert anatomy.found_by == "explicit"
    assert [sublayer.write.module for sublayer in anatomy.axis.sublayers[:2]] == ["stack.0.n2", "stack.0.n4"]
    assert [sublayer.kind for sublayer in anatomy.axis.sublayers[:2]] == ["attention", "mlp"]


def test_a_named_module_decides_the_kind_of_the_sublayer_it_is_part_of():
    anatomy = inspect_model(ForeignGPT(UnknownNames), tokens(), attention="zig", mlp="alpha")
    assert [sublayer.kind for sublayer in anatomy.axis.sublayers[:2]] == ["mlp", "attention"]
    # Their outputs go through dropouts before they are added, so the writes stay those of the dropouts.
    assert [sublayer.write.module for sublayer in anatomy.axis.sublayers[:2]] == ["stack.0.u", "stack.0.v"]


def test_a_named_module_that_adds_nothing_is_told():
    class WithSpare(UnknownNames):
        def __init__(self) -> None:
            super().__init__()
            self.spare = torch.nn.Linear(12, 12)

    anatomy = inspect_model(ForeignGPT(WithSpare), tokens(), attention="spare")
    assert any(
        "attention='spare' adds nothing to the stream; the writes are u, v" in n for n in anatomy.notes
    )
    assert anatomy.axis.sublayers[0].kind == "attention"


def test_named_modules_are_the_guess_before_a_forward():
    anatomy = inspect_model(ForeignGPT(UnknownNames, blocks=1), attention="u", mlp="v")
    assert [(g.module, g.kind) for g in anatomy.guess] == [("stack.0.u", "attention"), ("stack.0.v", "mlp")]


def test_a_name_that_no_block_has_is_an_error_with_the_names_it_has():
    with pytest.raises(AnatomyError) as error:
        inspect_model(ForeignGPT(UnknownNames), attention="attn")
    assert "attention='attn' is no module of the blocks" in str(error.value)
    assert "zig, alpha, foo, bar, u, v" in str(error.value)


@pytest.mark.parametrize(
    ("block_size", "expected"),
    [
        (4, [1, 1, 1, 1, 2, 2]),
        (1, [1, 2, 3, 4, 5, 6]),
        ([2, 5], [1, 1, 2, 2, 2, 3]),
        ([2, 5, 6], [1, 1, 2, 2, 2, 3]),
    ],
)
def test_residual_blocks_follow_the_size_or_the_boundaries(block_size, expected):
    axis = inspect_model(ForeignGPT(UnknownNames), tokens(), block_size=block_size).axis
    assert [sublayer.residual_block for sublayer in axis.sublayers] == expected


@pytest.mark.parametrize("block_size", [0, -2, [], [3, 3], [4, 2]])
def test_sizes_that_make_no_sense_are_errors(block_size):
    with pytest.raises(AnatomyError, match="block_size="):
        inspect_model(ForeignGPT(UnknownNames), tokens(), block_size=block_size)


def test_boundaries_mean_what_the_reference_models_mean_by_them():
    config = DecoderConfig(vocabulary=17, width=12, layers=6, heads=3, context=8)
    described = inspect_model(
        Decoder(config, residual_from_string("block-attnres:boundaries=2+5", config))
    ).axis
    found = inspect_model(ForeignGPT(UnknownNames), tokens(), block_size=[2, 5]).axis
    assert [s.residual_block for s in found.sublayers] == [s.residual_block for s in described.sublayers]


def mixer(module: str) -> Mixer:
    return Mixer(
        target=3,
        module=module,
        weights=Port(module=module, side="output"),
        sources=(0, 1),
        partial=False,
        query=None,
        key_norm=None,
        parameters=(module,),
    )


def test_mixers_that_are_given_are_part_of_the_axis():
    model = ForeignGPT(UnknownNames)
    axis = inspect_model(model, tokens(), mixers=[mixer("stack.1.foo")], block_size=2).axis
    assert axis.mixers == (mixer("stack.1.foo"),)
    assert axis.source_names == ("embedding", "block 1")
    assert layout_of(axis, model).sources == ((), (), (0, 1), (), (), (), ())


def test_a_mixer_that_is_no_module_is_an_error():
    with pytest.raises(AnatomyError, match=r"mixers= names 'mix\.0', which is no module of ForeignGPT"):
        inspect_model(ForeignGPT(UnknownNames), tokens(), mixers=[mixer("mix.0")])
