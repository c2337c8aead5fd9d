"""Recording and replaying the nonlinear functions of a model that does not mark its coefficients."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

from depthscope.mixing.frozen_terms import FrozenTerms

_NAMES = """
    exp exp2 expm1 log log1p log2 rsqrt sqrt reciprocal float_power __rpow__ erf abs sign
    sigmoid tanh softmax softmin log_softmax logsumexp logsigmoid softplus softsign hardsigmoid hardtanh
    relu relu6 elu selu celu leaky_relu gelu silu mish hardswish
    norm vector_norm std var std_mean var_mean
    amax amin max min maximum minimum argmax argmin topk sort argsort gt lt ge le
"""
_HOLDERS = (torch, torch.Tensor, F, torch.special, torch.linalg)
NONLINEAR = frozenset(
    function
    for holder in _HOLDERS
    for name in _NAMES.split()
    if (function := getattr(holder, name, None)) is not None
)
"""Functions whose outputs are taken for coefficients. One that is missing here makes the replay incomplete, which is
always looked at; so the list need not be, only long enough."""
_POWERS = frozenset({torch.pow, torch.Tensor.pow, torch.Tensor.__pow__})


class FunctionTape(TorchFunctionMode):
    """Record the outputs of nonlinear functions in order; entered again, replay them.

    For models nobody marked with `depthscope.marks.coefficient`; `depthscope.marks.Tape` is its like for those that
    are. ``rms_norm``, ``layer_norm`` and ``normalize`` are taken apart into a scale, which is recorded, and a product,
    which stays linear. What is no torch function (a Triton kernel, an ``autograd.Function``) stays as it is.

    RuntimeError when a replay calls other functions than were recorded.
    """

    def __init__(self) -> None:
        super().__init__()
        self.values: list[tuple[Callable[..., Any], Any]] = []
        self.replaying = False
        self.terms = FrozenTerms()
        """Of the recorded forward."""
        self._position = 0

    def take(self, function: Callable[..., Any], compute: Callable[[], Any]) -> Any:
        """Record what `compute` returns for a call of `function`, or return what was recorded."""
        if not self.replaying:
            value = compute()
            self.values.append((function, _copied(value)))
            return value
        expected = self.values[self._position] if self._position < len(self.values) else None
        if expected is None or expected[0] is not function:
            name = getattr(function, "__name__", str(function))
            raise RuntimeError(f"the replay calls {name} where the recorded forward did not")
        self._position += 1
        return _copied(expected[1])

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        frozen = func in NONLINEAR or (func in _POWERS and not _is_plain(args, kwargs))
        if func in _TAKEN_APART:
            value = _TAKEN_APART[func](self, func, *args, **kwargs)
        elif frozen:
            value = self.take(func, lambda: func(*args, **kwargs))
        else:
            value = func(*args, **kwargs)
        if not self.replaying:
            self.terms.called(func, args, kwargs, value, frozen=frozen)
        return value

    def __enter__(self) -> Self:
        self._position = 0
        super().__enter__()  # type: ignore[no-untyped-call]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        super().__exit__(kind, error, trace)  # type: ignore[no-untyped-call]
        if kind is not None:
            if not self.replaying:
                self.values.clear()  # half a forward is no record
            return
        if self.replaying and self._position != len(self.values):
            raise RuntimeError(
                f"the replay called {self._position} of the {len(self.values)} recorded nonlinear functions"
            )
        self.replaying = True


def _is_plain(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether a power is x or x^2: squares end in a scale, a root or a norm, whose output is recorded."""
    exponent = args[1] if len(args) > 1 else kwargs.get("exponent")
    return isinstance(exponent, int | float) and exponent in (1, 2)


def _copied(value: Any) -> Any:
    """Return a copy that the model may change in place."""
    if isinstance(value, Tensor):
        return value.detach().clone()
    if isinstance(value, tuple):
        parts = [_copied(part) for part in value]
        return type(value)(parts) if hasattr(value, "n_fields") else tuple(parts)
    return value


def _rms_norm(
    tape: FunctionTape,
    function: Callable[..., Any],
    input: Tensor,
    normalized_shape: Any,
    weight: Tensor | None = None,
    eps: float | None = None,
) -> Tensor:
    usual = torch.finfo(input.dtype).eps if eps is None else eps
    return _scaled(tape, function, input, normalized_shape, weight, usual)


def _layer_norm(
    tape: FunctionTape,
    function: Callable[..., Any],
    input: Tensor,
    normalized_shape: Any,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    cudnn_enable: bool = True,
) -> Tensor:
    centred = input - input.mean(_axes(normalized_shape), keepdim=True)
    scaled = _scaled(tape, function, centred, normalized_shape, weight, eps)
    return scaled if bias is None else scaled + bias


def _normalize(
    tape: FunctionTape,
    function: Callable[..., Any],
    input: Tensor,
    p: float = 2.0,
    dim: int = 1,
    eps: float = 1e-12,
    out: Tensor | None = None,
) -> Tensor:
    def length() -> Tensor:
        norms: Tensor = torch.linalg.vector_norm(input, p, dim, keepdim=True)
        return norms.clamp_min(eps)

    size: Tensor = tape.take(function, length)
    scaled: Tensor = input / size
    return scaled


def _scaled(
    tape: FunctionTape,
    function: Callable[..., Any],
    x: Tensor,
    normalized_shape: Any,
    weight: Tensor | None,
    eps: float,
) -> Tensor:
    wide = torch.promote_types(x.dtype, torch.float32)

    def scale() -> Tensor:
        return torch.rsqrt(x.to(wide).square().mean(_axes(normalized_shape), keepdim=True) + eps)

    scaled: Tensor = (x * tape.take(function, scale)).to(x.dtype)
    return scaled if weight is None else scaled * weight


def _axes(normalized_shape: Any) -> tuple[int, ...]:
    return tuple(range(-len(normalized_shape), 0))


_TAKEN_APART: dict[Callable[..., Any], Callable[..., Tensor]] = {
    F.rms_norm: _rms_norm,
    torch.rms_norm: _rms_norm,
    F.layer_norm: _layer_norm,
    torch.layer_norm: _layer_norm,
    F.normalize: _normalize,
}
