"""The numbers behind a panel: what its figure draws, as the rows that `depthscope export` writes as CSV."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from depthscope.app.pages.depth_attention_answers import options as attention_options
from depthscope.app.pages.depth_profile import profile_options
from depthscope.app.pages.effects_answers import effects_options
from depthscope.app.pages.mixing_answers import options as mixing_options
from depthscope.app.pages.mixing_answers import row_options
from depthscope.app.reading import CachedRun
from depthscope.app.state import Ask
from depthscope.figures import (
    LENS_SHOWS,
    BoundaryOptions,
    CellSeriesOptions,
    Labelled,
    LensOptions,
    LensShow,
    LensTokensOptions,
    LossOptions,
    MapOptions,
    MixingSeriesOptions,
    OuterHistoryOptions,
    OuterStateOptions,
    Panel,
    ProfileOptions,
    Show,
    SkipPathOptions,
    block_boundaries_data,
    cell_series_data,
    depth_attention_data,
    depth_map_data,
    depth_profile_data,
    effects_data,
    lens_data,
    lens_tokens_data,
    loss_data,
    mixing_data,
    mixing_row_data,
    mixing_series_data,
    outer_history_data,
    outer_state_data,
    profile_panels,
    skip_paths_data,
)
from depthscope.report import Table, csv_bytes, table_of

SHOWN_ROWS = 500
Numbers = Callable[[Ask, Sequence[CachedRun]], Panel]


def panel_numbers(name: str, ask: Ask, runs: Sequence[CachedRun]) -> Mapping[str, Panel]:
    """Return the numbers of panel `name`, runs under their own ids; empty for a panel without any."""
    numbers = _NUMBERS.get(re.sub(r"(?:(?<=attention)|(?<=mixing))-\d+", "", name))
    if numbers is None or not runs:
        return {}
    panel = numbers(ask, runs)
    own = {run.id: run.run.id for run in runs}
    data = replace(
        panel.data,
        arrays={own[run]: array for run, array in panel.data.arrays.items()},
        names={own[run]: text for run, text in panel.data.names.items()},
        attributes={
            key: own.get(value, value) if key == "baseline" else value
            for key, value in panel.data.attributes.items()
        },
    )
    return {name: replace(panel, data=data)} if data.arrays else {}


def first_rows(panels: Mapping[str, Panel]) -> Table:
    """Return the first rows, for a table on the page."""
    return table_of(panels, most=SHOWN_ROWS)


def whole_csv(panels: Mapping[str, Panel]) -> bytes:
    """Return all rows as CSV, the bytes that `depthscope export` writes for the same numbers."""
    return csv_bytes(panels)


def _shown(ask: Ask, runs: Sequence[CachedRun]) -> list[CachedRun]:
    return [next((run for run in runs if run.id == ask.shown), runs[0])]


def _alone(panel: Panel, shown: Sequence[CachedRun]) -> Panel:
    """Keep the numbers of the runs shown; those of others had a say in them, as the baseline of a difference."""
    kept = {run.id for run in shown}
    arrays = {run: array for run, array in panel.data.arrays.items() if run in kept}
    return replace(panel, data=replace(panel.data, arrays=arrays))


def _panel(
    figure: str, data: Callable[[Any, Any], Labelled], runs: Sequence[CachedRun], options: Any
) -> Panel:
    return Panel(figure=figure, options=options, data=data(runs, options))


def _profile(ask: Ask, runs: Sequence[CachedRun]) -> Panel:
    options = ProfileOptions(**{**profile_options(ask, runs), "quantity": ask.metric})
    return _panel("depth-profile", depth_profile_data, runs, options)


def _gradient(ask: Ask, runs: Sequence[CachedRun]) -> Panel:
    quantity, mode = profile_panels(ask.metric, ask.mode)[1]
    return _profile(replace(ask, metric=quantity, mode=mode), runs)


def _map(ask: Ask, runs: Sequence[CachedRun]) -> Panel:
    options = MapOptions(quantity=ask.metric, mode=ask.mode, baseline=ask.base)
    return _panel("depth-map", depth_map_data, runs, options)


def _loss(ask: Ask, runs: Sequence[CachedRun]) -> Panel:
    return _panel("loss", loss_data, runs, LossOptions())


def _attention(ask: Ask, runs: Sequence[CachedRun]) -> Panel:
    options = attention_options(ask, runs)
    return _alone(_panel("depth-attention", depth_attention_data, runs, options), _shown(ask, runs))


def _cell(ask: Ask, runs: Sequence[CachedRun]) -> Panel:
    target, source = ask.cell or (1, 0)
    options = CellSeriesOptions(target=target, source=source)
    return _panel("cell-series", cell_series_data, _shown(ask, runs), options)


def _boundary(ask: Ask, runs: Sequence[CachedRun], *, show: Show) -> Panel:
    options = BoundaryOptions(show=show, step=ask.step)
    return _panel("block-boundaries", block_boundaries_data, runs, options)


def _arcs(ask: Ask, runs: Sequence[CachedRun]) -> Panel:
    options = SkipPathOptions(
        step=ask.step,
        top=ask.top,
        least_weight=ask.least_weight,
        least_distance=ask.least_distance,
        cut=ask.cut,
    )
    return _panel("skip-paths", skip_paths_data, runs, options)


def _effects(ask: Ask, runs: Sequence[CachedRun]) -> Panel:
    return _panel("effects", effects_data, runs, effects_options(ask))


def _mixing(ask: Ask, runs: Sequence[CachedRun]) -> Panel:
    options = mixing_options(ask, runs)
    return _alone(_panel("mixing", mixing_data, runs, options), _shown(ask, runs))


def _mixing_row(ask: Ask, runs: Sequence[CachedRun]) -> Panel:
    return _panel("mixing-row", mixing_row_data, runs, row_options(ask, runs))


def _mixing_series(ask: Ask, runs: Sequence[CachedRun]) -> Panel:
    target, origin = ask.entry
    options = MixingSeriesOptions(target=target, origin=origin, share=ask.share)
    return _panel("mixing-series", mixing_series_data, runs, options)


def _outer_history(ask: Ask, runs: Sequence[CachedRun], *, quantity: str) -> Panel:
    return _panel("outer-history", outer_history_data, runs, OuterHistoryOptions(quantity=quantity))


def _outer_state(ask: Ask, runs: Sequence[CachedRun]) -> Panel:
    options = OuterStateOptions(step=ask.step, baseline=ask.base, align=ask.align)
    return _panel("outer-state", outer_state_data, runs, options)


def _lens(ask: Ask, runs: Sequence[CachedRun], *, show: LensShow) -> Panel:
    return _panel("lens", lens_data, runs, LensOptions(show=show, step=ask.step))


def _lens_tokens(ask: Ask, runs: Sequence[CachedRun]) -> Panel:
    options = LensTokensOptions(step=ask.step)
    return _panel("lens-tokens", lens_tokens_data, _shown(ask, runs), options)


_SHOWS: tuple[Show, ...] = ("folded", "sums", "reset", "read")
_NUMBERS: Mapping[str, Numbers] = {
    "profile": _profile,
    "gradient": _gradient,
    "loss": _loss,
    "maps": _map,
    "attention": _attention,
    "cell-weight": _cell,
    "cell-contribution": _cell,
    **{f"boundary-{show}": partial(_boundary, show=show) for show in _SHOWS},
    "arcs": _arcs,
    "effects": _effects,
    "mixing": _mixing,
    "mixing-row": _mixing_row,
    "mixing-series": _mixing_series,
    "outer-map": partial(_outer_history, quantity="outer_energy"),
    "outer-direct": partial(_outer_history, quantity="outer_direct"),
    "outer-balance": _outer_state,
    "outer-gates": _outer_state,
    **{f"lens-{show}": partial(_lens, show=show) for show in LENS_SHOWS},
    "lens-tokens": _lens_tokens,
}
