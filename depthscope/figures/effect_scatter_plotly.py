"""Effects against weights or contributions, drawn by plotly: a point a pair, its interval, and where the two disagree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from textwrap import wrap
from typing import Any

import numpy as np
import xarray as xr

from depthscope.figures.effect_axis import EffectAxis, effect_axis
from depthscope.figures.effect_pairs import EffectPairs, effect_pairs
from depthscope.figures.effects import paired_words, pairs_words, width_words
from depthscope.figures.labelled import Labelled
from depthscope.figures.look import Look, axis, frame, with_alpha
from depthscope.figures.names import plotly_text, shortened
from depthscope.figures.ticks import round_ticks, short_number, significant
from depthscope.figures.typed import typed

MOST_POINTS = 600
"""Of one run; the widest, the costliest and those that disagree are kept."""
_MOST_BARS = 400
"""Points of one run above which only those that disagree have their interval drawn."""
_LINE = 16
"""px of a line of text over the plot."""
_ELSEWHERE = 50
"""Letters of the last line kept free: there the page says that it stands at another step than the effects."""
_LETTERS = 88
"""Of such a line, so that it fits a panel of half a page of 1,280 px."""
SYMBOLS = {"plain": "circle", "free": "square-open", "costly": "triangle-up"}
_SIZES = {"plain": 6, "free": 9, "costly": 9}


def effect_scatter_plotly(data: Labelled, *, look: Look, log: bool = True) -> dict[str, Any]:
    """Return a plotly figure (as a dict) of `effects_data`: effect against weight or contribution, a colour a run."""
    against = str(data.attributes["against"])
    order = list(data.arrays)
    pairs = {run: effect_pairs(array, against) for run, array in data.arrays.items()}
    values = effect_axis(list(pairs.values()), log=log)
    traces = [
        trace
        for run, found in pairs.items()
        for trace in _points(run, data.arrays[run], found, values, look, order, data.names.get(run, run))
    ]
    arrays = list(data.arrays.values())
    rows = _rows(data, pairs, values, look) if look.host == "page" else []
    over = _LINE * len(rows)
    layout = frame(look, left=56, top=12 + over, right=16, bottom=40)
    layout |= {
        "showlegend": False,
        "xaxis": _width_axis(list(pairs.values()), width_words(arrays, against), look),
        "yaxis": value_axis_of(values, look),
        "shapes": [zero_line(look)],
        "meta": {
            "panel": "effects",
            "against": against,
            "rows": rows,
            "runs": {run: _described(data, run, found) for run, found in pairs.items()},
        },
    }
    return {"data": traces, "layout": layout}


def _rows(
    data: Labelled, pairs: Mapping[str, EffectPairs], values: EffectAxis, look: Look
) -> list[dict[str, Any]]:
    """Return the lines of text over the plot: for each run with its colour's slot, then of all."""
    told = {paired_words(array) for array in data.arrays.values()}
    common = [*(told if len(told) == 1 else ()), "nats a token", values.words]
    which = {pairs_words(array) for array in data.arrays.values()}
    rows = []
    for run, found in pairs.items():
        text = "; ".join([_line_of(found), *([paired_words(data.arrays[run])] if len(told) > 1 else [])])
        first, *further = wrap(text, _LETTERS)
        rows.append({"slot": look.slot(run, list(data.arrays)), "text": first})
        rows += [{"slot": None, "text": row} for row in further]
    words = [f"{'; '.join(common)}; {', '.join(which)}", agreement_words(list(data.arrays.values()))]
    further = wrap(". ".join(filter(None, words)), _LETTERS)
    if len(further[-1]) > _LETTERS - _ELSEWHERE:
        further.append("")
    return [*rows, *({"slot": None, "text": row} for row in further)]


def agreement_words(arrays: Sequence[xr.DataArray]) -> str:
    """Say that zero and renormalise agree where they do by construction, with how far apart they were measured."""
    told = [array for array in arrays if array.attrs["note"]]
    if not told:
        return ""
    words = "Zero and renormalise agree where a mix feeds only an RMSNorm"
    apart = [array.attrs["largest_difference"] for array in told]
    known = [each for each in apart if np.isfinite(each)]
    return f"{words}; here they differ by {significant(max(known), 2)} at most" if known else words


def _line_of(pairs: EffectPairs) -> str:
    """Say how the effects of a run go with weight and contribution, by rank."""
    both = {"weight": pairs.with_weight, "contribution": pairs.with_contribution}
    known = [f"{name} {value:+.2f}".replace("-", "−") for name, value in both.items() if np.isfinite(value)]
    count = f"{pairs.effect.size:,} pairs"
    if pairs.effect.size > MOST_POINTS:
        count += f", {MOST_POINTS} of them drawn"
    return f"rank correlation of effect with {', '.join(known)} over {count}" if known else count


def value_axis_of(values: EffectAxis, look: Look) -> dict[str, Any]:
    """Return the plotly axis of effects, with ticks at true values."""
    places = [float(place) for place in values.place(values.ticks)]
    return axis(look, grid=True, range=values.ends, tickvals=places, ticktext=values.tick_text)


def zero_line(look: Look) -> dict[str, Any]:
    """Draw where a cut changes nothing."""
    ends = {"xref": "paper", "yref": "y", "x0": 0, "x1": 1, "y0": 0, "y1": 0}
    return {"type": "line", "layer": "below", **ends, "line": {"color": look.theme["chart-axis"], "width": 1}}


def kept(pairs: EffectPairs, most: int = MOST_POINTS) -> np.ndarray[Any, np.dtype[np.intp]]:
    """Return which pairs are drawn, in order: all, or those that disagree and then the widest and the costliest."""
    count = pairs.effect.size
    if count <= most:
        return np.arange(count)
    by_width = np.argsort(np.argsort(-pairs.width))
    by_effect = np.argsort(np.argsort(-np.abs(pairs.effect)))
    rank = np.where(pairs.free | pairs.costly, -1, np.minimum(by_width, by_effect))
    return np.sort(np.argsort(rank, kind="stable")[:most])


def _points(
    run: str,
    array: xr.DataArray,
    pairs: EffectPairs,
    values: EffectAxis,
    look: Look,
    order: list[str],
    name: str,
) -> list[dict[str, Any]]:
    """Return one trace a kind: those that disagree last, over the others."""
    drawn = kept(pairs)
    kinds = np.array(pairs.kinds)[drawn] if drawn.size else np.empty(0, str)
    colour = look.colour(run, order)
    traces = []
    for kind, symbol in SYMBOLS.items():
        chosen = drawn[kinds == kind]
        plain = kind == "plain"
        pen = with_alpha(colour, 0.75) if plain else look.theme["text"]
        y = values.place(pairs.effect[chosen])
        half = np.nan_to_num(pairs.interval[chosen])
        bars = not plain or drawn.size <= _MOST_BARS
        up = values.place(pairs.effect[chosen] + half) - y
        down = y - values.place(pairs.effect[chosen] - half)
        traces.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": plotly_text(name),
                "x": typed(pairs.width[chosen]),
                "y": typed(y),
                "error_y": {
                    "type": "data",
                    "symmetric": False,
                    "array": typed(up),
                    "arrayminus": typed(down),
                    "thickness": 1,
                    "width": 0,
                    "color": with_alpha(colour, 0.35 if plain else 0.8),
                    "visible": bool(bars),
                },
                "marker": {
                    "symbol": symbol,
                    "size": _SIZES[kind],
                    "color": pen,
                    "line": {"color": pen, "width": 1.5 if kind == "free" else 0},
                },
                "customdata": np.flatnonzero(kinds == kind).tolist(),
                "hovertext": [_label(array, pairs, place) for place in chosen]
                if look.host == "alone"
                else [],
                "hoverinfo": "none" if look.host == "page" else "text",
                "meta": {"run": run, "role": kind},
            }
        )
    return traces


def _label(array: xr.DataArray, pairs: EffectPairs, place: int) -> str:
    names = array["target_name"].values[pairs.rows[place]], array["source_name"].values[pairs.columns[place]]
    change = f"{pairs.effect[place]:+.3g} ± {pairs.interval[place]:.2g}"
    return f"{names[0]} without {names[1]}: {change} nats a token"


def _width_axis(pairs: list[EffectPairs], against: str, look: Look) -> dict[str, Any]:
    ends = [
        0.0,
        *(float(end) for each in pairs if each.width.size for end in (each.width.min(), each.width.max())),
    ]
    low, high = min(ends), max(ends)
    room = 0.04 * ((high - low) or 1.0)
    ticks = round_ticks(low, high, 5)
    return axis(
        look,
        ticks=True,
        title=against,
        range=[low - room, high + room],
        tickvals=ticks,
        ticktext=[short_number(tick).replace("-", "−") for tick in ticks],
    )


def _described(data: Labelled, run: str, pairs: EffectPairs) -> dict[str, Any]:
    """What hover text, clicks and the line of a run need: the points that are drawn, and what was measured."""
    array, drawn = data.arrays[run], kept(pairs)
    rows, columns = pairs.rows[drawn], pairs.columns[drawn]
    numbers = {
        name: [_plain(each) for each in np.asarray(array[name].values)[rows, columns]]
        for name in ("weight", "contribution", "interval")
    }
    return {
        **numbers,
        "name": shortened(data.names.get(run, run), 22),
        "effect": [_plain(each) for each in pairs.effect[drawn]],
        "rows": rows.tolist(),
        "columns": columns.tolist(),
        "distance": array["distance"].values[rows, columns].tolist(),
        "unit": array.attrs["source_axis"],
        "targets": array["target"].values.tolist(),
        "target_names": array["target_name"].values.tolist(),
        "source_names": array["source_name"].values.tolist(),
        "step": array.attrs["sweep_step"],
        "record_step": array.attrs["record_step"],
        "mode": array.attrs["mode"],
    }


def _plain(value: Any) -> float | None:
    """Return a number as JSON has it, with four significant digits: NaN becomes None."""
    return float(f"{float(value):.4g}") if np.isfinite(value) else None
