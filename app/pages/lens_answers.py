"""Lens, the answers: from a panel's ask to lines over depth, or to maps of how alike depths are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dash import html

from depthscope.app.absent import reasons_by_name
from depthscope.app.answer import Answer
from depthscope.app.causal_command import causal_command
from depthscope.app.key import scale_key
from depthscope.app.reading import CachedRun
from depthscope.app.state import Ask
from depthscope.figures import (
    LENS_VIEWS,
    MOST_LENS_MAPS,
    NO_LENS,
    Labelled,
    LensOptions,
    LensShow,
    LensTokensOptions,
    Limits,
    Look,
    lens_data,
    lens_plotly,
    lens_tokens_data,
    lens_tokens_plotly,
    lens_words,
    shortened,
    theme,
    token_limits,
)

_UNITS: Mapping[LensShow, str] = {"attribution": "logit of the right token, by source"}


def lens_answer(ask: Ask, runs: Sequence[CachedRun], slots: Mapping[str, int], *, show: LensShow) -> Answer:
    """Answer for one lens into all runs that have it."""
    view = LENS_VIEWS[show]
    data = lens_data(runs, LensOptions(show=show, step=ask.step))
    if not data.arrays:
        return Answer(title=view.title, empty=_none_measured(runs, data), definition=view.says)
    look = Look(theme=theme(ask.theme), slots=slots, focus=ask.focus, host="page")
    figure = lens_plotly(data, look=look, log=ask.log)
    meta = figure["layout"]["meta"]
    crowded = (
        f"the first {MOST_LENS_MAPS} runs" if show == "cka" and len(data.arrays) > MOST_LENS_MAPS else ""
    )
    return Answer(
        title=view.title,
        note=", ".join(filter(None, (_unit(data, show), _measured(data), meta.get("note", "")))),
        figure=figure,
        absent=reasons_by_name(data),
        warning=crowded,
        definition=view.says,
        key=[]
        if show != "cka"
        else [scale_key(figure["layout"]["coloraxis"]["colorscale"], Limits(low=0, high=1))],
    )


def tokens_answer(ask: Ask, runs: Sequence[CachedRun], slots: Mapping[str, int]) -> Answer:
    """Answer for the logit lens token by token, of one run."""
    shown = next((run for run in runs if run.id == ask.shown), runs[0])
    title = "KL token by token"
    data = lens_tokens_data([shown], LensTokensOptions(step=ask.step))
    definition = f"{LENS_VIEWS['kl'].says}\nThe first sequence of the first batch; hovering names the likeliest token by its id"
    if not data.arrays:
        return Answer(title=title, empty=_none_measured([shown], data), definition=definition)
    figure = lens_tokens_plotly(data, look=Look(theme=theme(ask.theme), slots=slots, host="page"))
    (array,) = data.arrays.values()
    step = array.attrs["sweep_step"]
    when = "" if step is None else f", step {step:,}"
    return Answer(
        title=title,
        note=f"{shortened(shown.name, 24)}, nats, first sequence{when}; rows are sublayers passed",
        figure=figure,
        definition=definition,
        key=[scale_key(figure["layout"]["coloraxis"]["colorscale"], token_limits(data))],
    )


def _unit(data: Labelled, show: LensShow) -> str:
    sizes = {int(array.attrs["k"]) for array in data.arrays.values()}
    if show == "agreement" and len(sizes) == 1:
        return f"share of the top {sizes.pop()}"
    return _UNITS.get(show, LENS_VIEWS[show].unit if show != "cka" else "")


def _measured(data: Labelled) -> str:
    told = {run: lens_words(array) for run, array in data.arrays.items()}
    if len(set(told.values())) == 1:
        return next(iter(told.values()))
    return "; ".join(f"{shortened(data.names[run], 16)} {words}" for run, words in told.items())


def _none_measured(runs: Sequence[CachedRun], data: Labelled) -> list[Any]:
    """Say why nothing is shown; where no lens is measured, what to type for the first run."""
    reasons = sorted({reason.partition(";")[0] for reason in data.absent.values()})
    if reasons == [NO_LENS]:
        return [
            html.P("No lens is measured. It looks into a checkpoint of a run:"),
            html.P(html.Code(causal_command(runs[0], "lens"))),
        ]
    return [html.P(f"{data.names[run]}: {reason}.") for run, reason in data.absent.items()]
