"""Probes: one reduction a file, each pure, each with its merge rules and its host-side finish."""

from depthscope.probes.activation import Activation
from depthscope.probes.depth_attention import DepthAttention
from depthscope.probes.fresh_share import FreshShare
from depthscope.probes.gradient import Gradient
from depthscope.probes.magnitude import Magnitude
from depthscope.probes.mixing import Mixing
from depthscope.probes.outer_state import OuterState
from depthscope.probes.parameter_gradient import SCALE, ParameterGradient, l2_norms
from depthscope.probes.probe import (
    Array,
    Merge,
    Probe,
    Row,
    Site,
    SiteKind,
    Totals,
    largest_entry,
    sum_over_tokens,
    totals,
)
from depthscope.probes.registered import checked_probes, definitions_of, faults_of, registered_probes
from depthscope.probes.residual_check import MixCheck, ResidualCheck
from depthscope.probes.token_maps import TokenMaps

__all__ = [
    "SCALE",
    "Activation",
    "Array",
    "DepthAttention",
    "FreshShare",
    "Gradient",
    "Magnitude",
    "Merge",
    "MixCheck",
    "Mixing",
    "OuterState",
    "ParameterGradient",
    "Probe",
    "ResidualCheck",
    "Row",
    "Site",
    "SiteKind",
    "TokenMaps",
    "Totals",
    "checked_probes",
    "definitions_of",
    "faults_of",
    "l2_norms",
    "largest_entry",
    "registered_probes",
    "sum_over_tokens",
    "totals",
]
