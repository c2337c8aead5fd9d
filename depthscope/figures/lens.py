"""Lenses into depth, the numbers: what each state would say, how alike states are, what each source adds to a logit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import xarray as xr

from depthscope.analysis import LENS, chosen_sweep
from depthscope.figures.labelled import Absent, Labelled, per_run
from depthscope.figures.readable import ReadableRun
from depthscope.figures.skip_paths import source_layer
from depthscope.quantities import DepthLayout
from depthscope.store import mean_interval

LensShow = Literal["kl", "agreement", "loss", "influence", "attribution", "cka"]
LENS_SHOWS: tuple[LensShow, ...] = ("kl", "agreement", "loss", "influence", "attribution", "cka")
NO_LENS = "no lens is measured"


@dataclass(frozen=True, kw_only=True)
class LensView:
    """What one of the lenses shows."""

    array: str
    title: str
    unit: str
    axis: str
    """What lies along it."""
    says: str
    """What it is, with its source."""


LENS_VIEWS: Mapping[LensShow, LensView] = {
    "kl": LensView(
        array="lens_kl",
        title="KL of the output from each state",
        unit="nats a token",
        axis="sublayers passed",
        says="Logit lens: the state at a depth takes the place of the final read, and the model's own final norm and head "
        "act on it (with depth mixers the mixed state). KL(output || depth), mean over tokens. Source: nostalgebraist, "
        "interpreting GPT: the logit lens",
    ),
    "agreement": LensView(
        array="lens_agreement",
        title="Likeliest tokens shared with the output",
        unit="share",
        axis="sublayers passed",
        says="Logit lens: share of the output's k likeliest tokens that are among those of the state at a depth, mean over "
        "tokens. Source: nostalgebraist, interpreting GPT: the logit lens",
    ),
    "loss": LensView(
        array="lens_loss",
        title="Loss if each state were the last",
        unit="nats a token",
        axis="sublayers passed",
        says="Logit lens: the loss if the state at a depth were read by the final norm and the head, mean over tokens. "
        "Source: nostalgebraist, interpreting GPT: the logit lens",
    ),
    "influence": LensView(
        array="block_influence",
        title="Block influence",
        unit="1 − cosine",
        axis="transformer block",
        says="1 - mean over tokens of the cosine of what a transformer block reads and what the next reads. Source: "
        "ShortGPT, arXiv 2403.03853, there on the stream, here on reads",
    ),
    "attribution": LensView(
        array="logit_attribution",
        title="Direct logit attribution",
        unit="logit of the right token",
        axis="source of the final read",
        says="What each source of the final read adds to the logit of the token that follows, mean over tokens; all norms "
        "and mixing weights held at their values, so parts sum to the logit. The direct path alone. const: biases. "
        "Source: Elhage et al., A Mathematical Framework for Transformer Circuits",
    ),
    "cka": LensView(
        array="cka",
        title="Linear CKA between depths",
        unit="1",
        axis="sublayers passed",
        says="||Y^T X||_F^2 / (||X^T X||_F ||Y^T Y||_F) of the states at two depths, features centred over the tokens of the "
        "first batch. Source: Kornblith et al., arXiv 1905.00414",
    ),
}


@dataclass(frozen=True, kw_only=True)
class LensOptions:
    """Which lens is shown."""

    show: LensShow = "kl"
    step: int | None = None
    """Each run shows its lens nearest to this step, of two the later; None means its newest."""


def lens_data(runs: Sequence[ReadableRun], options: LensOptions) -> Labelled:
    """Return per run an array (place), the mean over batches, or for ``cka`` (place, other_place).

    Coordinates over place: ``x`` (where it lies: sublayers passed, the transformer block, or for a source the sublayer
    after which it is complete, the constant behind all), ``place_name``, and for means ``interval`` (half width of the
    95 % interval over batches). Attributes: ``sweep``, ``sweep_step``, ``batches``, ``k``, ``layers``.
    """
    view = LENS_VIEWS[options.show]

    def part(run: ReadableRun) -> xr.DataArray:
        sweep = chosen_sweep(run.sweeps(), kind=LENS, step=options.step)
        if sweep is None:
            raise Absent(f"{NO_LENS}; type: depthscope causal RUN --kind lens")
        data = sweep.read((view.array,))
        if view.array not in data:
            raise Absent(str(sweep.attributes.get("no_attribution") or f"the lens {sweep.name} has none"))
        if not np.isfinite(data[view.array].values).any():
            raise Absent(f"{NO_LENS} yet: {sweep.name} has just begun")
        return _labelled(run.layout, data, view, options.show).assign_attrs(
            sweep=sweep.name,
            mode="lens",
            record_step=None,
            sweep_step=sweep.step,
            k=int(sweep.attributes.get("k") or 0),
            layers=run.layout.layers,
        )

    arrays, absent, names = per_run(runs, part)
    return Labelled(
        arrays=arrays,
        absent=absent,
        names=names,
        attributes={
            "quantity": view.array,
            "title": view.title,
            "note": view.unit,
            "signed": options.show == "attribution",
            "mode": "absolute",
            "show": options.show,
        },
    )


def lens_words(array: xr.DataArray) -> str:
    """Say what was measured: ``step 300, 8 batches``."""
    step, batches = array.attrs["sweep_step"], int(array.attrs["batches"])
    where = "unknown step" if step is None else f"step {step:,}"
    return f"{where}, {batches} batch{'' if batches == 1 else 'es'}"


def line_places(array: xr.DataArray) -> int:
    """Return how many places a line joins: the constant of an attribution, its last part, stands by itself."""
    return array.sizes["place"] - int(str(array["place_name"].values[-1]) == "constant")


def part_places(layout: DepthLayout, names: Sequence[str]) -> list[float]:
    """Return where the sources of the final read lie on the depth axis: the constant after all of them."""
    places = []
    for column, name in enumerate(names):
        if name == "constant":
            places.append(float(layout.layers + 1))
        elif name in layout.source_names:
            places.append(float(source_layer(layout, layout.source_names.index(name))))
        else:
            places.append(float(_numbered_place(layout, name, column)))
    return places


def _numbered_place(layout: DepthLayout, name: str, column: int) -> int:
    """Return the place of a source of a design without depth attention, by its name or its order."""
    kind, _, number = name.partition(" ")
    if kind == "block" and number.isdigit() and int(number) in layout.residual_block:
        return layout.layers - layout.residual_block[::-1].index(int(number))
    return layout.layer_names.index(name) + 1 if name in layout.layer_names else min(column, layout.layers)


def _labelled(layout: DepthLayout, data: xr.Dataset, view: LensView, show: LensShow) -> xr.DataArray:
    values = np.asarray(data[view.array].values, dtype=np.float64)
    attrs: dict[str, Any] = {"long_name": view.title, "units": str(data[view.array].attrs.get("units", ""))}
    if show == "cka":
        names = data["depth_name"].values
        x = np.arange(len(names), dtype=np.float64)
        coords = {"x": ("place", x), "place_name": ("place", names), "other_name": ("other_place", names)}
        return xr.DataArray(
            values,
            dims=("place", "other_place"),
            coords=coords,
            name=view.array,
            attrs={**attrs, "batches": 1},
        )
    mean, half = mean_interval(values)
    if show == "influence":
        x = np.arange(1.0, len(mean) + 1)
        names = np.array([f"block {number}" for number in range(1, len(mean) + 1)])
    elif show == "attribution":
        names = data["part_name"].values
        x = np.array(part_places(layout, [str(name) for name in names]))
    else:
        names = data["depth_name"].values
        x = np.arange(len(names), dtype=np.float64)
    return xr.DataArray(
        mean,
        dims=("place",),
        coords={"x": ("place", x), "place_name": ("place", names), "interval": ("place", half)},
        name=view.array,
        attrs={**attrs, "batches": int(np.isfinite(values).any(axis=0).sum())},
    )
