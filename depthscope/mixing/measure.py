"""Measuring the mixing of a model on one batch, and checking by replay that it adds up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
import torch
from torch import Tensor, nn

from depthscope.anatomy import Anatomy, inspect_model, untouched, unwrap
from depthscope.marks import Tape
from depthscope.mixing.dropout import DropoutOff
from depthscope.mixing.error import MixingError
from depthscope.mixing.function_tape import FunctionTape
from depthscope.mixing.network import RecomputedError, ResidualNetwork
from depthscope.mixing.places import Places, no_replay_because, places_of
from depthscope.mixing.sample import TOKENS, sample
from depthscope.mixing.shares import TargetShares, shares_by_pullback, shares_by_replay
from depthscope.quantities import quantity

if TYPE_CHECKING:
    import xarray as xr

CHECKED = "the contributions of the origins, held to a replay, do not sum to the read"
Way = Literal["coefficient", "functions"]


@dataclass(frozen=True, kw_only=True)
class Measured:
    """The mixing of one sample; everything that is a tensor stays on the model's device, and nothing waits for it."""

    rows: tuple[TargetShares, ...]
    """One for each read that was seen."""
    way: Way
    """What was replayed: the coefficients that the model marks, or the outputs of its nonlinear functions."""
    low_precision: bool
    """Some tensor was fp16 or bf16, or products of matrices are rounded to less than fp32."""
    sequences: int
    positions: int
    """Tokens in the sample: `sequences` times `positions`."""

    @property
    def tolerance(self) -> float:
        """How large a gap may be against its read; above it, the parts do not sum to the reads."""
        return 2e-2 if self.low_precision else 1e-5


def measure(
    model: nn.Module,
    places: Places,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    *,
    way: Way | None = None,
    tokens: int = TOKENS,
) -> Measured:
    """Return what the reads of `model` (unwrapped) are made of on the first `tokens` tokens of the arguments.

    The model runs in evaluation mode a few times, and is left as it was, bitwise. Without a `way`, coefficients are
    replayed where the model marks any.

    Raises:
        MixingError: the model cannot be replayed. Whether the replay adds up is left to the caller.
    """
    args, kwargs, (sequences, positions) = sample(args, kwargs, tokens)
    try:
        with untouched(model):
            network = ResidualNetwork(model, places, args, kwargs)
            tape, way = _recorded(network, way)
            rows = _rows(network, tape)
    except MixingError:
        raise
    except Exception as error:
        raise MixingError(
            f"the forward of {type(model).__name__} raised {type(error).__name__} when its residual network was replayed "
            f"on {sequences} x {positions} tokens: {error}"
        ) from error
    return Measured(
        rows=rows,
        way=way,
        low_precision=network.low_precision,
        sequences=sequences,
        positions=positions,
    )


def measure_mixing(
    model: nn.Module,
    *args: Any,
    anatomy: Anatomy | None = None,
    way: Way | None = None,
    tokens: int = TOKENS,
    **kwargs: Any,
) -> xr.Dataset:
    """Return what every read of a model is made of, for the arguments of one forward.

    Any model whose depth axis is found will do. With its mixing weights and norm scales frozen at their values, the
    network between sublayers is linear: h_l = sum_i c_i + c_constant, over the embedding, the outputs of the earlier
    sublayers, and biases. The embedding is all that tables give for tokens, wherever it comes into the stream.
    Dropout is off. It attributes this forward; it is no causal effect.

        mixing = depthscope.measure_mixing(model, tokens)
        mixing["mixing_contribution"].sel(target=8)

    Args:
        model: the module that you call, wrapped or not.
        args: positional arguments of its forward.
        anatomy: what `inspect_model` returned, when it had to be told something.
        way: ``"coefficient"`` replays what the model marks with `depthscope.marks.coefficient`, ``"functions"`` the
            outputs of its nonlinear functions; by default the first where anything is marked.
        tokens: size of the sample, the first positions of the first sequences.
        kwargs: keyword arguments of its forward.

    Returns:
        ``mixing_contribution`` and ``mixing_coefficient`` over (target, origin), ``mixing_cancellation`` over target,
        as in a recorded run, and ``mixing_gap``, the relative size of what the replay leaves unexplained.

    Raises:
        ValueError: `way` is none of the two, or `tokens` is below 1.
        MixingError: the model cannot be replayed, or the parts do not sum to the reads (above 1e-5, in fp16 and bf16
            2e-2): something that depends on the state is neither marked nor a known nonlinear function.
    """
    import xarray as xr

    if way is not None and way not in get_args(Way):
        raise ValueError(
            f"way={way!r}: expected {' or '.join(map(repr, get_args(Way)))}, or None to choose by the model"
        )
    if tokens < 1:
        raise ValueError(f"tokens={tokens}: expected 1 or more")
    sample(args, kwargs, tokens)  # arguments that are no tokens are named before the model fails on them
    inner = unwrap(model)
    found = _settled(model, anatomy, args, kwargs)
    if found.axis is None:
        with DropoutOff():
            found = _settled(model, anatomy, args, kwargs)
    if reason := no_replay_because(found, inner):
        raise MixingError(reason)
    assert found.axis is not None
    measured = measure(inner, places_of(found.axis), args, kwargs, way=way, tokens=tokens)
    layers = len(found.axis.sublayers)
    names = tuple(sublayer.name for sublayer in found.axis.sublayers)
    contribution = np.full((layers + 1, layers + 2), np.nan)
    coefficient, gaps = np.full_like(contribution, np.nan), np.full(layers + 1, np.nan)
    for row in measured.rows:
        columns = [*places_of(found.axis).reach(row.target), layers + 1]
        contribution[row.target, columns] = _numbers(row.share.mean(-1))
        parallel = row.parallel.amin(-1) > 0
        coefficient[row.target, columns] = _numbers(row.coefficient.mean(-1).where(parallel, torch.nan))
        gaps[row.target] = float(
            torch.linalg.vector_norm(row.gap) / torch.linalg.vector_norm(row.read.float())
        )
    tolerance = measured.tolerance
    worst = int(np.nanargmax(gaps))
    if not gaps[worst] <= tolerance:
        raise MixingError(
            f"{CHECKED}: relative gap {gaps[worst]:.2g} at {(*names, 'output')[worst]}, tolerance {tolerance:g}"
        )
    cancellation = np.where(np.isnan(gaps), np.nan, np.nansum(np.abs(contribution), axis=1))
    values = {
        "mixing_contribution": (("target", "origin"), contribution),
        "mixing_coefficient": (("target", "origin"), coefficient),
        "mixing_cancellation": (("target",), cancellation),
    }
    return xr.Dataset(
        {name: (*value, quantity(name).attributes()) for name, value in values.items()}
        | {"mixing_gap": ("target", gaps, {"long_name": CHECKED, "tolerance": tolerance})},
        coords={
            "target": range(1, layers + 2),
            "target_name": ("target", [*names, "output"]),
            "origin_name": ("origin", ["embedding", *names, "constant"]),
        },
        attrs={"sample_tokens": measured.sequences * measured.positions, "way": measured.way},
    )


def _settled(
    model: nn.Module, anatomy: Anatomy | None, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Anatomy:
    found = inspect_model(model) if anatomy is None else anatomy
    return found.settle(model, args, kwargs)


def _recorded(network: ResidualNetwork, way: Way | None) -> tuple[Tape | FunctionTape, Way]:
    if way != "functions":
        marked = Tape()
        network.run(network.values, marked)
        if marked.values or way == "coefficient":
            return marked, "coefficient"
    functions = FunctionTape()
    network.run(network.values, functions)
    return functions, "functions"


def _rows(network: ResidualNetwork, tape: Tape | FunctionTape) -> tuple[TargetShares, ...]:
    zeros = [torch.zeros_like(value) for value in network.values]
    nothing = network.run(zeros, tape, lookups=False)
    halves = []
    for half in (0, 1):
        held = [
            value if origin % 2 == half else zero
            for origin, (value, zero) in enumerate(zip(network.values, zeros, strict=True))
        ]
        halves.append(network.run(held, tape, lookups=half == 0))
    try:
        shares = shares_by_pullback(network, tape, nothing)
    except RecomputedError:
        shares = shares_by_replay(network, tape, nothing)
    rows = []
    for target, parts in enumerate(shares):
        h = network.reads[target]
        if parts is None or h is None:
            continue
        share, coefficient, parallel = parts
        rows.append(
            TargetShares(
                target=target,
                read=h,
                share=share,
                coefficient=coefficient,
                parallel=parallel,
                gap=_gap(h, share, [half[target] for half in halves], nothing[target]),
            )
        )
    return tuple(rows)


def _gap(h: Tensor, share: Tensor, halves: Sequence[Tensor | None], nothing: Tensor | None) -> Tensor:
    """Return what the replays of two halves of the origins leave of h, and h times what they leave of the shares.

    The first says whether the replay is linear, the second whether the shares are those of this replay: a backward that
    somebody wrote by hand may know nothing of what is frozen. The constant is in both halves.
    """
    even, odd = halves
    assert even is not None
    assert odd is not None
    assert nothing is not None
    wide = torch.promote_types(h.dtype, torch.float32)
    h, even, odd, nothing = h.to(wide), even.to(wide), odd.to(wide), nothing.to(wide)
    size = torch.linalg.vecdot(h, h)
    gap = h - even - odd + nothing
    for place, half in enumerate((even, odd)):
        expected = torch.linalg.vecdot(half - nothing, h) / size
        told = share[:-1][place::2].sum(0).view_as(expected)
        gap = gap + (told - expected).abs().unsqueeze(-1) * h
    return gap


def _numbers(values: Tensor) -> Any:
    return values.double().cpu().numpy()
