"""Transformer blocks as other people write them, each beside its formula worked out by hand.

A formula is a function from a block and its input to the rows (kind, h, f, s) of its sublayers and the
block's output. It calls the block's parts in the order the block does, so that dropouts draw the same masks.
None stands for a tensor that passes no module of the model, so that nobody can show it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

WIDTH = 12

Row = tuple[str, Tensor | None, Tensor, Tensor | None]
Formula = Callable[[Any, Tensor], tuple[list[Row], Tensor]]


@dataclass(frozen=True)
class Variant:
    """One way to write a block."""

    name: str
    block: Callable[[], nn.Module]
    formula: Formula
    additive: tuple[bool, bool] = (True, True)
    fresh: tuple[str | None, str | None] = ("state", "state")


class Causal(nn.Module):
    """Causal self-attention; [batch, time, width] in and out."""

    def __init__(self, heads: int = 3) -> None:
        super().__init__()
        self.heads = heads
        self.one = nn.Linear(WIDTH, 3 * WIDTH)
        self.two = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        batch, time, width = x.shape
        q, k, v = self.one(x).view(batch, time, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.two(mixed.transpose(1, 2).reshape(batch, time, width))


def feed_forward(dropout: float = 0.0) -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(WIDTH, 2 * WIDTH), nn.GELU(), nn.Linear(2 * WIDTH, WIDTH), nn.Dropout(dropout)
    )


def sequential(x: Tensor, attention: Callable[[Tensor], Tensor], mlp: Callable[[Tensor], Tensor]) -> Any:
    first = attention(x)
    middle = x + first
    second = mlp(middle)
    return [("attention", x, first, middle), ("mlp", middle, second, middle + second)], middle + second


class UnknownNames(nn.Module):
    """Pre-norm, dropouts after the sublayers, names that say nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.zig, self.alpha, self.foo = feed_forward(0.2), Causal(), nn.LayerNorm(WIDTH)
        self.bar, self.u, self.v = nn.LayerNorm(WIDTH), nn.Dropout(0.1), nn.Dropout(0.3)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.u(self.alpha(self.foo(x)))
        return x + self.v(self.zig(self.bar(x)))


def unknown_names(b: Any, x: Tensor) -> Any:
    return sequential(x, lambda h: b.u(b.alpha(b.foo(h))), lambda h: b.v(b.zig(b.bar(h))))


class NormInside(nn.Module):
    """The sublayers take the raw stream and norm it themselves."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.LayerNorm(WIDTH), Causal())
        self.second = nn.Sequential(nn.RMSNorm(WIDTH), *feed_forward())

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.first(x)
        return x + self.second(x)


def norm_inside(b: Any, x: Tensor) -> Any:
    return sequential(x, b.first, b.second)


class FunctionalNorm(nn.Module):
    """The norms are function calls on parameters of the block."""

    def __init__(self) -> None:
        super().__init__()
        self.g1, self.g2 = nn.Parameter(torch.ones(WIDTH)), nn.Parameter(torch.ones(WIDTH))
        self.p, self.q = Causal(), feed_forward()

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.p(F.rms_norm(x, (WIDTH,), self.g1))
        return x + self.q(F.rms_norm(x, (WIDTH,), self.g2))


def functional_norm(b: Any, x: Tensor) -> Any:
    first = b.p(F.rms_norm(x, (WIDTH,), b.g1))
    second = b.q(F.rms_norm(x + first, (WIDTH,), b.g2))
    # x + first goes into a function only: no module takes it.
    return [("attention", x, first, None), ("mlp", None, second, x + first + second)], x + first + second


class Sandwich(nn.Module):
    """Norms before and after: the write is what the norm after gives (as in Gemma-2, Peri-LN)."""

    def __init__(self) -> None:
        super().__init__()
        self.n1, self.n2, self.n3, self.n4 = (nn.RMSNorm(WIDTH) for _ in range(4))
        self.one, self.two = Causal(), feed_forward()

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.n2(self.one(self.n1(x)))
        return x + self.n4(self.two(self.n3(x)))


def sandwich(b: Any, x: Tensor) -> Any:
    return sequential(x, lambda h: b.n2(b.one(b.n1(h))), lambda h: b.n4(b.two(b.n3(h))))


class NormAfter(nn.Module):
    """A norm after each sublayer and none before (as in OLMo-2)."""

    def __init__(self) -> None:
        super().__init__()
        self.after1, self.after2 = nn.RMSNorm(WIDTH), nn.RMSNorm(WIDTH)
        self.one, self.two = Causal(), feed_forward()

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.after1(self.one(x))
        return x + self.after2(self.two(x))


def norm_after(b: Any, x: Tensor) -> Any:
    return sequential(x, lambda h: b.after1(b.one(h)), lambda h: b.after2(b.two(h)))


class ParallelShared(nn.Module):
    """Attention and MLP side by side behind one norm (as in GPT-J)."""

    def __init__(self) -> None:
        super().__init__()
        self.n, self.a, self.b = nn.LayerNorm(WIDTH), Causal(), feed_forward()

    def forward(self, x: Tensor) -> Tensor:
        y = self.n(x)
        return x + self.a(y) + self.b(y)


def parallel_shared(b: Any, x: Tensor) -> Any:
    first, second = b.a(b.n(x)), b.b(b.n(x))
    return [("attention", x, first, None), ("mlp", x, second, x + first + second)], x + first + second


class ParallelInPlace(nn.Module):
    """Side by side with a norm each; the MLP's output is added to in place (as in Falcon)."""

    def __init__(self) -> None:
        super().__init__()
        self.n1, self.n2, self.a, self.b = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH), Causal(), feed_forward()

    def forward(self, x: Tensor) -> Tensor:
        y, z = self.n1(x), self.n2(x)
        first = self.a(y)
        second = self.b(z)
        second += first
        return x + second


def parallel_in_place(b: Any, x: Tensor) -> Any:
    first, second = b.a(b.n1(x)), b.b(b.n2(x))
    return [("attention", x, first, None), ("mlp", x, second, x + first + second)], x + first + second


class TupleAttention(Causal):
    """Attention that takes keywords and returns a tuple with something else first."""

    def forward(self, *, hidden_states: Tensor, bias: Tensor) -> tuple[None, Tensor]:  # type: ignore[override]
        return None, super().forward(hidden_states) + bias


class TuplesAndKeywords(nn.Module):
    """Keywords in, a tuple out (as in Hugging Face models)."""

    keywords = True

    def __init__(self) -> None:
        super().__init__()
        self.n1, self.n2, self.attn, self.ff = (
            nn.LayerNorm(WIDTH),
            nn.LayerNorm(WIDTH),
            TupleAttention(),
            feed_forward(),
        )

    def forward(self, scale: Tensor, hidden_states: Tensor) -> tuple[Tensor, Tensor]:
        residual = hidden_states
        _, out = self.attn(hidden_states=self.n1(hidden_states), bias=scale)
        hidden_states = residual + out
        return hidden_states + self.ff(self.n2(hidden_states)), out.mean()


def tuples_and_keywords(b: Any, x: Tensor) -> Any:
    return sequential(
        x, lambda h: Causal.forward(b.attn, b.n1(h)) + torch.tensor(0.5), lambda h: b.ff(b.n2(h))
    )


class FlatMLP(nn.Module):
    """No module for the MLP: two linear maps of the block around a function (as in OPT)."""

    def __init__(self) -> None:
        super().__init__()
        self.n1, self.n2, self.mix = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH), Causal()
        self.up, self.down = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.mix(self.n1(x))
        flat = self.n2(x).reshape(-1, WIDTH)
        return x + self.down(F.relu(self.up(flat))).view(x.shape)


def flat_mlp(b: Any, x: Tensor) -> Any:
    return sequential(x, lambda h: b.mix(b.n1(h)), lambda h: b.down(F.relu(b.up(b.n2(h)))))


class AddsItself(nn.Module):
    """Takes the residual as an argument and adds it (as in Bloom)."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner, self.last = inner, nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor, residual: Tensor) -> Tensor:
        return residual + self.last(self.inner(x))


class ResidualAsArgument(nn.Module):
    """The sublayers add the residual themselves."""

    def __init__(self) -> None:
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.a, self.b = AddsItself(Causal()), AddsItself(feed_forward())

    def forward(self, x: Tensor) -> Tensor:
        x = self.a(self.n1(x), x)
        return self.b(self.n2(x), x)


def residual_as_argument(b: Any, x: Tensor) -> Any:
    return sequential(x, lambda h: b.a.last(b.a.inner(b.n1(h))), lambda h: b.b.last(b.b.inner(b.n2(h))))


class OneAddsItself(nn.Module):
    """The attention is added by the block, the MLP adds what it is given (as in MPT)."""

    def __init__(self) -> None:
        super().__init__()
        self.n1, self.n2, self.drop = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH), nn.Dropout(0.1)
        self.a, self.b = Causal(), AddsItself(feed_forward())

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.drop(self.a(self.n1(x)))
        return self.b(self.n2(x), x)


def one_adds_itself(b: Any, x: Tensor) -> Any:
    return sequential(x, lambda h: b.drop(b.a(b.n1(h))), lambda h: b.b.last(b.b.inner(b.n2(h))))


class Wrapped(nn.Module):
    """x + f(norm(x)) as a module of its own."""

    def __init__(self, f: nn.Module) -> None:
        super().__init__()
        self.norm, self.f = nn.LayerNorm(WIDTH), f

    def forward(self, x: Tensor) -> Tensor:
        return x + self.f(self.norm(x))


def wrapped() -> nn.Module:
    return nn.Sequential(Wrapped(Causal()), Wrapped(feed_forward()))


def wrapped_formula(b: Any, x: Tensor) -> Any:
    return sequential(x, lambda h: b[0].f(b[0].norm(h)), lambda h: b[1].f(b[1].norm(h)))


class Add(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return x + y


class AddModules(nn.Module):
    """The sums are modules; one of them takes what no module gave."""

    def __init__(self) -> None:
        super().__init__()
        self.n1, self.n2, self.a, self.b = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH), Causal(), feed_forward()
        self.plus1, self.plus2 = Add(), Add()

    def forward(self, x: Tensor) -> Tensor:
        x = self.plus1(x, self.a(self.n1(x)))
        return self.plus2(x, 0.7 * self.b(self.n2(x)))


def add_modules(b: Any, x: Tensor) -> Any:
    return sequential(x, lambda h: b.a(b.n1(h)), lambda h: 0.7 * b.b(b.n2(h)))


class ZeroStart(UnknownNames):
    """Both output projections are zero at the start: nothing is written yet."""

    def __init__(self) -> None:
        super().__init__()
        for last in (self.alpha.two, self.zig[2]):
            nn.init.zeros_(last.weight)
            nn.init.zeros_(last.bias)


class TimeFirst(nn.Module):
    """[time, batch, width] and torch's own attention."""

    time_first = True

    def __init__(self) -> None:
        super().__init__()
        self.n1, self.n2, self.b = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH), feed_forward()
        self.a = nn.MultiheadAttention(WIDTH, 3)

    def forward(self, x: Tensor) -> Tensor:
        y = self.n1(x)
        x = x + self.a(y, y, y, need_weights=False)[0]
        return x + self.b(self.n2(x))


def time_first(b: Any, x: Tensor) -> Any:
    def attention(h: Tensor) -> Tensor:
        y = b.n1(h)
        return b.a(y, y, y, need_weights=False)[0]

    return sequential(x, attention, lambda h: b.b(b.n2(h)))


class SharedInertDropout(nn.Module):
    """One dropout module for both sublayers, at rate 0."""

    def __init__(self) -> None:
        super().__init__()
        self.n1, self.n2, self.a, self.b = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH), Causal(), feed_forward()
        self.drop = nn.Dropout(0.0)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.drop(self.a(self.n1(x)))
        return x + self.drop(self.b(self.n2(x)))


def shared_inert_dropout(b: Any, x: Tensor) -> Any:
    return sequential(x, lambda h: b.a(b.n1(h)), lambda h: b.b(b.n2(h)))


class StreamInPlace(nn.Module):
    """The stream itself is changed in place, parts sit in a ModuleDict."""

    def __init__(self) -> None:
        super().__init__()
        self.parts = nn.ModuleDict(
            {"n1": nn.LayerNorm(WIDTH), "n2": nn.LayerNorm(WIDTH), "a": Causal(), "b": feed_forward()}
        )

    def forward(self, x: Tensor) -> Tensor:
        x += self.parts["a"](self.parts["n1"](x))
        x += self.parts["b"](self.parts["n2"](x))
        return x


def stream_in_place(b: Any, x: Tensor) -> Any:
    p = b.parts
    return sequential(x.clone(), lambda h: p["a"](p["n1"](h)), lambda h: p["b"](p["n2"](h)))


class LayerScale(nn.Module):
    """A learned scale behind each sublayer, as a module: its output is the write."""

    def __init__(self) -> None:
        super().__init__()
        self.n1, self.n2, self.a, self.b = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH), Causal(), feed_forward()
        self.s1, self.s2 = Scale(), Scale()

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.s1(self.a(self.n1(x)))
        return x + self.s2(self.b(self.n2(x)))


class Scale(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.by = nn.Parameter(torch.full((WIDTH,), 1e-5))

    def forward(self, x: Tensor) -> Tensor:
        return self.by * x


def layer_scale(b: Any, x: Tensor) -> Any:
    return sequential(x, lambda h: b.s1(b.a(b.n1(h))), lambda h: b.s2(b.b(b.n2(h))))


PARALLEL: dict[str, Any] = {"additive": (True, False), "fresh": (None, None)}

VARIANTS = [
    Variant("unknown names", UnknownNames, unknown_names),
    Variant("norm inside", NormInside, norm_inside),
    Variant("functional norm", FunctionalNorm, functional_norm, fresh=("state", None)),
    Variant("sandwich", Sandwich, sandwich),
    Variant("norm after", NormAfter, norm_after),
    Variant("parallel, shared norm", ParallelShared, parallel_shared, **PARALLEL),
    Variant("parallel, in place", ParallelInPlace, parallel_in_place, **PARALLEL),
    Variant("tuples and keywords", TuplesAndKeywords, tuples_and_keywords),
    Variant("flat MLP", FlatMLP, flat_mlp),
    Variant("residual as argument", ResidualAsArgument, residual_as_argument),
    Variant("one adds itself", OneAddsItself, one_adds_itself),
    Variant("wrapped residual", wrapped, wrapped_formula),
    Variant("sums are modules", AddModules, add_modules),
    Variant("zero start", ZeroStart, unknown_names),
    Variant("time first", TimeFirst, time_first),
    Variant("shared dropout of rate 0", SharedInertDropout, shared_inert_dropout),
    Variant("stream in place", StreamInPlace, stream_in_place),
    Variant("layer scale", LayerScale, layer_scale),
]
