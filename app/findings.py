"""The findings line: one sentence at a time about the selected runs, with a link to its evidence."""

from __future__ import annotations

import hashlib
import logging
import threading
from collections.abc import Hashable, Sequence
from itertools import zip_longest
from typing import Any

from dash import html

from depthscope.analysis import Finding, findings
from depthscope.app.reading import CachedRun
from depthscope.app.state import LAYER_QUANTITIES
from depthscope.store import RunError

logger = logging.getLogger("depthscope.app")
_MOST = 24
_ALL = "run"
"""The page of one run shows all its findings."""
_MOST_KEPT = 400
_KEPT: dict[Hashable, tuple[Finding, ...]] = {}
_LOCK = threading.Lock()
_EVIDENCE_PAGE = {"paths": "attention"}
"""Pages that show the evidence of another page in their own way."""


def finding_rows(runs: Sequence[CachedRun], base: str | None, page: str) -> list[Any]:
    """Return one row a finding of `page`, warnings first, then one of each run in turn."""
    baseline = next((run for run in runs if run.id == base), None)
    wanted = _EVIDENCE_PAGE.get(page, page)
    by_run = [
        [
            (run, finding)
            for finding in findings_of(run, baseline)
            if page == _ALL or finding.page in (page, wanted)
        ]
        for run in runs
    ]
    turns = [pair for turn in zip_longest(*by_run) for pair in turn if pair is not None]
    turns.sort(key=lambda pair: pair[1].severity != "warning")
    return [_row(run, finding) for run, finding in turns[:_MOST]]


def finding_key(run: CachedRun, finding: Finding) -> str:
    """Return what a finding is known by on the page: it stays while the finding's numbers change."""
    place = [finding.values.get(name) for name in ("target", "source", "layer", "control")]
    about = (finding.kind, finding.page, finding.quantity, *place)
    return f"{run.id}-{hashlib.sha256(repr(about).encode()).hexdigest()[:8]}"


def findings_of(run: CachedRun, baseline: CachedRun | None) -> Sequence[Finding]:
    """Return a run's findings beside the baseline's; those of a run without new rows are kept."""
    other = None if baseline is None or baseline.id == run.id else baseline
    try:
        key = tuple(
            (read.id, read.name, read.version(), read.sweep_marks())
            for read in (run, other)
            if read is not None
        )
        with _LOCK:
            kept = _KEPT.get(key)
        if kept is None:
            kept = tuple(findings(run.run, None if other is None else other.run))
            with _LOCK:
                _KEPT[key] = kept
                while len(_KEPT) > _MOST_KEPT:
                    _KEPT.pop(next(iter(_KEPT)))
    except (RunError, OSError) as error:
        logger.warning("no findings for %s: %s", run.name, error)
        # A damaged baseline costs the comparison, not the run's own findings.
        return () if other is None else findings_of(run, None)
    return kept


def evidence(run: CachedRun, finding: Finding) -> Any:
    """Return the button that leads to the page, the step and the quantity or cell behind a finding."""
    where = {
        "data-action": "evidence",
        "data-page": finding.page,
        "data-step": str(finding.step),
        "data-run": run.id,
        "data-finding": finding_key(run, finding),
    }
    if finding.quantity in LAYER_QUANTITIES:
        where["data-metric"] = finding.quantity
    target, source = finding.values.get("target"), finding.values.get("source")
    if isinstance(target, int) and isinstance(source, int):
        where["data-cell"] = f"{run.id}:{target}:{source}"
    return html.Button(f"Evidence, step {finding.step}", type="button", className="link", **where)


def _row(run: CachedRun, finding: Finding) -> html.Div:
    whole = "\n".join(filter(None, (finding.sentence, finding.detail)))
    sentence = html.Span(
        [html.Strong(finding.run_name), f": {finding.text}"], className="sentence", title=whole
    )
    return html.Div(
        [sentence, evidence(run, finding)],
        className=f"finding {finding.severity}",
        hidden=True,
        **{"data-finding": finding_key(run, finding)},
    )
