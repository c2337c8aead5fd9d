"""What every design promises: causal, per token, pure, fit for checkpointing, copying and low precision."""

from __future__ import annotations

import copy
import dataclasses
import io

import pytest
import torch

from depthscope.marks import Tape
from depthscope.models import Decoder, residual_from_string
from tests.models.every import every_design


def flatten(state):
    return [state] if isinstance(state, torch.Tensor) else [t for part in state for t in flatten(part)]


def run(residual, sources):
    """The residual network alone, with given sublayer outputs: all reads and all states."""
    state = residual.begin(sources[0])
    reads, states = [], [state]
    for layer, output in enumerate(sources[1:]):
        reads.append(residual.read(state, layer))
        state = residual.write(state, layer, output)
        states.append(state)
    reads.append(residual.end(state))
    return reads, states


@pytest.fixture
def sources():
    generator = torch.Generator().manual_seed(1)
    return [torch.randn(2, 5, 24, generator=generator) for _ in range(9)]


@every_design
def test_a_later_token_changes_nothing_before_it(build, tokens, design):
    model = build(design, jitter=0.3)
    changed = tokens.clone()
    changed[:, 7] = (changed[:, 7] + 1) % 31
    before, after = model(tokens), model(changed)
    assert torch.equal(before[:, :7], after[:, :7])
    assert not torch.equal(before[:, 7:], after[:, 7:])


@every_design
def test_the_residual_acts_on_each_token_by_itself(build, sources, design):
    residual = build(design, jitter=0.3).residual
    moved = [source.clone() for source in sources]
    for source in moved:
        source[:, 3] += 1.0
    for read, other in zip(run(residual, sources)[0], run(residual, moved)[0], strict=True):
        others = [0, 1, 2, 4]
        assert torch.equal(read[:, others], other[:, others])
        assert not torch.equal(read[:, 3], other[:, 3])


@every_design
def test_write_never_mutates_and_read_is_pure(build, sources, design):
    residual = build(design, jitter=0.3).residual
    with torch.no_grad():
        state = residual.begin(sources[0])
        for layer, output in enumerate(sources[1:]):
            versions = [t._version for t in flatten(state)]
            values = [t.clone() for t in flatten(state)]
            first, second = residual.read(state, layer), residual.read(state, layer)
            assert torch.equal(first, second)
            after = residual.write(state, layer, output)
            assert [t._version for t in flatten(state)] == versions
            assert all(torch.equal(a, b) for a, b in zip(flatten(state), values, strict=True))
            state = after


@every_design
def test_checkpointing_gives_equal_gradients(build, config, tokens, gradients, design):
    plain = build(design, jitter=0.3)
    again = build(design, config=dataclasses.replace(config, checkpoint=True))
    again.load_state_dict(plain.state_dict())
    calls = []
    # The recomputation stops as soon as all it needs is there, so the last modules of a layer run once.
    again.layers[0].norm.register_forward_hook(lambda *_: calls.append(1))
    ours, theirs = (gradients(model, model(tokens), tokens) for model in (plain, again))
    assert len(calls) == 2
    assert ours.keys() == theirs.keys()
    for name in ours:
        assert torch.equal(ours[name], theirs[name]), name


@every_design
def test_the_state_stays_fp32_under_bf16_autocast(build, tokens, design):
    model = build(design, jitter=0.1)
    seen = []
    for layer in model.layers:
        layer.read.register_forward_hook(lambda module, inputs, output: seen.append(output.dtype))
        layer.write.register_forward_hook(
            lambda module, inputs, state: seen.extend(t.dtype for t in flatten(state))
        )
        layer.sublayer.register_forward_hook(lambda module, inputs, output: seen.append(output.dtype))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        logits = model(tokens)
    assert seen.count(torch.bfloat16) == 8
    assert set(seen) == {torch.float32, torch.bfloat16}
    assert torch.isfinite(logits).all()
    assert (logits.float() - model(tokens)).abs().max() < 0.1 * logits.abs().max()


@every_design
def test_a_mix_in_bf16_is_computed_in_fp32(build, design):
    """A model that is bf16 throughout gives bf16 reads close to the fp32 ones."""
    model = build(design, jitter=0.1)
    sources = [torch.randn(2, 5, 24).bfloat16() for _ in range(9)]
    exact, _ = run(model.residual, [s.float() for s in sources])
    rough, _ = run(copy.deepcopy(model.residual).bfloat16(), sources)
    for expected, read in zip(exact, rough, strict=True):
        assert read.dtype == torch.bfloat16
        assert (read.float() - expected).norm() < 0.02 * expected.norm()


@every_design
def test_a_copy_and_a_saved_model_stand_on_their_own(build, tokens, design):
    model = build(design, jitter=0.3)
    expected = model(tokens)
    twin = copy.deepcopy(model)
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    saved = torch.load(file, weights_only=False)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    for other in (twin, saved):
        assert torch.equal(other(tokens), expected)
        assert other.layers[0].read.residual is other.residual


@every_design
def test_the_design_holds_no_module_twice(build, design):
    model = build(design)
    names = [name for name, _ in model.named_parameters(remove_duplicate=False)]
    assert len(names) == len({id(p) for p in model.parameters()})
    assert not any(list(door.parameters()) for layer in model.layers for door in (layer.read, layer.write))


@pytest.mark.parametrize("design", ["prenorm", "full-attnres", "block-attnres:S=3"])
def test_replayed_on_one_hot_sources_a_design_shows_its_mixing_matrix(build, sources, design):
    """With coefficients replayed, features may be anything: here the source axis itself."""
    residual = build(design, jitter=0.5).residual
    with torch.no_grad():
        tape = Tape()
        with tape:
            reads, _ = run(residual, sources)
        with tape:
            one_hot = [row.expand(2, 5, 9) for row in torch.eye(9)]
            rows, _ = run(residual, one_hot)
    for row, read in zip(rows, reads, strict=True):
        mixed = torch.einsum("bti,ibtd->btd", row, torch.stack(sources))
        assert torch.allclose(mixed, read, rtol=1e-4, atol=1e-5)


@every_design
def test_replayed_a_design_is_linear_in_its_sources(build, sources, design):
    residual = build(design, jitter=0.3).residual
    with torch.no_grad():
        tape = Tape()
        with tape:
            reads, _ = run(residual, sources)
        contributions = []
        for kept in range(9):
            with tape:
                alone = [s if i == kept else torch.zeros_like(s) for i, s in enumerate(sources)]
                contributions.append(run(residual, alone)[0])
    for target, read in enumerate(reads):
        total = sum(row[target] for row in contributions)
        assert (total - read).norm() < 1e-5 * read.norm()


@every_design
def test_a_design_string_builds_the_design_that_it_describes(config, design):
    residual = residual_from_string(design, config)
    assert residual_from_string(residual.design, config).design == residual.design


def train(config, tokens, design, steps):
    torch.manual_seed(0)
    model = Decoder(config, residual_from_string(design, config))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    losses = []
    for _ in range(steps):
        loss = torch.nn.functional.cross_entropy(model(tokens)[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


@every_design
def test_thirty_steps_lower_the_loss(config, tokens, design):
    losses = train(config, tokens, design, 30)
    assert losses[0] == pytest.approx(torch.tensor(31.0).log().item(), abs=0.1)
    assert losses[-1] < 0.6 * losses[0]


@pytest.mark.soak
@every_design
def test_two_hundred_steps_stay_finite_and_learn_the_tokens(config, tokens, design):
    losses = torch.tensor(train(config, tokens, design, 200))
    assert torch.isfinite(losses).all()
    assert losses[-1] < 0.1
