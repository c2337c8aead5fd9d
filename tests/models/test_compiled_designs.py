"""A compiled decoder computes what the eager one does, in one graph and whatever the design."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from tests.models.every import EVERY

# Four sublayers compile in half the time of eight.
ALWAYS = [(4, design) for design in ("prenorm", "block-attnres:S=3", "hires:n=2,B=2")]
SOAK = [pytest.param(8, design, marks=pytest.mark.soak) for design in EVERY]


@pytest.mark.parametrize(("layers", "design"), [*ALWAYS, *SOAK])
def test_a_compiled_design_gives_equal_logits_and_gradients(build, config, tokens, gradients, layers, design):
    torch.compiler.reset()
    model = build(design, jitter=0.1, config=dataclasses.replace(config, layers=layers))
    expected = model(tokens)
    ours = gradients(model, expected, tokens)
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    logits = compiled(tokens)
    assert torch.allclose(logits, expected, rtol=1e-4, atol=1e-5)
    theirs = gradients(model, logits, tokens)
    assert ours.keys() == theirs.keys()
    for name in ours:
        assert (ours[name] - theirs[name]).norm() <= 1e-4 * ours[name].norm() + 1e-7, name


@pytest.mark.soak
@pytest.mark.filterwarnings("ignore:`torch.jit.:DeprecationWarning")  # of inductor's own code
@pytest.mark.parametrize("design", EVERY)
def test_a_design_through_inductor_gives_equal_logits(build, tokens, design):
    torch.compiler.reset()
    model = build(design, jitter=0.1)
    with torch.no_grad():
        expected = model(tokens)
        assert torch.allclose(torch.compile(model)(tokens), expected, rtol=1e-3, atol=1e-4)
