"""The ports found in models whose modules have unknown names deliver h, f and s as worked out by hand."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from depthscope.anatomy import inspect_model, parameter_groups
from depthscope.marks import Port
from tests.anatomy.foreign_blocks import VARIANTS, Variant
from tests.anatomy.foreign_gpt import ForeignGPT, by_hand, moved, through_ports, tokens

variants = pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: variant.name)


def found_in_training(variant: Variant):
    """Return rows by hand and rows through the ports of one training forward, dropouts on."""
    torch.manual_seed(0)
    model, ids = moved(ForeignGPT(variant.block)).train(), tokens()
    anatomy = inspect_model(model, ids)
    assert anatomy.axis is not None, str(anatomy)
    torch.manual_seed(1)
    with torch.no_grad():
        expected = by_hand(model, variant.formula, ids)
    torch.manual_seed(1)
    with torch.no_grad():
        shown = through_ports(anatomy.axis, model, lambda: model(ids))
    return anatomy.axis, expected, shown


def same(seen: Tensor, expected: Tensor) -> bool:
    return torch.allclose(seen.reshape(expected.shape), expected, rtol=1e-5, atol=1e-6)


@variants
def test_reads_writes_and_states_are_those_worked_out_by_hand(variant):
    axis, (embedded, rows, last), shown = found_in_training(variant)
    assert [sublayer.index for sublayer in axis.sublayers] == [1, 2, 3, 4, 5, 6]
    for sublayer, (_, h, f, s) in zip(axis.sublayers, rows, strict=True):
        for what, port, expected in (
            ("read", sublayer.read, h),
            ("write", sublayer.write, f),
            ("state", sublayer.state, s),
        ):
            place = f"{what} of layer {sublayer.index} at {port}"
            assert (port is None) == (expected is None), place
            if expected is not None:
                assert same(shown[port], expected), place
    assert same(shown[axis.embedding], embedded)
    assert same(shown[axis.final_read], last)


@variants
def test_attention_and_mlp_are_told_apart_by_what_they_do(variant):
    axis, (_, rows, _), _ = found_in_training(variant)
    assert [sublayer.kind for sublayer in axis.sublayers] == [kind for kind, *_ in rows]


@variants
def test_blocks_are_numbered_and_the_stream_is_called_additive_where_it_is(variant):
    axis, _, _ = found_in_training(variant)
    assert [sublayer.transformer_block for sublayer in axis.sublayers] == [1, 1, 2, 2, 3, 3]
    assert [sublayer.residual_block for sublayer in axis.sublayers] == [0] * 6
    assert [sublayer.additive for sublayer in axis.sublayers] == list(variant.additive) * 3
    assert [sublayer.fresh for sublayer in axis.sublayers] == list(variant.fresh) * 3
    assert len({sublayer.name for sublayer in axis.sublayers}) == 6


@variants
def test_every_parameter_of_a_block_belongs_to_one_of_its_sublayers(variant):
    torch.manual_seed(0)
    model = ForeignGPT(variant.block)
    groups = parameter_groups(inspect_model(model, tokens()).axis, model)
    assert sorted(name for names in groups.values() for name in names) == sorted(
        dict(model.named_parameters())
    )
    assert set(groups["embedding"]) == {"t.weight", "r"}
    assert set(groups["final_norm"]) == {"m.weight", "m.bias"}
    assert groups["head"] == ["w.weight"]
    assert groups["rest"] == []
    for layer in range(1, 7):
        assert groups[f"layer/{layer}"], layer
        assert all(name.startswith(f"stack.{(layer - 1) // 2}.") for name in groups[f"layer/{layer}"])


def test_a_sublayer_owns_its_norm_and_a_shared_norm_goes_to_the_first():
    by_name = {variant.name: variant for variant in VARIANTS}

    def owned(name: str) -> list[set[str]]:
        model = ForeignGPT(by_name[name].block)
        axis = inspect_model(model, tokens()).axis
        return [{path.removeprefix("stack.0.") for path in s.parameters} for s in axis.sublayers[:2]]

    assert owned("unknown names") == [{"foo", "alpha"}, {"bar", "zig"}]
    assert owned("sandwich") == [{"n1", "one", "n2"}, {"n3", "two", "n4"}]
    assert owned("flat MLP") == [{"n1", "mix"}, {"n2", "up", "down"}]
    assert owned("parallel, shared norm") == [{"n", "a"}, {"b"}]
    assert owned("parallel, in place") == [{"n1", "a"}, {"n2", "b"}]
    assert owned("functional norm") == [{"g1", "p"}, {"g2", "q"}]
    assert owned("wrapped residual") == [{"0"}, {"1"}]


def test_the_write_is_what_the_last_module_of_a_chain_gives():
    model = ForeignGPT({variant.name: variant for variant in VARIANTS}["unknown names"].block)
    first, second, *_ = inspect_model(model, tokens()).axis.sublayers
    assert first.write == Port(module="stack.0.u", side="output")
    assert second.write == Port(module="stack.0.v", side="output")
    assert first.read == Port(module="stack.0.foo", side="input", path=(0,))
    assert first.state == second.read == Port(module="stack.0.bar", side="input", path=(0,))
    assert second.state == Port(module="stack.1.foo", side="input", path=(0,))


def test_the_last_state_is_the_last_blocks_output_and_the_final_read_the_final_norms_input():
    model = ForeignGPT({variant.name: variant for variant in VARIANTS}["unknown names"].block)
    axis = inspect_model(model, tokens()).axis
    assert axis.sublayers[-1].state == Port(module="stack.2", side="output")
    assert axis.final_read == Port(module="m", side="input", path=(0,))
    assert axis.embedding == Port(module="stack.0", side="input", path=(0,))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
@pytest.mark.parametrize("name", ["unknown names", "sandwich", "parallel, shared norm", "zero start"])
def test_the_answer_is_the_same_in_other_precisions(name, dtype):
    torch.manual_seed(0)
    model = ForeignGPT({variant.name: variant for variant in VARIANTS}[name].block)
    expected = inspect_model(model, tokens()).axis
    assert inspect_model(model.to(dtype), tokens()).axis == expected


def test_the_answer_is_the_same_under_autocast():
    torch.manual_seed(0)
    model = ForeignGPT({variant.name: variant for variant in VARIANTS}["unknown names"].block)
    expected = inspect_model(model, tokens()).axis
    with torch.autocast("cpu", torch.bfloat16):
        assert inspect_model(model, tokens()).axis == expected


@pytest.mark.parametrize("shape", [(1, 5), (4, 2), (3, 6)])
def test_the_answer_does_not_depend_on_the_batch(shape):
    torch.manual_seed(0)
    model = ForeignGPT({variant.name: variant for variant in VARIANTS}["unknown names"].block)
    assert inspect_model(model, tokens(*shape)).axis == inspect_model(model, tokens()).axis


def test_with_one_token_the_kinds_are_told_by_the_shapes_of_the_matrices():
    model = ForeignGPT({variant.name: variant for variant in VARIANTS}["unknown names"].block)
    axis = inspect_model(model, tokens(2, 1)).axis
    assert [sublayer.kind for sublayer in axis.sublayers[:2]] == ["attention", "mlp"]
