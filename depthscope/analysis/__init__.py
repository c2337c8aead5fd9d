"""Numbers drawn from runs: growth, dilution, block boundaries, gradient uniformity, skip paths, outer states.

Receives opened runs of `depthscope.store`; hands `Finding`s and plain numbers to figures, app and cli.
"""

from depthscope.analysis.alert import NAMED_RULES, Alert, AlertRule, alert_rule
from depthscope.analysis.block_boundary import (
    THE_LINE,
    Boundary,
    boundaries,
    construction_ratios,
    read_changes,
    reset_ratios,
)
from depthscope.analysis.block_control import BlockControl, virtual_blocks
from depthscope.analysis.cancellation import CANCELS
from depthscope.analysis.collect import RULES, findings, list_skip_paths, undecided
from depthscope.analysis.disagreement import RULE_IN_WORDS, disagreements
from depthscope.analysis.finding import Finding, Severity, Value
from depthscope.analysis.path_effect import (
    PathEffect,
    effect_map,
    effects_over_steps,
    path_effects,
    rank_correlation,
    steps_apart,
    widest_paths,
)
from depthscope.analysis.readable import ReadableRun
from depthscope.analysis.rule import Rule, one_stream, restarts
from depthscope.analysis.skip_path import SkipPath
from depthscope.analysis.sweep_choice import LENS, MODES, SOURCES, chosen_sweep

__all__ = [
    "CANCELS",
    "LENS",
    "MODES",
    "NAMED_RULES",
    "RULES",
    "RULE_IN_WORDS",
    "SOURCES",
    "THE_LINE",
    "Alert",
    "AlertRule",
    "BlockControl",
    "Boundary",
    "Finding",
    "PathEffect",
    "ReadableRun",
    "Rule",
    "Severity",
    "SkipPath",
    "Value",
    "alert_rule",
    "boundaries",
    "chosen_sweep",
    "construction_ratios",
    "disagreements",
    "effect_map",
    "effects_over_steps",
    "findings",
    "list_skip_paths",
    "one_stream",
    "path_effects",
    "rank_correlation",
    "read_changes",
    "reset_ratios",
    "restarts",
    "steps_apart",
    "undecided",
    "virtual_blocks",
    "widest_paths",
]
