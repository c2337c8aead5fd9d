"""Measuring leaves a model as it was, and says why where it cannot."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from depthscope.mixing import MixingError, measure_mixing, sample
from tests.mixing.models import TOKENS, moved
from tests.mixing.test_known_values import OppositeWrites


class Restless(OppositeWrites):
    """Draws random numbers, moves a buffer, counts its calls, and holds a forward of its own on a part."""

    def __init__(self):
        super().__init__()
        self.drop, self.norm = nn.Dropout(0.5), nn.BatchNorm1d(8)
        self.calls, self.history = 0, []

    def forward(self, tokens):
        self.calls += 1
        self.history.append(torch.rand(1))
        stream = self.embedding(tokens)
        stream = stream + self.first(self.read_first(stream))
        aside = self.drop(self.norm(stream.flatten(0, 1)))
        stream = stream + self.second(self.read_second(stream))
        return self.last(stream) + 0 * aside.view_as(stream)


def hooks_of(model):
    return [
        (name, len(module._forward_hooks), len(module._forward_pre_hooks), "forward" in module.__dict__)
        for name, module in model.named_modules()
    ]


def test_nothing_of_the_model_or_the_generators_changes():
    torch.manual_seed(0)
    model = Restless().train()
    model.second.eval()
    model.first.forward = model.first.forward  # as somebody who patches instances leaves it
    mine = model.first.__dict__["forward"]
    buffers = [buffer.clone() for buffer in model.buffers()]
    modes, hooks, state = [m.training for m in model.modules()], hooks_of(model), torch.get_rng_state()
    measure_mixing(model, TOKENS)
    assert [module.training for module in model.modules()] == modes
    assert hooks_of(model) == hooks
    assert model.first.__dict__["forward"] is mine
    assert all(torch.equal(one, other) for one, other in zip(model.buffers(), buffers, strict=True))
    assert torch.equal(torch.get_rng_state(), state)
    assert model.calls == 0
    assert not model.history
    assert all(parameter.grad is None for parameter in model.parameters())


def test_a_backward_under_way_does_not_notice():
    """Between the forward and the backward of a step: the same gradients as without."""

    def gradients(measured):
        model = moved("hc:n=4")
        loss = model(TOKENS).square().mean()
        if measured:
            measure_mixing(model, TOKENS)
        loss.backward()
        return [parameter.grad for parameter in model.parameters()]

    for one, other in zip(gradients(True), gradients(False), strict=True):
        assert (one is None and other is None) or torch.equal(one, other)


def test_hooks_are_gone_after_a_forward_that_raised():
    class Raising(OppositeWrites):
        def forward(self, tokens):
            super().forward(tokens)
            raise ValueError("no more of this")

    model = Raising()
    before = hooks_of(model)
    with pytest.raises(MixingError, match="Raising raised ValueError when its residual network was replayed"):
        measure_mixing(model, TOKENS)
    assert hooks_of(model) == before


def test_a_module_called_twice_is_a_reason():
    class Twice(OppositeWrites):
        def forward(self, tokens):
            stream = self.embedding(tokens)
            stream = stream + self.first(self.read_first(stream))
            stream = stream + self.first(stream)
            return self.last(stream + self.second(self.read_second(stream)))

    with pytest.raises(MixingError, match=r"first\.output passes several times in one forward"):
        measure_mixing(Twice(), TOKENS)


def test_the_sample_is_the_first_positions_of_the_first_sequences():
    ids = torch.arange(4 * 50).view(4, 50)
    batch = {"ids": ids, "mask": ids > 3, "square": torch.zeros(4, 1, 50, 50), "other": torch.zeros(7)}
    _, cut, size = sample((), batch, tokens=24)
    assert size == (1, 24)
    assert torch.equal(cut["ids"], ids[:1, :24])
    assert torch.equal(cut["mask"], ids[:1, :24] > 3)
    assert cut["square"].shape == (1, 1, 24, 24)
    assert cut["other"].shape == (7,)
    (vectors,), _, size = sample((torch.zeros(50, 4, 50),), {}, tokens=10)
    assert size == (2, 4)
    assert vectors.shape == (2, 4, 50)


@pytest.mark.parametrize(
    ("args", "kwargs", "found"),
    [
        (("text",), {}, "argument 1: str"),
        ((), {}, "no argument"),
        ((TOKENS.tolist(),), {}, "argument 1: list"),
        ((TOKENS[0],), {}, r"argument 1: int64 \[13\]"),
        ((), {"ids": TOKENS.float(), "cache": None}, r"ids: float32 \[2, 13\], cache: NoneType"),
    ],
)
def test_arguments_that_are_no_tokens_are_said_as_they_are(args, kwargs, found):
    words = r"a tensor of token ids \[batch, time\], whole numbers, or of vectors .*; found "
    with pytest.raises(MixingError, match=f"{words}{found}$"):
        sample(args, kwargs)
    # Before the model, which would fail on them somewhere deep inside.
    with pytest.raises(MixingError, match=f"{words}{found}$"):
        measure_mixing(tower(0.3), *args, **kwargs)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"way": "foo"}, "way='foo': expected 'coefficient' or 'functions'"),
        ({"tokens": 0}, "tokens=0: expected 1 or more"),
    ],
)
def test_an_option_that_means_nothing_is_refused(options, words):
    with pytest.raises(ValueError, match=words):
        measure_mixing(moved("prenorm"), TOKENS, **options)


class Scaled(nn.Module):
    """h + `factor` f(norm(h)), with a dropout that is a function; always: it drops in evaluation, too."""

    def __init__(self, factor, rate, always):
        super().__init__()
        self.factor, self.norm, self.mix = factor, nn.LayerNorm(8), nn.Linear(8, 8)
        self.rate, self.always = rate, always

    def forward(self, x):
        given = F.dropout(self.mix(self.norm(x)), self.rate, training=self.training or self.always)
        return x + self.factor * given


def tower(factor, rate=0.0, always=False):
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Embedding(31, 8),
        nn.Sequential(*(Scaled(factor, rate, always) for _ in range(3))),
        nn.Linear(8, 31),
    )


def test_a_model_without_a_depth_axis_says_why_there_is_none():
    with pytest.raises(
        MixingError,
        match=r"^no depth axis was found: 1\.0, 1\.1, 1\.2: no record: .*1 input \+ 0\.3 mix: the residual is scaled",
    ):
        measure_mixing(tower(0.3), TOKENS)
    assert measure_mixing(tower(1), TOKENS).sizes["target"] == 4


def test_what_is_measured_does_not_depend_on_what_lies_beyond_the_sample():
    model = moved("mhc:n=4")
    whole = measure_mixing(model, TOKENS, tokens=13)
    assert whole.sample_tokens == 13
    cut = measure_mixing(model, TOKENS[:1])
    assert whole["mixing_contribution"].equals(cut["mixing_contribution"])


@pytest.mark.parametrize("training", [False, True])
def test_a_dropout_that_is_a_function_is_off_as_one_that_is_a_module(training):
    with_dropout = tower(1, rate=0.5).train(training)
    assert measure_mixing(with_dropout, TOKENS).identical(measure_mixing(tower(1), TOKENS))


def test_a_dropout_that_drops_in_evaluation_too_leaves_a_gap():
    with pytest.raises(MixingError, match="do not sum to the read"):
        measure_mixing(tower(1, rate=0.5, always=True), TOKENS)
