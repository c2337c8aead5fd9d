"""One step of a user's loop on a copy of the model in double: eager, every number kept."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from depthscope.anatomy import is_sharded, parameter_groups, unwrap
from depthscope.marks import DepthAxis
from depthscope.quantities import DepthLayout
from depthscope.testing.reference import Reference, Sums
from depthscope.testing.setup import Setup, SetupError
from depthscope.testing.wide_reference import coupling


class Listening:
    """Stands in for the recorder, and keeps what the loop tells it."""

    def __init__(self) -> None:
        self.told: dict[str, float] = {}

    def step(
        self,
        loss: Any = None,
        *,
        tokens: Any = None,
        grad_norm: Any = None,
        max_norm: float | None = None,
        **_: Any,
    ) -> None:
        given = {"loss": loss, "loss_tokens": tokens, "grad_norm_before_clip": grad_norm}
        self.told |= {name: float(value) for name, value in given.items() if value is not None}
        if grad_norm is not None and max_norm is not None:
            self.told["clip_coefficient"] = min(1.0, max_norm / (float(grad_norm) + 1e-6))

    def before_clip(self) -> None: ...

    def evaluation(self, **losses: Any) -> None: ...

    def __getattr__(self, name: str) -> Any:
        raise SetupError(f"step() uses recorder.{name}; expected step, before_clip and evaluation only")


class ReferenceStep:
    """A copy of the setup's model with its weights as they are now, and what a step of it gives."""

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self.model = _double(setup)
        _without_dropout(self.model)
        self.sums: Sums = {}
        self.gradients: dict[str, Tensor] = {}
        """Of every parameter, after clipping, over all ranks."""
        self.told: dict[str, float] = {}
        self.positions = 0

    def run(self, axis: DepthAxis, scaler: Any) -> None:
        """Run the step; the scaler is off meanwhile, so that gradients are those of the loss itself."""
        reference, listening = Reference(self.model, axis), Listening()
        called = self.model
        if isinstance(self._setup.model, DistributedDataParallel) or self._setup.reference is not None:
            called = _parallel(self.model, self._setup.model)
        handle = self.model.register_forward_pre_hook(self._count, with_kwargs=True)
        optimizers = self._optimizers()
        for optimizer in optimizers:
            optimizer.register_step_pre_hook(lambda *_: self._keep_gradients())
        given = optimizers if isinstance(self._setup.optimizer, list | tuple) else optimizers[0]
        with _switched_off(scaler), torch.compiler.set_stance("force_eager"):
            self._setup.step(called, given, listening)
        handle.remove()
        reference.detach()
        if not self.gradients:
            raise SetupError("step() made no step of the optimizer that it was given")
        self.sums, self.told = dict(reference.sums), listening.told

    def of_parameters(self, axis: DepthAxis, layout: DepthLayout) -> dict[str, Any]:
        """Return the L2 norms over the groups of parameters' gradients, and what is recorded of parameters."""
        groups = parameter_groups(axis, self.model)

        def norm(*names: str) -> float:
            held = [self.gradients[m] for name in names for m in groups.get(name, ()) if m in self.gradients]
            return float(np.sqrt(sum(float(g.double().square().sum()) for g in held))) if held else np.nan

        layers, final = range(1, layout.layers + 1), f"mixer/{layout.layers + 1}"
        blocks = range(1, layout.outer_blocks + 1)
        values: dict[str, Any] = {
            "param_grad_norm": np.array([norm(f"layer/{layer}") for layer in layers]),
            "mixer_grad_norm": np.array([norm(f"mixer/{layer}") for layer in layers]),
            "interface_grad_norm": np.array(
                [[norm(f"interface/{b}/{part}") for part in ("read", "write", "gate")] for b in blocks]
            ),
            "embedding_grad_norm": norm("embedding"),
            "head_grad_norm": norm("head"),
            "final_norm_grad_norm": norm("final_norm"),
            # Nothing is left over in many a model, and then the rest is 0.
            "rest_grad_norm": norm("rest", final) if groups.get("rest") or final in groups else 0.0,
            "grad_norm": norm(*groups),
        }
        for mixer in axis.mixers:
            if mixer.query is not None:
                query = self._weights[mixer.query]
                gain = self._weights[mixer.key_norm] if mixer.key_norm is not None else 1.0
                held = values.setdefault("query_norm", np.full(len(layout.sources), np.nan))
                held[mixer.target - 1] = float((query * gain).norm())
        if len(axis.outer) > 1 and all(block.linear for block in axis.outer):
            values["write_read_coupling"] = coupling(axis, self.model, layout.outer_width).numpy()
        for block in axis.outer:
            if block.read_gate is not None and block.write_gate is not None:
                gates = [self._weights[name].sigmoid() for name in (block.read_gate, block.write_gate)]
                held = values.setdefault("interface_gate", np.full((layout.outer_blocks, 2), np.nan))
                held[block.index - 1] = [float(gate) for gate in gates]
        return {name: value for name, value in values.items() if not np.isnan(value).all()}

    @property
    def _weights(self) -> dict[str, Tensor]:
        return {name: parameter.detach() for name, parameter in self.model.named_parameters()}

    def _count(self, module: nn.Module, args: Any, kwargs: Any) -> Any:
        """Count tokens; floating arguments are cast as the model is."""
        if torch._C._current_graph_task_id() == -1:
            tensors = [value for value in (*args, *kwargs.values()) if isinstance(value, Tensor)]
            whole = next((t.numel() for t in tensors if not t.is_floating_point()), None)
            if whole is None and tensors:
                whole = tensors[0].numel() // tensors[0].shape[-1]
            self.positions += whole or 0
        return _doubled(args), {name: _doubled(value) for name, value in kwargs.items()}

    def _optimizers(self) -> list[torch.optim.Optimizer]:
        """Return one that leaves the weights for each of the setup's, over the same parameters."""
        given = self._setup.optimizer
        several: list[Any] = list(given) if isinstance(given, list | tuple) else [given]
        if len(several) == 1:
            return [torch.optim.SGD(self.model.parameters(), lr=0.0)]
        names = {id(p): name for name, p in unwrap(self._setup.model).named_parameters()}
        mine = dict(self.model.named_parameters())
        return [
            torch.optim.SGD(
                [
                    mine[names[id(p)]]
                    for group in each.param_groups
                    for p in group["params"]
                    if id(p) in names
                ],
                lr=0.0,
            )
            for each in several
        ]

    def _keep_gradients(self) -> None:
        for name, parameter in self.model.named_parameters():
            if parameter.grad is not None:
                self.gradients[name] = parameter.grad.detach().clone()


def _double(setup: Setup) -> nn.Module:
    inner = unwrap(setup.model)
    sharded = any(is_sharded(parameter) for parameter in inner.parameters())
    if setup.reference is None:
        if sharded:
            raise SetupError(
                "the model is sharded and can't be copied: give 'reference', the same module before fully_shard; it "
                "gets the weights of the sharded one"
            )
        try:
            return copy.deepcopy(inner).double()
        except Exception as error:
            raise SetupError(
                f"the model can't be copied ({type(error).__name__}: {error}): give 'reference', another instance of "
                "it; it gets the weights"
            ) from error
    with torch.no_grad():
        weights = {
            name: (value.full_tensor() if is_sharded(value) else value)
            for name, value in inner.state_dict().items()
        }
    reference = unwrap(setup.reference).double()
    try:
        reference.load_state_dict(weights)
    except RuntimeError as error:
        raise SetupError(f"'reference' does not take the model's weights: {error}") from error
    reference.train(inner.training)
    return reference


def _without_dropout(model: nn.Module) -> None:
    """Masks drawn in another dtype are other masks."""
    for module in model.modules():
        if isinstance(module, nn.modules.dropout._DropoutNd):
            module.p = 0.0


@contextmanager
def dropout_off(model: nn.Module) -> Iterator[None]:
    """Run the body with every dropout module at probability 0."""
    found = {m: m.p for m in model.modules() if isinstance(m, nn.modules.dropout._DropoutNd)}
    _without_dropout(model)
    try:
        yield
    finally:
        for module, probability in found.items():
            module.p = probability


@contextmanager
def _switched_off(scaler: Any) -> Iterator[None]:
    if scaler is None:
        yield
        return
    before, scaler._enabled = scaler._enabled, False
    try:
        yield
    finally:
        scaler._enabled = before


def _parallel(model: nn.Module, like: nn.Module) -> nn.Module:
    unused = getattr(like, "find_unused_parameters", False)
    return DistributedDataParallel(model, find_unused_parameters=bool(unused))


def _doubled(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.double() if value.is_floating_point() else value
    if isinstance(value, Mapping):
        return {name: _doubled(each) for name, each in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return tuple(_doubled(each) for each in value)
    return value
