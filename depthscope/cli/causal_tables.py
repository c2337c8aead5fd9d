"""What `depthscope causal` prints: the largest effects, or what each depth would say."""

from __future__ import annotations

from typing import TYPE_CHECKING

from depthscope.cli.table import Column, print_table

if TYPE_CHECKING:
    import xarray as xr

SHOWN = 10


def print_effects(data: xr.Dataset) -> None:
    """Print the largest effects, those first whose cut hurts most."""
    effect, half = data["effect"].values, data["effect_interval"].values
    targets, sources = data["target_name"].values, data["source_name"].values
    cells = [(float(effect[place]), place) for place in zip(*data["exists"].values.nonzero(), strict=True)]
    cells.sort(key=lambda cell: -cell[0])
    columns = (
        Column(title="target"),
        Column(title="without"),
        Column(title="loss change", right=True),
        Column(title="± 95 %", right=True),
    )
    print_table(
        columns,
        [
            [str(targets[row]), str(sources[column]), f"{change:+.4g}", f"{half[row, column]:.2g}"]
            for change, (row, column) in cells[:SHOWN]
        ],
    )
    more = f"; {len(cells) - SHOWN} more cells are in the store" if len(cells) > SHOWN else ""
    print(f"Nats a token, positive where the cut hurts, mean of {_batches(data)}{more}.")


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
    print(f"Nats a token, mean of {_batches(data)}.")


def _batches(data: xr.Dataset) -> str:
    count = data.sizes["batch"]
    return f"{count} batches" if count > 1 else "1 batch"
