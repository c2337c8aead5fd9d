"""The logit lens token by token, the numbers: how far each state is from the output, along one sequence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import xarray as xr

from depthscope.analysis import LENS, chosen_sweep
from depthscope.figures.labelled import Absent, Labelled, per_run
from depthscope.figures.lens import NO_LENS
from depthscope.figures.readable import ReadableRun
from depthscope.figures.within import require_within


@dataclass(frozen=True, kw_only=True)
class LensTokensOptions:
    """Which tokens are shown."""

    step: int | None = None
    """Each run shows its lens nearest to this step, of two the later; None means its newest."""
    sequence: int = 0
    """Of the first batch, from 0."""

    def __post_init__(self) -> None:
        require_within("sequence", self.sequence, 0)


def lens_tokens_data(runs: Sequence[ReadableRun], options: LensTokensOptions) -> Labelled:
    """Return per run an array (place, position) of KL(output || state) in nats, of one sequence of the first batch.

    Coordinates: over place ``place_name`` (what was written last before the state), over both ``likeliest``, the id of
    the token that the state makes likeliest. Attributes: ``sweep``, ``sweep_step``, ``sequence``.
    """

    def part(run: ReadableRun) -> xr.DataArray:
        sweep = chosen_sweep(run.sweeps(), kind=LENS, step=options.step)
        if sweep is None:
            raise Absent(f"{NO_LENS}; type: depthscope causal RUN --kind lens")
        data = sweep.read(("token_kl", "token_top"))
        if "token_kl" not in data or "token_top" not in data:
            raise Absent(f"the lens {sweep.name} keeps no single tokens")
        if options.sequence >= data.sizes["sequence"]:
            raise Absent(f"the lens {sweep.name} keeps {data.sizes['sequence']} sequences, from 0")
        values = np.asarray(data["token_kl"].values[:, options.sequence], dtype=np.float64)
        if not np.isfinite(values).any():
            raise Absent(f"{NO_LENS} yet: {sweep.name} has just begun")
        return xr.DataArray(
            values,
            dims=("place", "position"),
            coords={
                "place_name": ("place", data["depth_name"].values),
                "likeliest": (("place", "position"), data["token_top"].values[:, options.sequence]),
            },
            name="token_kl",
            attrs={
                "long_name": "KL of the output from each state",
                "units": "nats",
                "sweep": sweep.name,
                "mode": "lens",
                "record_step": None,
                "sweep_step": sweep.step,
                "sequence": options.sequence,
            },
        )

    arrays, absent, names = per_run(runs, part)
    return Labelled(
        arrays=arrays,
        absent=absent,
        names=names,
        attributes={
            "quantity": "token_kl",
            "title": "KL of the output from each state, token by token",
            "note": "nats",
            "signed": False,
            "mode": "absolute",
        },
    )
