"""The findings line: one sentence at a time about the selected runs, with a link to its evidence."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from itertools import zip_longest
from typing import Any

from dash import html

from depthscope.analysis import Finding, findings
from depthscope.app.reading import CachedRun
from depthscope.app.state import LAYER_QUANTITIES
from depthscope.store import RunError

logger = logging.getLogger("depthscope.app")
_MOST = 24
_EVIDENCE_PAGE = {"paths": "attention"}
"""Pages that show the evidence of another page in their own way."""


def finding_rows(runs: Sequence[CachedRun], base: str | None, page: str) -> list[Any]:
    """Return one row a finding of `page`, warnings first, then one of each run in turn."""
    baseline = next((run for run in runs if run.id == base), None)
    by_run = [_of_run(run, baseline, page) for run in runs]
    turns = [pair for turn in zip_longest(*by_run) for pair in turn if pair is not None]
    turns.sort(key=lambda pair: pair[1].severity != "warning")
    return [_row(run, finding) for run, finding in turns[:_MOST]]


def _of_run(run: CachedRun, baseline: CachedRun | None, page: str) -> list[tuple[CachedRun, Finding]]:
    other = None if baseline is None or baseline.id == run.id else baseline.run
    try:
        found = findings(run.run, other)
    except (RunError, OSError) as error:
        logger.warning("no findings for %s: %s", run.name, error)
        return []
    return [(run, finding) for finding in found if finding.page == _EVIDENCE_PAGE.get(page, page)]


def _row(run: CachedRun, finding: Finding) -> html.Div:
    parts: list[Any] = [
        html.Span(
            [html.Strong(finding.run_name), f": {finding.text}"], className="sentence", title=finding.detail
        )
    ]
    evidence = {
        "data-action": "evidence",
        "data-page": finding.page,
        "data-step": str(finding.step),
        "data-run": run.id,
    }
    if finding.quantity in LAYER_QUANTITIES:
        evidence["data-metric"] = finding.quantity
    target, source = finding.values.get("target"), finding.values.get("source")
    if isinstance(target, int) and isinstance(source, int):
        evidence["data-cell"] = f"{run.id}:{target}:{source}"
    if finding.quantity in LAYER_QUANTITIES or finding.page == "attention":
        parts.append(
            html.Button(f"Evidence, step {finding.step}", type="button", className="link", **evidence)
        )
    return html.Div(parts, className=f"finding {finding.severity}", hidden=True)
