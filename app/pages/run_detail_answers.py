"""Run, the answers: what one run is, holds and lacks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from dash import html

from depthscope.app.answer import Answer
from depthscope.app.panel import empty_words, table_rows
from depthscope.app.reading import CachedRun
from depthscope.app.registry import kind_of
from depthscope.app.state import Ask
from depthscope.app.timeline import segments
from depthscope.figures import shortened
from depthscope.quantities import QUANTITIES
from depthscope.store import attempts_in_words, gaps_in_words

_LONGEST = 160
_WITHOUT_ROWS = {
    "metrics": "empty: the training loop gave none, as recorder.step(metrics={...}) would",
    "evaluation": "empty: the training loop gave none, as recorder.evaluation(validation=loss) would",
}
"""Streams that hold what the training loop chooses to give."""


def about_answer(ask: Ask, runs: Sequence[CachedRun], slots: Mapping[str, int]) -> Answer:
    """Answer for what the run is: design, depth, rows, gaps, rewinds, size, versions."""
    run = _shown(ask, runs)
    layout = run.layout
    blocks = max(layout.transformer_block, default=0)
    stored = run.run
    rows: dict[str, Any] = {
        "design": f"{layout.design} ({kind_of(run.config, layout.design)})",
        "depth": f"{layout.layers} sublayers in {blocks} transformer blocks",
        "found by": str(stored.notes.get("found_by", "–")),
        "status": run.status if run.last_step is None else f"{run.status}, last step {run.last_step:,}",
        "started": started_text(stored.created),
        **{f"stream {name}": _rows(run, name, every) for name, every in run.streams.items()},
        "earlier attempts": _lines(attempts_in_words(stored)),
        "rows lost": _lines(gaps_in_words(stored)),
        "size on disk": size_text(run.bytes_on_disk()),
        "versions": ", ".join(f"{name} {version}" for name, version in stored.versions.items()) or "–",
        **({"recorded as": run.recorded_name} if run.recorded_name != run.name else {}),
        "tags": ", ".join(stored.tags) or "none",
        "notes": "; ".join(map(str, stored.notes.get("notes") or [])) or "none",
    }
    return Answer(title=shortened(run.name, 60), rows=_pairs(rows))


def recorded_answer(ask: Ask, runs: Sequence[CachedRun], slots: Mapping[str, int]) -> Answer:
    """Answer for every quantity that can be read, its definition on hover."""
    run = _shown(ask, runs)
    head = [("quantity", ""), ("what it is", ""), ("over", ""), ("units", ""), ("stream", "")]
    rows: list[list[Any]] = []
    for name in run.quantities:
        stream, _, bare = name.partition("/")
        known = QUANTITIES.get(bare if stream in run.streams and bare else name)
        if known is None:
            rows.append([html.Code(name), "given by the training loop", "step", "", ""])
            continue
        lines = (known.formula, known.reduction, known.note, f"Source: {known.source}")
        title = "\n".join(filter(None, lines))
        over = ", ".join(("step", *known.dims))
        where = "derived" if known.derived else run.stream_of(name)
        rows.append(
            [html.Code(name, title=title), html.Span(known.long_name, title=title), over, known.units, where]
        )
    return Answer(title="Recorded", note=f"{len(rows)} quantities", rows=table_rows(head, rows))


def config_answer(ask: Ask, runs: Sequence[CachedRun], slots: Mapping[str, int]) -> Answer:
    """Answer for the training configuration, nested keys joined by dots."""
    run = _shown(ask, runs)
    pairs = flat(run.config)
    if not pairs:
        words = empty_words("No configuration was given.", "Give one:", "Recorder(..., config={...})")
        return Answer(title="Configuration", empty=words)
    return Answer(title="Configuration", note=f"{len(pairs)} entries", rows=_pairs(pairs))


def missing_answer(ask: Ask, runs: Sequence[CachedRun], slots: Mapping[str, int]) -> Answer:
    """Answer for the quantities that are not there, and why."""
    run = _shown(ask, runs)
    reasons = run.missing
    if not reasons:
        return Answer(title="Not recorded", empty=empty_words("Nothing that was asked for is missing."))
    grouped: dict[str, list[str]] = {}
    for name, reason in reasons.items():
        grouped.setdefault(reason, []).append(name)
    rows = [[reason, html.Span(", ".join(names), className="wrap")] for reason, names in grouped.items()]
    head = [("why", "wrap"), ("quantities", "wrap")]
    return Answer(title="Not recorded", note=f"{len(reasons)} quantities", rows=table_rows(head, rows))


def flat(config: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """Return a nested configuration as dotted keys and texts, long ones cut."""
    out: dict[str, str] = {}
    for key, value in config.items():
        if isinstance(value, Mapping):
            out |= flat(value, f"{prefix}{key}.")
        else:
            text = str(value)
            out[f"{prefix}{key}"] = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
    return out


def started_text(created: str) -> str:
    """Write when a run was created, to the second and in UTC; what cannot be read as it is."""
    try:
        moment = datetime.fromisoformat(created)
    except ValueError:
        return created
    return moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def size_text(size: int) -> str:
    """Write a number of bytes: 512 B, 1.5 MB."""
    value = float(size)
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000 or unit == "GB":
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1000
    raise AssertionError("the last unit returns")


def _shown(ask: Ask, runs: Sequence[CachedRun]) -> CachedRun:
    return next((run for run in runs if run.id == ask.shown), runs[0])


def _rows(run: CachedRun, stream: str, every: Any) -> str:
    with suppress(KeyError):
        steps = run.steps(stream)
        if not steps.size:
            return _WITHOUT_ROWS.get(stream, "no row yet" if run.status == "live" else "no row")
        gaps = len(segments(steps)) - 1 if every not in (None, 0) else 0
        gap = "" if gaps <= 0 else f", spacing changes {gaps} time{'s' if gaps > 1 else ''}"
        # Evaluation and metrics come when the loop has them: no cadence was declared.
        cadence = f", every {every}" if stream in ("fast", "slow") else ""
        return f"{steps.size:,} rows, steps {int(steps[0]):,} to {int(steps[-1]):,}{cadence}{gap}"
    return "–"


def _lines(words: Sequence[str]) -> Any:
    return [html.Div(line) for line in words] or "none"


def _pairs(rows: Mapping[str, Any]) -> list[Any]:
    return [html.Tbody([html.Tr([html.Th(key, scope="row"), html.Td(value)]) for key, value in rows.items()])]
