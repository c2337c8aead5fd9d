"""Labels are held to ordinary hooks, and the model that is copied is left alone."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from depthscope.causal import CausalError, Edit, Intervention, Subject, replace_write
from depthscope.causal import subject as subject_module
from depthscope.marks import Port
from tests.causal.models import batch, trained


def test_the_model_is_neither_wrapped_nor_changed() -> None:
    model, given = trained("block-attnres:S=2").train(), batch()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    subject = Subject.of(model, given.args)
    subject.look(given.args, {}, (), replace_write(subject.axis, 1))
    assert all("forward" not in vars(module) for module in model.modules())
    assert all(module.training for module in model.modules())
    assert all(parameter.requires_grad for parameter in model.parameters())
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert any("forward" in vars(module) for module in subject.model.modules())  # that is why it is a copy


def test_a_compiled_model_is_measured_eagerly() -> None:
    model, given = trained("block-attnres:S=2"), batch()
    plain = Subject.of(model, given.args)
    model.layers[1].compile(backend="eager")
    subject = Subject.of(torch.compile(model, backend="eager"), given.args)
    assert all(module._compiled_call_impl is None for module in subject.model.modules())
    assert torch.equal(subject.look(given.args, {})[0], plain.look(given.args, {})[0])


def test_modules_that_changes_may_call_are_not_wrapped() -> None:
    subject = Subject.of(trained("hires:B=2,n=2"), batch().args)
    assert subject.final_norm is not None
    assert subject.head is not None
    for module in (subject.final_norm, subject.head, *subject.plain.values()):
        assert "forward" not in vars(module)
    assert subject.head.weight is subject.model.head.weight  # no second copy of a large matrix


def test_a_label_that_shows_another_module_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    wrap = subject_module.wrap

    def mislabelled(model: nn.Module) -> tuple[object, dict[str, object]]:
        root, handles = wrap(model)
        handles["layers.1.sublayer"] = handles["layers.1.norm"]
        return root, handles

    monkeypatch.setattr(subject_module, "wrap", mislabelled)
    with pytest.raises(CausalError, match=r"layers\.1\.sublayer.*another tensor than an ordinary hook"):
        Subject.of(trained("prenorm"), batch().args)


def test_a_module_called_input_or_output_is_found_by_what_it_is() -> None:
    model = trained("prenorm")
    model.layers[0].sublayer = nn.Sequential()
    model.layers[0].sublayer.add_module("output", nn.Linear(16, 16).double())
    with pytest.warns(UserWarning, match="E_output"):
        subject = Subject.of(model, batch().args)
    port = Port(module="layers.0.sublayer.output", side="output")
    _, values = subject.look(batch().args, {}, [port])
    with torch.no_grad():
        expected = model.layers[0].sublayer(model.layers[0].norm(model.embedding(batch().args[0])))
    assert torch.equal(values[port], expected)


class Twice(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(16, 16).double()

    def forward(self, x: Tensor) -> Tensor:
        once: Tensor = self.inner(x)
        twice: Tensor = self.inner(once)
        return twice


def test_a_module_that_runs_twice_is_refused_by_name() -> None:
    model = trained("prenorm")
    model.layers[2].sublayer = Twice()
    subject = Subject.of(model, batch().args)
    port = Port(module="layers.2.sublayer.inner", side="output")
    with pytest.raises(CausalError, match=r"layers\.2\.sublayer\.inner.*exactly once"):
        subject.look(batch().args, {}, (), Intervention(name="x", edits=(Edit(port=port, change=_same),)))


def test_an_edit_that_needs_what_comes_later_is_refused() -> None:
    subject = Subject.of(trained("prenorm"), batch().args)
    early, late = (Port(module=f"layers.{layer}.sublayer", side="output") for layer in (0, 1))
    edit = Edit(port=early, change=_same, needs=(late,))
    with pytest.raises(CausalError, match="is passed before"):
        subject.look(batch().args, {}, (), Intervention(name="x", edits=(edit,)))


def test_a_change_of_another_shape_and_one_that_raises_leave_the_subject_usable() -> None:
    given = batch()
    subject = Subject.of(trained("prenorm"), given.args)
    plain = subject.look(given.args, {})[0]
    port = subject.axis.sublayers[1].write
    with pytest.raises(CausalError, match="the change gives"):
        subject.look(given.args, {}, (), Intervention(name="x", edits=(Edit(port=port, change=_shorter),)))
    with pytest.raises(ZeroDivisionError):
        subject.look(given.args, {}, (), Intervention(name="x", edits=(Edit(port=port, change=_failing),)))
    assert torch.equal(subject.look(given.args, {})[0], plain)


def _same(value: Tensor, values: object) -> Tensor:
    return value


def _shorter(value: Tensor, values: object) -> Tensor:
    return value[:, :1]


def _failing(value: Tensor, values: object) -> Tensor:
    raise ZeroDivisionError
