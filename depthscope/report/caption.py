"""The caption of an exported figure: quantity, norm, reduction, steps, block size, seeds, and how to read it.

Sentences hold formulas between guillemets; `plain` and `latex` turn them into text for a page and for a paper.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import numpy as np
import xarray as xr

from depthscope.analysis import THE_LINE
from depthscope.figures import (
    LENS_VIEWS,
    PAPER_FIGURES,
    Panel,
    ReadableRun,
    drawn_as_map,
    is_signed,
    left_out_words,
    lens_words,
    quantity_shown,
    recorded_steps,
    runs_words,
    sampled_words,
)
from depthscope.quantities import QUANTITIES
from depthscope.report.effects_caption import effect_sentence, measured_sentences
from depthscope.report.latex import escaped, mathematics
from depthscope.report.mixing_caption import reading_sentences, shares_sentence
from depthscope.report.profile_caption import unseen_sentences

WEIGHTS_ONLY = "Weights describe routing; only an intervention shows an effect."
_NORM = "«||x||» is the L2 norm of one token's vector, «d» the width."
_RMS = "rms is the root mean square over tokens and features."
_RAW = (
    "A design that rescales its states rescales this gradient: across designs compare gradient times write."
)
_RAW_GRADIENTS = frozenset({"grad_write_rms", "grad_read_rms", "grad_state_rms"})
_HOW_TO_READ = {
    "depth-profile": "Marks, where there is room for them: attention filled, MLP hollow.",
    "depth-map": "Depth runs downward.",
    "depth-attention": "Rows are reads, the last the final one; hatched: what a read cannot reach.",
    "block-boundaries": "",
    "skip-paths": "The width of an arc is its weight; numbers are weight (contribution).",
    "mixing": "A row is one read, the last the final one; emb: the embedding, const: the biases of the design.",
    "lens": "",
    "effects": "Maps: rows are reads, the last the final one.",
    "outer-state": "",
}


def sentences(
    name: str,
    panels: Mapping[str, Panel],
    runs: Sequence[ReadableRun],
    *,
    paper: bool = True,
    log: bool = True,
    notes: Sequence[str] = (),
) -> list[str]:
    """Return the caption of figure `name`; `notes` are added, as how a colour range was chosen.

    `paper`: as the figure is drawn on paper, so its marks are explained. `log`: whether it was asked for with log axes.
    """
    told = {run for panel in panels.values() for run in panel.data.arrays} | {
        panel.data.attributes.get("baseline")
        for panel in panels.values()
        if panel.data.attributes.get("mode") == "difference"
    }
    drawn = [run for run in runs if run.id in told]
    letters = letters_of(name, panels)
    out = []
    if "loss" in panels or name not in ("depth-profile", "depth-map"):
        out.append(_sentence(PAPER_FIGURES[name].shows.partition(" (")[0]))
    out += [
        _panel(panel, letters.get(key, ""))
        for key, panel in panels.items()
        if name not in ("skip-paths", "outer-state")
    ]
    if name == "skip-paths":
        out.append(
            "A skip path is a source at distance 2 or more, of a target with four sources or more, whose mean "
            "weight over the last tenth of records is at least twice uniform and at least 0.1, and is above that "
            "in 90 % of them. Numbers stand where there is room. Weight: «mean_t alpha_{i->l}»; contribution: "
            "«mean_t alpha_i <v_i, h_l> / ||h_l||^2»; mean over all tokens."
        )
    if name == "outer-state":
        out.append(
            "Energies are those of «h_{b-1} + W_b Phi_b» before the boundary norm, of «h_{b-1}» (carry) and of "
            "«W_b Phi_b» (write), each «||x||^2 / D», mean over all tokens; the carry is set by the norm for "
            "«b» above 1."
        )
    formulas = " ".join(out)
    if "||" in formulas:
        out.append(_NORM)
    if "rms(" in formulas:
        out.append(_RMS)
    raw = any(panel.data.attributes["quantity"] in _RAW_GRADIENTS for panel in panels.values())
    if raw and len({run.layout.design for run in drawn}) > 1:
        out.append(_RAW)
    out.append(_HOW_TO_READ[name] if paper else "")
    if name == "depth-profile":
        out += unseen_sentences(panels, log=log)
    out.append(_bands(name, panels))
    out += list(notes)
    if name in ("depth-attention", "skip-paths"):
        out.append(WEIGHTS_ONLY)
    if name == "mixing":
        out += reading_sentences(panels)
    if name == "block-boundaries":
        out += [THE_LINE, _control(panels)]
    if name == "effects":
        out += [WEIGHTS_ONLY, *measured_sentences(panels), _runs(drawn), _seeds(drawn)]
    elif name == "lens":
        out += [_measured(panels), _runs(drawn), _seeds(drawn)]
    else:
        out += [_runs(drawn), _steps(panels) or _records(panels, drawn), _seeds(drawn)]
    return [sentence for sentence in out if sentence]


def plain(text: str) -> str:
    """Return caption text with its formulas as they stand."""
    return text.replace("«", "").replace("»", "")


def latex(text: str) -> str:
    """Return caption text as LaTeX."""
    parts = re.split(r"«(.*?)»", text)
    return "".join(mathematics(part) if place % 2 else escaped(part) for place, part in enumerate(parts))


def letters_of(name: str, panels: Mapping[str, Panel]) -> dict[str, str]:
    """Return the letter that the figure writes on a panel that stands for one quantity."""
    if name == "depth-profile" and len(panels) > 1:
        return dict(zip(panels, "abcdefghijkl", strict=False))
    if name == "lens" and len(panels) > 1:
        return dict(zip(panels, "abcdef", strict=False))
    if name == "block-boundaries":
        folded = len(panels["folded"].data.arrays) if "folded" in panels else 0
        if not 2 <= folded + len(panels) - ("folded" in panels) <= 26:
            return {}
        others = [key for key in panels if key != "folded"]
        found = {key: "abcdefghijklmnopqrstuvwxyz"[folded + place] for place, key in enumerate(others)}
        return ({"folded": "a" if folded == 1 else f"a–{chr(96 + folded)}"} if folded else {}) | found
    return {}


def _panel(panel: Panel, letter: str) -> str:
    data = panel.data
    head = f"({letter}) " if letter else ""
    title = data.attributes["title"]
    entry = QUANTITIES.get(quantity_shown(data.attributes["quantity"], "absolute"))
    if panel.figure == "lens":
        return f"{head}{LENS_VIEWS[panel.options.show].says}."
    if panel.figure == "effects":
        return effect_sentence(panel)
    if panel.figure == "loss" or entry is None:
        return f"{head}{title} in nats per token, at the recorded steps."
    if panel.figure == "block-boundaries" and panel.options.show != "folded":
        return f"{head}{_BOUNDARY[panel.options.show]}"
    if panel.figure == "mixing":
        return shares_sentence(panel)
    if panel.figure == "depth-attention":
        return (
            "Weight: «mean_t alpha_{i->l}»; contribution: «mean_t alpha_i <v_i, h_l> / ||h_l||^2»; "
            f"mean over all tokens of the optimizer step{_view(panel)}."
        )
    shown = (
        f"the exponential of «{entry.formula}»" if entry.units.startswith("log(") else f"«{entry.formula}»"
    )
    mode = {
        "ratio": ", over the first sublayer's",
        "difference": f", {_difference(panel)} {data.names.get(data.attributes.get('baseline') or '', 'the baseline')}",
    }.get(data.attributes["mode"], "")
    when = f", {entry.when}" if entry.when else ""
    sampled = f" ({sampled_words(data)})" if sampled_words(data) else ""
    return f"{head}{title}: {entry.long_name}, {shown}, {entry.reduction}{sampled}{when}{mode}."


_BOUNDARY = {
    "sums": "rms of the state «b_n» after the last sublayer of each residual block.",
    "reset": "State rms before a block boundary over that after the first transformer block behind it, over the "
    "same ratio for uncorrelated writes (roots of the sums of their squares).",
    "read": "rms of the first read of a block over that of the last read before it.",
}


def _difference(panel: Panel) -> str:
    return "minus that of" if is_signed(panel.data.attributes["quantity"]) else "log2 of the ratio to that of"


def _view(panel: Panel) -> str:
    return {
        "spread": "; in place of the weight its standard deviation over tokens",
        "uniform": "; both minus one over the number of sources",
        "local": "; each read's newest source and the embedding are hidden",
        "difference": "; minus those of the reference",
    }.get(panel.options.view, "")


def _bands(name: str, panels: Mapping[str, Panel]) -> str:
    """Say what marks depth beside the lines: bands, or how lines of blocks are told apart."""
    if name == "block-boundaries":
        mapped = "folded" in panels and drawn_as_map(panels["folded"].data)
        told = [left_out_words(panel.data) for panel in panels.values()]
        some = "; ".join(dict.fromkeys(filter(None, told)))
        return " ".join(
            filter(
                None,
                (
                    "Colour: one row a block, the first on top." if mapped else "",
                    "Lines: the later in depth, the thicker; numbers at them count blocks and boundaries.",
                    f"Drawn over steps: {some}." if some else "",
                ),
            )
        )
    for panel in panels.values():
        banded = [run for run in panel.data.attributes.get("banded", ()) if run in panel.data.arrays]
        if banded:
            whose = runs_words([panel.data.names[run] for run in banded])
            return f"Shaded: every second residual block of {whose}."
    return ""


def _control(panels: Mapping[str, Panel]) -> str:
    controls = {
        panel.data.names[run]
        for panel in panels.values()
        for run, array in panel.data.arrays.items()
        if array.attrs["control"]
    }
    if not controls:
        return ""
    return (
        f"Control {', '.join(sorted(controls))}, in grey, has no residual blocks: its writes are summed over the same "
        "sublayers as if uncorrelated, the root of the sum of «rms(f_l)^2»."
    )


def _measured(panels: Mapping[str, Panel]) -> str:
    """Say at which step each run was looked into, and on how many batches."""
    told = {
        panel.data.names[run]: lens_words(array)
        for panel in panels.values()
        for run, array in panel.data.arrays.items()
        if "interval" in array.coords or len(panels) == 1
    }
    if len(set(told.values())) == 1:
        return _sentence(next(iter(told.values())))
    return _sentence("; ".join(f"{name}: {words}" for name, words in told.items()))


def _runs(runs: Sequence[ReadableRun]) -> str:
    told = []
    for run in runs:
        layout = run.layout
        words = [str(run.config.get("kind") or layout.design), f"{layout.layers} sublayers"]
        sizes = [layout.residual_block.count(block) for block in dict.fromkeys(layout.residual_block)]
        if 0 not in layout.residual_block and len(sizes) > 1:
            size = (
                f"of {sizes[0]} sublayers"
                if len(set(sizes[:-1])) == 1
                else f"of {min(sizes)} to {max(sizes)} sublayers"
            )
            words.append(f"{len(sizes)} residual blocks {size}")
        told.append(f"{run.name} ({', '.join(words)})")
    return f"Runs: {'; '.join(told)}."


def _steps(panels: Mapping[str, Panel]) -> str:
    found: dict[str, dict[str, None]] = {}
    for panel in panels.values():
        for run, array in panel.data.arrays.items():
            found.setdefault(panel.data.names[run], {})[step_words(array)] = None
    told = {name: " and ".join(filter(None, words)) for name, words in found.items()}
    told = {name: words for name, words in told.items() if words}
    if not told:
        return ""
    if len(set(told.values())) == 1:
        return _sentence(next(iter(told.values())))
    return f"Shown: {'; '.join(f'{name} at {words}' for name, words in told.items())}."


def _records(panels: Mapping[str, Panel], runs: Sequence[ReadableRun]) -> str:
    """Say up to which step the records of a figure go that shows no single row."""
    told = {}
    for run in runs:
        steps = recorded_steps(run, "depth_attention")
        asked = next(iter(panels.values())).options.step
        told[run.name] = int(steps[steps <= asked][-1] if asked is not None else steps[-1])
    if len(set(told.values())) == 1:
        return f"Records up to step {next(iter(told.values()))}."
    return f"Records up to {'; '.join(f'step {step} in {name}' for name, step in told.items())}."


def step_words(array: xr.DataArray) -> str:
    """Return which steps an array holds: ``step 300``, ``steps 0 to 300``."""
    if "step_start" in array.coords:
        return f"steps {int(array['step_start'].values[0])} to {int(array['step_end'].values[-1])}"
    if "point" in array.dims or "step" not in array.coords:
        return ""
    steps = [int(step) for step in np.atleast_1d(array["step"].values) if step >= 0]
    return f"step{'s' if len(steps) > 1 else ''} {', '.join(map(str, steps))}"


def _seeds(runs: Sequence[ReadableRun]) -> str:
    seeds = {run.name: run.config.get("seed") for run in runs}
    known = {str(seed) for seed in seeds.values()}
    if known == {"None"}:
        return "Seeds are not recorded."
    if len(known) == 1:
        return f"Seed {known.pop()}" + (" in each run." if len(seeds) > 1 else ".")
    told = ", ".join(f"{name} {'not recorded' if seed is None else seed}" for name, seed in seeds.items())
    return f"Seeds: {told}."


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."
