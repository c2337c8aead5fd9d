"""The figures by name, drawn with plotly for a notebook; the app draws the same with its own page around."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from difflib import get_close_matches
from types import MappingProxyType
from typing import Any

import plotly.graph_objects as go

from depthscope.figures.block_boundaries import BoundaryOptions, block_boundaries_data
from depthscope.figures.block_boundaries_plotly import block_boundaries_plotly
from depthscope.figures.depth_attention import DepthAttentionOptions, depth_attention_data
from depthscope.figures.depth_attention_plotly import depth_attention_plotly
from depthscope.figures.depth_map import MapOptions, depth_map_data
from depthscope.figures.depth_map_plotly import depth_map_plotly
from depthscope.figures.depth_profile import ProfileOptions, depth_profile_data
from depthscope.figures.depth_profile_plotly import depth_profile_plotly
from depthscope.figures.effects import EffectsOptions, effects_data
from depthscope.figures.effects_plotly import effects_plotly
from depthscope.figures.labelled import Labelled
from depthscope.figures.lens import LensOptions, lens_data
from depthscope.figures.lens_plotly import lens_plotly
from depthscope.figures.limits import has_logarithm, limits_of
from depthscope.figures.look import Look
from depthscope.figures.loss import LossOptions, loss_data
from depthscope.figures.loss_plotly import loss_plotly
from depthscope.figures.mixing import MixingOptions, mixing_data
from depthscope.figures.mixing_plotly import mixing_plotly
from depthscope.figures.names import told_apart
from depthscope.figures.outer_state import OuterStateOptions, outer_state_data
from depthscope.figures.outer_state_plotly import outer_state_plotly
from depthscope.figures.readable import ReadableRun
from depthscope.figures.skip_paths import SkipPathOptions, skip_paths_data
from depthscope.figures.skip_paths_plotly import skip_paths_plotly
from depthscope.figures.theme import ThemeName, theme
from depthscope.figures.typed import untyped


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A figure: what it shows, its options, its numbers, and its plotly renderer."""

    shows: str
    options: type[Any]
    data: Callable[[Sequence[ReadableRun], Any], Labelled]
    plotly: Callable[..., dict[str, Any]]
    scaled: bool = True
    """Whether its values can be put on a log scale."""
    limited: bool = False
    """Whether it takes the ends of a colour scale."""


FIGURES: Mapping[str, Figure] = MappingProxyType(
    {
        "depth-profile": Figure(
            shows="a quantity against sublayers at a step, one line a run",
            options=ProfileOptions,
            data=depth_profile_data,
            plotly=depth_profile_plotly,
        ),
        "depth-map": Figure(
            shows="a quantity over sublayers and steps, one map a run",
            options=MapOptions,
            data=depth_map_data,
            plotly=depth_map_plotly,
            limited=True,
        ),
        "loss": Figure(
            shows="validation loss over steps, else training loss",
            options=LossOptions,
            data=loss_data,
            plotly=loss_plotly,
            scaled=False,
        ),
        "block-boundaries": Figure(
            shows="the state by position in block, or what changes at block boundaries over steps",
            options=BoundaryOptions,
            data=block_boundaries_data,
            plotly=block_boundaries_plotly,
        ),
        "depth-attention": Figure(
            shows="weight and contribution of every source in every target's read, side by side",
            options=DepthAttentionOptions,
            data=depth_attention_data,
            plotly=depth_attention_plotly,
            scaled=False,
        ),
        "skip-paths": Figure(
            shows="distant sources weighted well above uniform, as arcs over depth",
            options=SkipPathOptions,
            data=skip_paths_data,
            plotly=skip_paths_plotly,
            scaled=False,
        ),
        "effects": Figure(
            shows="what cutting each source does to the loss, against its weight and as a map",
            options=EffectsOptions,
            data=effects_data,
            plotly=effects_plotly,
        ),
        "lens": Figure(
            shows="what each state would say, how alike states are, what each source adds to a logit",
            options=LensOptions,
            data=lens_data,
            plotly=lens_plotly,
        ),
        "mixing": Figure(
            shows="what every read is made of, by origin, one signed map a run for any design",
            options=MixingOptions,
            data=mixing_data,
            plotly=mixing_plotly,
            scaled=False,
        ),
        "outer-state": Figure(
            shows="energies of a wide outer state by block",
            options=OuterStateOptions,
            data=outer_state_data,
            plotly=outer_state_plotly,
            scaled=False,
        ),
    }
)


def list_figures() -> list[str]:
    """Return the names that `figure` takes."""
    return list(FIGURES)


def figure_data(name: str, runs: ReadableRun | Sequence[ReadableRun], **options: Any) -> Labelled:
    """Return the numbers of figure `name`: labelled arrays by run id, and the reason of each run without one.

    KeyError for an unknown name, TypeError for an unknown option; both say what there is.
    """
    chosen = _look_up(name)
    known = [field.name for field in fields(chosen.options)]
    unknown = sorted(set(options) - set(known))
    if unknown:
        raise TypeError(f"figure {name!r} has no option {unknown[0]!r}; it takes {', '.join(known)}")
    return chosen.data(_as_list(runs), chosen.options(**options))


def figure(
    name: str,
    runs: ReadableRun | Sequence[ReadableRun],
    *,
    log: bool = True,
    theme_name: ThemeName = "light",
    **options: Any,
) -> go.Figure:
    """Return figure `name` of `runs` as a plotly figure: ``figure("depth-profile", runs, step=300)``.

    `options` are the figure's own (`depthscope.figures.ProfileOptions`, ...). ValueError when no run has
    anything to draw: it gives each run's reason.
    """
    return drawn_figure(name, figure_data(name, runs, **options), log=log, theme_name=theme_name)


def drawn_figure(
    name: str,
    data: Labelled,
    *,
    log: bool = True,
    theme_name: ThemeName = "light",
    slots: Mapping[str, int] | None = None,
) -> go.Figure:
    """Return numbers that `figure_data` gave as a plotly figure; ValueError when there are none.

    `slots` are the runs' colours by id, counted from 1; None: in the order of the runs drawn.
    """
    if not data.arrays:
        reasons = "; ".join(f"{data.names[run]}: {reason}" for run, reason in data.absent.items())
        raise ValueError(f"figure {name!r} has nothing to draw: {reasons or 'no runs were given'}")
    look = Look(theme=theme(theme_name), slots=slots or {})
    chosen = _look_up(name)
    more: dict[str, Any] = {"log": log} if chosen.scaled else {}
    if chosen.limited:
        signed = data.attributes["signed"]
        arrays = list(data.arrays.values())
        logarithmic = log and not signed and has_logarithm(arrays)
        more["limits"] = limits_of(arrays, log=logarithmic, symmetric=signed)
    return go.Figure(untyped(chosen.plotly(data, look=look, **more)))


def _as_list(runs: ReadableRun | Sequence[ReadableRun]) -> list[ReadableRun]:
    return told_apart(list(runs) if isinstance(runs, Sequence) else [runs])


def _look_up(name: str) -> Figure:
    try:
        return FIGURES[name]
    except KeyError:
        close = get_close_matches(name, FIGURES, n=1, cutoff=0.4)
        hint = f"did you mean {close[0]!r}? " if close else ""
        raise KeyError(f"no figure is called {name!r}; {hint}There are {', '.join(FIGURES)}") from None
