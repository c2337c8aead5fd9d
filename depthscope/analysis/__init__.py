"""Numbers drawn from runs: growth, dilution, block boundaries, gradient uniformity, skip paths.

Receives opened runs of `depthscope.store`; hands `Finding`s and plain numbers to figures, app and cli.
"""

from depthscope.analysis.collect import RULES, findings, list_skip_paths, undecided
from depthscope.analysis.finding import Finding, Severity, Value
from depthscope.analysis.readable import ReadableRun
from depthscope.analysis.rule import Rule
from depthscope.analysis.skip_path import SkipPath

__all__ = [
    "RULES",
    "Finding",
    "ReadableRun",
    "Rule",
    "Severity",
    "SkipPath",
    "Value",
    "findings",
    "list_skip_paths",
    "undecided",
]
