"""A trainer's numbers depend on its options and seed, and on nothing that happens around it."""

from __future__ import annotations

import dataclasses
import math

import pytest
import torch

from depthscope.training import NullRecorder, TrainingOptions, build_optimizers, train, train_round_robin

DESIGNS = ["prenorm", "full-attnres", "block-attnres:S=2", "hires:n=2,B=2"]


def run(trainer, steps=20):
    return [trainer.step().item() for _ in range(steps)]


def same_parameters(one, other):
    return all(
        torch.equal(a, b) for a, b in zip(one.model.parameters(), other.model.parameters(), strict=True)
    )


class Watcher:
    def __init__(self):
        self.events = []

    def stepped(self, name, completed, loss):
        self.events.append((name, completed))

    def validated(self, name, loss):
        self.events.append((name, "validation"))


@pytest.mark.parametrize("design", DESIGNS)
def test_the_loss_starts_at_uniform_and_falls(build, design):
    losses = run(build(design))
    assert losses[0] == pytest.approx(math.log(256), abs=0.1)
    assert sum(losses[-3:]) / 3 < 0.75 * losses[0]


def test_equal_seeds_give_equal_runs_bitwise(build):
    one, other = build(), build()
    assert run(one) == run(other)
    assert same_parameters(one, other)


def test_another_seed_gives_another_model_and_other_data(build, options):
    assert run(build(), 1) != run(build(seed=1), 1)
    assert run(build(), 1) != run(build(options=dataclasses.replace(options, seed=1)), 1)


def test_every_design_of_a_seed_starts_with_the_same_sublayers(build):
    first, *others = (dict(build(design).model.named_parameters()) for design in DESIGNS)
    for parameters in others:
        shared = [name for name in parameters if not name.startswith("residual.")]
        assert shared == list(first)
        assert all(torch.equal(parameters[name], first[name]) for name in shared)


def test_taking_turns_changes_nothing(build):
    together = {design: build(design) for design in DESIGNS}
    train_round_robin(together, Watcher())
    for design, trainer in together.items():
        alone = build(design)
        train(alone)
        assert same_parameters(alone, trainer), design


def test_all_designs_grow_together(build, options):
    watcher = Watcher()
    short = dataclasses.replace(options, steps=3, validation_every=2)
    train_round_robin({name: build(name, options=short) for name in DESIGNS[:2]}, watcher)
    one, two = DESIGNS[:2]
    assert watcher.events == [
        (one, "validation"), (two, "validation"),
        (one, 1), (two, 1),
        (one, 2), (one, "validation"), (two, 2), (two, "validation"),
        (one, 3), (one, "validation"), (two, 3), (two, "validation"),
    ]  # fmt: skip


def test_validation_sees_the_held_out_text_and_disturbs_nothing(build, corpus):
    trainer, undisturbed = build(), build()
    assert trainer.validate() == trainer.validate()
    tokens = torch.cat(trainer._held_out)
    starts = {bytes(row.tolist()) for row in tokens}
    held_out = bytes(corpus.validation.tolist())
    assert all(window in held_out for window in starts)
    for _ in range(5):
        trainer.step()
        trainer.validate()
        assert trainer.model.training
        undisturbed.step()
    assert same_parameters(trainer, undisturbed)


def test_the_learning_rate_follows_the_schedule(build):
    trainer = build()
    rates = []
    for _ in range(20):
        trainer.step()
        rates.append(trainer.optimizers[0].param_groups[1]["lr"])
    assert rates == pytest.approx([0.005, *[0.01] * 15, 0.00775, 0.0055, 0.00325, 0.001])


def test_gradients_are_clipped_to_the_norm(build, options):
    class Reader(NullRecorder):
        def step(self, loss=None, *, tokens=None, grad_norm=None, max_norm=None):
            squares = [p.grad.square().sum() for p in trainer.model.parameters() if p.grad is not None]
            seen.append((grad_norm.item(), torch.stack(squares).sum().sqrt().item(), max_norm, tokens))

    seen = []
    trainer = build(options=dataclasses.replace(options, max_norm=0.01))
    trainer.recorder = Reader()
    run(trainer, 3)
    for before, after, max_norm, tokens in seen:
        assert before > 0.01
        assert after == pytest.approx(0.01, rel=1e-3)
        assert (max_norm, tokens) == (0.01, 64)


def test_the_recorder_is_told_after_each_step_and_validation(build):
    class Reader(NullRecorder):
        def step(self, loss=None, **rest):
            events.append(("step", trainer.completed, loss.requires_grad))

        def evaluation(self, **losses):
            events.append(("evaluation", trainer.completed, list(losses)))

    events = []
    trainer = build()
    trainer.recorder = Reader()
    train(trainer)
    steps = [completed for kind, completed, _ in events if kind == "step"]
    assert steps == list(range(20))
    assert [event for event in events if event[0] == "evaluation"] == [
        ("evaluation", completed, ["validation"]) for completed in (0, 10, 20)
    ]
    assert not any(grad for kind, _, grad in events if kind == "step")


@pytest.mark.parametrize("name", ["adamw", "muon"])
def test_every_parameter_has_exactly_one_optimizer(build, name):
    model = build("hires:n=2,B=2").model
    optimizers = build_optimizers(model, name, learning_rate=1e-3, weight_decay=0.1)
    held = [p for o in optimizers for group in o.param_groups for p in group["params"]]
    assert sorted(map(id, held)) == sorted(map(id, model.parameters()))
    assert all(not group.get("fused") for o in optimizers for group in o.param_groups)


def test_weight_decay_acts_on_matrices_only(build):
    model = build("block-attnres:S=2").model
    (adamw,) = build_optimizers(model, "adamw", learning_rate=1e-3, weight_decay=0.1)
    decay = {id(p): group["weight_decay"] for group in adamw.param_groups for p in group["params"]}
    for name, parameter in model.named_parameters():
        assert decay[id(parameter)] == (0.1 if parameter.ndim == 2 else 0.0), name


def test_muon_takes_the_matrices_of_the_sublayers(build, options):
    trainer = build(options=dataclasses.replace(options, optimizer="muon"))
    _, muon = trainer.optimizers
    held = {id(p) for group in muon.param_groups for p in group["params"]}
    names = {name for name, p in trainer.model.named_parameters() if id(p) in held}
    expected = {f"layers.{i}.sublayer.{part}.weight" for i in (0, 2) for part in ("qkv", "out")}
    expected |= {f"layers.{i}.sublayer.{part}.weight" for i in (1, 3) for part in ("gate", "up", "out")}
    assert names == expected
    losses = run(trainer)
    assert losses[-1] < 0.75 * losses[0]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"steps": 0}, "steps=0: expected 1 or more"),
        ({"batch": 0}, "batch=0"),
        ({"optimizer": "sgd"}, "optimizer='sgd': expected 'adamw' or 'muon'"),
    ],
)
def test_options_that_cannot_be_are_refused(changes, words):
    with pytest.raises(ValueError, match=words):
        TrainingOptions(**changes)
