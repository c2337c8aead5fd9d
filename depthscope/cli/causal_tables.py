"""What `depthscope causal` prints: the largest effects, or what each depth would say."""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan
from typing import TYPE_CHECKING

from depthscope.cli.table import Column, print_table

if TYPE_CHECKING:
    import xarray as xr

    from depthscope.analysis import PathEffect

SHOWN = 10
_PAIR = (Column(title="target"), Column(title="without"))
_CHANGE = (Column(title="loss change", right=True), Column(title="± 95 %", right=True))


def print_effects(data: xr.Dataset) -> None:
    """Print the largest effects, those first whose cut hurts most."""
    effect, half = data["effect"].values, data["effect_interval"].values
    targets, sources = data["target_name"].values, data["source_name"].values
    cells = [(float(effect[place]), place) for place in zip(*data["exists"].values.nonzero(), strict=True)]
    cells.sort(key=lambda cell: -cell[0])
    print_table(
        (*_PAIR, *_CHANGE),
        [
            [str(targets[row]), str(sources[column]), f"{change:+.4g}", _half_width(half[row, column])]
            for change, (row, column) in cells[:SHOWN]
        ],
    )
    _print_footing(len(cells), data.sizes["batch"])


def print_paths(effects: Sequence[PathEffect], *, apart: str = "") -> None:
    """Print the pairs whose cut hurts most, with the weight and the contribution that the run recorded of them.

    `apart` says of which steps these and the effects are, where these are two.
    """
    import numpy as np

    from depthscope.analysis import rank_correlation

    first = sorted(effects, key=lambda each: -each.effect)
    print_table(
        (*_PAIR, Column(title="weight", right=True), Column(title="contribution", right=True), *_CHANGE),
        [
            [
                each.target_name,
                each.source_name,
                f"{each.weight:.3f}",
                f"{each.contribution:+.3f}",
                f"{each.effect:+.4g}",
                _half_width(each.interval),
            ]
            for each in first[:SHOWN]
        ],
    )
    weight, contribution, effect = (
        np.array([getattr(each, name) for each in effects if each.n_sources > 1])
        for name in ("weight", "contribution", "effect")
    )
    print(
        f"Rank correlation of the effect over {len(effect)} pairs of reads with 2 sources or more: "
        f"{rank_correlation(weight, effect):+.2f} with the weight, "
        f"{rank_correlation(contribution, effect):+.2f} with the contribution."
    )
    if apart:
        print(f"{apart[:1].upper()}{apart[1:]}.")
    _print_footing(len(effects), max((each.measured for each in effects), default=0))


def _print_footing(cells: int, batches: int) -> None:
    more = f"; {cells - SHOWN} more pairs are in the store" if cells > SHOWN else ""
    print(f"Nats a token, positive where the cut hurts, mean of {_counted(batches)}{more}.")


def print_lens(data: xr.Dataset) -> None:
    """Print what each depth would say."""
    columns = (
        Column(title="state after"),
        Column(title="loss", right=True),
        Column(title="KL of the output", right=True),
        Column(title=f"top {data.attrs['k']} shared", right=True),
    )
    rows = zip(
        data["depth_name"].values,
        *(data[name].mean("batch").values for name in ("lens_loss", "lens_kl", "lens_agreement")),
        strict=True,
    )
    print_table(
        columns, [[str(name), f"{loss:.3f}", f"{kl:.3f}", f"{shared:.2f}"] for name, loss, kl, shared in rows]
    )
    print(f"Nats a token, mean of {_counted(data.sizes['batch'])}.")


def _half_width(value: float) -> str:
    """Of one batch no interval is known."""
    return "-" if isnan(value) else f"{value:.2g}"


def _counted(batches: int) -> str:
    return f"{batches} batches" if batches > 1 else "1 batch"
