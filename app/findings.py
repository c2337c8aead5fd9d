"""The findings line: one sentence at a time about the selected runs, with a link to its evidence."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from itertools import zip_longest
from typing import Any

from dash import html

from depthscope.analysis import Finding, findings
from depthscope.app.pages.depth_profile import NAME
from depthscope.app.reading import CachedRun
from depthscope.app.state import LAYER_QUANTITIES
from depthscope.store import RunError

logger = logging.getLogger("depthscope.app")
_MOST = 24


def finding_rows(runs: Sequence[CachedRun], base: str | None) -> list[Any]:
    """Return one row a finding, warnings first, then one of each run in turn."""
    baseline = next((run for run in runs if run.id == base), None)
    by_run = [_of_run(run, baseline) for run in runs]
    turns = [pair for turn in zip_longest(*by_run) for pair in turn if pair is not None]
    turns.sort(key=lambda pair: pair[1].severity != "warning")
    return [_row(run, finding) for run, finding in turns[:_MOST]]


def _of_run(run: CachedRun, baseline: CachedRun | None) -> list[tuple[CachedRun, Finding]]:
    others = [] if baseline is None or baseline.id == run.id else [baseline.run]
    for other in (*others, None):  # a damaged baseline costs the comparison, not the run's own findings
        try:
            found = findings(run.run, other)
        except (RunError, OSError) as error:
            logger.warning("no findings for %s: %s", run.name, error)
        else:
            return [(run, finding) for finding in found if finding.page == NAME]
    return []


def _row(run: CachedRun, finding: Finding) -> html.Div:
    parts: list[Any] = [
        html.Span(
            [html.Strong(finding.run_name), f": {finding.text}"], className="sentence", title=finding.detail
        )
    ]
    if finding.quantity in LAYER_QUANTITIES:
        evidence = {
            "data-action": "evidence",
            "data-metric": finding.quantity,
            "data-step": str(finding.step),
            "data-run": run.id,
        }
        parts.append(
            html.Button(f"Evidence, step {finding.step}", type="button", className="link", **evidence)
        )
    return html.Div(parts, className=f"finding {finding.severity}", hidden=True)
