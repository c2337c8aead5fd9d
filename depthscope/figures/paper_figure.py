"""Paper figures by name: their panels, each the numbers of one figure, and the renderer that draws them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from difflib import get_close_matches
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from depthscope.figures.block_boundaries import SHOWS, BoundaryOptions, block_boundaries_data
from depthscope.figures.depth_attention import DepthAttentionOptions, depth_attention_data
from depthscope.figures.depth_map import MapOptions, depth_map_data
from depthscope.figures.depth_profile import NO_STEP, ProfileOptions, depth_profile_data, profile_panels
from depthscope.figures.effects import EffectsOptions, effects_data
from depthscope.figures.labelled import Labelled
from depthscope.figures.lens import LENS_SHOWS, LensOptions, lens_data
from depthscope.figures.limits import RANGES, Range
from depthscope.figures.look import Look
from depthscope.figures.loss import LossOptions, loss_data
from depthscope.figures.mixing import MixingOptions, mixing_data
from depthscope.figures.outer_state import OuterStateOptions, outer_state_data
from depthscope.figures.readable import ReadableRun
from depthscope.figures.shown import quantity_shown
from depthscope.figures.skip_paths import SkipPathOptions, skip_paths_data
from depthscope.quantities import QUANTITIES

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing


@dataclass(frozen=True, kw_only=True)
class Panel:
    """The numbers of one panel, and what they were asked for with."""

    figure: str
    """Name of the figure whose data function gave the numbers, as `depthscope.figures.FIGURES` knows it."""
    options: Any
    data: Labelled


@dataclass(frozen=True, kw_only=True)
class PaperFigure:
    """A figure as it is exported: one panel or several, drawn on one sheet."""

    shows: str
    options: type[Any]
    """What its panels are asked for with."""
    parts: Callable[[Mapping[str, Any]], Mapping[str, tuple[str, Any]]]
    """From the options given to (figure, options) of each panel, by panel name."""
    renderer: str
    """``module:function``, imported on drawing."""
    quantities: bool = False
    """Whether `quantity` may name several, separated by commas."""


_DATA: Mapping[str, Callable[[Sequence[ReadableRun], Any], Labelled]] = {
    "loss": loss_data,
    "depth-profile": depth_profile_data,
    "depth-map": depth_map_data,
    "depth-attention": depth_attention_data,
    "block-boundaries": block_boundaries_data,
    "skip-paths": skip_paths_data,
    "effects": effects_data,
    "lens": lens_data,
    "mixing": mixing_data,
    "outer-state": outer_state_data,
}


def _profile_parts(given: Mapping[str, Any]) -> dict[str, tuple[str, Any]]:
    """The panels of the page: loss, state and gradient. Where quantities are given, these; ``loss`` may be one."""
    more = {key: value for key, value in given.items() if key not in ("quantity", "mode")}
    mode = given.get("mode", "absolute")
    if "quantity" in given:
        wanted = [(name.strip(), mode) for name in str(given["quantity"]).split(",")]
    else:
        wanted = [("loss", mode), *profile_panels(ProfileOptions().quantity, mode)]
    return {
        quantity_shown(name, chosen) if name != "loss" else name: ("loss", LossOptions())
        if name == "loss"
        else ("depth-profile", ProfileOptions(quantity=name, mode=chosen, **more))
        for name, chosen in wanted
    }


def _boundary_parts(given: Mapping[str, Any]) -> dict[str, tuple[str, Any]]:
    """All four panels, unless one is asked for."""
    shows = [given["show"]] if "show" in given else SHOWS
    return {show: ("block-boundaries", BoundaryOptions(**{**given, "show": show})) for show in shows}


def _lens_parts(given: Mapping[str, Any]) -> dict[str, tuple[str, Any]]:
    """All lenses but the loss, which goes as the KL does, unless one is asked for."""
    shows = [given["show"]] if "show" in given else [show for show in LENS_SHOWS if show != "loss"]
    return {show: ("lens", LensOptions(**{**given, "show": show})) for show in shows}


def _one(figure: str, options: type[Any]) -> Callable[[Mapping[str, Any]], Mapping[str, tuple[str, Any]]]:
    return lambda given: {figure: (figure, options(**given))}


PAPER_FIGURES: Mapping[str, PaperFigure] = MappingProxyType(
    {
        "depth-profile": PaperFigure(
            shows="validation loss, state and gradient over depth (Figure 5 of Attention Residuals)",
            options=ProfileOptions,
            parts=_profile_parts,
            renderer="depth_profile_paper:depth_profile_paper",
            quantities=True,
        ),
        "depth-map": PaperFigure(
            shows="a quantity over sublayers and steps, one map a run",
            options=MapOptions,
            parts=_one("depth-map", MapOptions),
            renderer="depth_map_paper:depth_map_paper",
        ),
        "depth-attention": PaperFigure(
            shows="weight and contribution of every source in every read (Figure 8 of Attention Residuals)",
            options=DepthAttentionOptions,
            parts=_one("depth-attention", DepthAttentionOptions),
            renderer="depth_attention_paper:depth_attention_paper",
        ),
        "block-boundaries": PaperFigure(
            shows="the state by position in block, and what changes at block boundaries",
            options=BoundaryOptions,
            parts=_boundary_parts,
            renderer="block_boundaries_paper:block_boundaries_paper",
        ),
        "skip-paths": PaperFigure(
            shows="arcs from distant sources to the sublayers that weight them above uniform",
            options=SkipPathOptions,
            parts=_one("skip-paths", SkipPathOptions),
            renderer="skip_paths_paper:skip_paths_paper",
        ),
        "effects": PaperFigure(
            shows="what cutting each source does to the loss, against its weight and as a map",
            options=EffectsOptions,
            parts=_one("effects", EffectsOptions),
            renderer="effects_paper:effects_paper",
        ),
        "lens": PaperFigure(
            shows="logit lens, block influence, direct logit attribution and CKA over depth",
            options=LensOptions,
            parts=_lens_parts,
            renderer="lens_paper:lens_paper",
        ),
        "mixing": PaperFigure(
            shows="what every read is made of, by origin, one signed map a run",
            options=MixingOptions,
            parts=_one("mixing", MixingOptions),
            renderer="mixing_paper:mixing_paper",
        ),
        "outer-state": PaperFigure(
            shows="energy, write ratio, gates and extra dimensions of a wide state, by block",
            options=OuterStateOptions,
            parts=_one("outer-state", OuterStateOptions),
            renderer="outer_state_paper:outer_state_paper",
        ),
    }
)
DRAWING_OPTIONS = ("log", "scale")
"""Options of every renderer: a log axis or colour scale, and ``shared``, ``full`` or ``own`` colour range."""


def paper_panels(name: str, runs: Sequence[ReadableRun], **options: Any) -> dict[str, Panel]:
    """Return the panels of paper figure `name` that have something to draw, by name.

    `options` are those of the figure's options class. KeyError for an unknown figure or quantity, TypeError for
    an unknown option, ValueError for a value that makes no sense and when no panel has anything to draw: then it
    gives each run's reason.
    """
    chosen = look_up_paper(name)
    _check(name, chosen, options)
    panels = {
        panel: Panel(
            figure=figure,
            options=asked,
            data=_with_baseline(_without_empty(_DATA[figure](runs, asked), asked)),
        )
        for panel, (figure, asked) in chosen.parts(options).items()
    }
    drawn = {panel: entry for panel, entry in panels.items() if entry.data.arrays}
    if not drawn or _only_baseline(panels.values()):
        raise NothingToDraw(name, panels)
    return drawn


def _without_empty(data: Labelled, asked: Any) -> Labelled:
    """Leave out runs that had no record yet at the step asked for: the screen shows them empty, paper cannot."""
    early = [
        run
        for run, array in data.arrays.items()
        if "moment" in array.dims and int(array["step"].values[0]) == NO_STEP
    ]
    if not early:
        return data
    reason = f"no record at or before step {asked.step}"
    return replace(
        data,
        arrays={run: array for run, array in data.arrays.items() if run not in early},
        absent={**data.absent, **dict.fromkeys(early, reason)},
    )


def _with_baseline(data: Labelled) -> Labelled:
    """Give the reason of a baseline that its own difference does not show."""
    baseline = _baseline(data)
    if baseline is None or baseline in data.arrays or baseline in data.absent:
        return data
    return replace(data, absent={**data.absent, baseline: "it is the baseline"})


def _only_baseline(panels: Iterable[Panel]) -> bool:
    """Return whether these are differences of which nothing but the baseline itself is left."""
    found = [panel.data for panel in panels if _baseline(panel.data) is not None]
    return bool(found) and all(set(data.arrays) <= {_baseline(data)} for data in found)


def _baseline(data: Labelled) -> str | None:
    """Return the id of the run that `data` are differences to; None where they are none."""
    return data.attributes.get("baseline") if data.attributes.get("mode") == "difference" else None


class NothingToDraw(ValueError):
    """None of the runs has what a figure shows; the text gives each run's reason."""

    def __init__(self, name: str, panels: Mapping[str, Panel]) -> None:
        reasons: dict[str, str] = {}
        for panel in reversed(list(panels.values())):
            reasons |= {panel.data.names[run]: reason for run, reason in panel.data.absent.items()}
        alone = "a difference needs a second run" if _only_baseline(panels.values()) else "no runs were given"
        told = "\n".join(f"  {run}: {reason}" for run, reason in reasons.items()) or f"  {alone}"
        super().__init__(f"figure {name!r} has nothing to draw:\n{told}")


def draw_paper(
    name: str,
    panels: Mapping[str, Panel],
    *,
    width: float,
    look: Look | None = None,
    order: Sequence[str],
    log: bool | None = None,
    scale: Range = "shared",
) -> Drawing:
    """Return the panels drawn by matplotlib on a sheet `width` inches wide; call it within `type_settings`.

    `order` holds the ids of all runs: run n has colour n. `log` None: as the figure is drawn by default.
    ImportError without matplotlib.
    """
    if scale not in RANGES:
        raise ValueError(f"scale is {scale!r}; expected one of {', '.join(RANGES)}")
    from depthscope.figures.paper import Sheet

    names: dict[str, str] = {}
    for panel in panels.values():
        names |= panel.data.names
    sheet = Sheet(width=width, look=look or Look(), order=order, names=names)
    module, _, function = look_up_paper(name).renderer.partition(":")
    draw = getattr(import_module(f"depthscope.figures.{module}"), function)
    chosen: dict[str, Any] = {} if log is None else {"log": log}
    if name != "depth-profile":
        chosen["scale"] = scale
    drawing: Drawing = draw({panel: entry.data for panel, entry in panels.items()}, sheet, **chosen)
    return drawing


def look_up_paper(name: str) -> PaperFigure:
    """Return the paper figure called `name`; KeyError suggests the closest."""
    try:
        return PAPER_FIGURES[name]
    except KeyError:
        close = get_close_matches(name, PAPER_FIGURES, n=1, cutoff=0.4)
        hint = f"did you mean {close[0]!r}? " if close else ""
        raise KeyError(f"no figure is called {name!r}; {hint}There are {', '.join(PAPER_FIGURES)}") from None


def _check(name: str, chosen: PaperFigure, options: Mapping[str, Any]) -> None:
    known = [field.name for field in fields(chosen.options)]
    unknown = sorted(set(options) - set(known))
    if unknown:
        raise TypeError(
            f"figure {name!r} has no option {unknown[0]!r}; it takes {', '.join([*known, *DRAWING_OPTIONS])}"
        )
    if "quantity" not in options:
        return
    names = str(options["quantity"]).split(",") if chosen.quantities else [str(options["quantity"])]
    for quantity in (entry.strip() for entry in names):
        if quantity == "loss" and len(names) > 1:  # beside a profile the loss is a panel of its own
            continue
        if quantity not in QUANTITIES:
            close = get_close_matches(quantity, QUANTITIES, n=3, cutoff=0.4)
            hint = f"did you mean {', '.join(close)}?" if close else "docs/quantities.md lists them."
            raise KeyError(f"no quantity is called {quantity!r}; {hint}")
        dims = QUANTITIES[quantity].dims
        if dims != ("layer",):
            over = ", ".join(dims) or "nothing but step"
            raise ValueError(f"{quantity} is over {over}; figure {name!r} shows quantities over sublayers")
