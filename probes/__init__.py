"""Probes: one reduction a file, each pure, each with its merge rules and its host-side finish."""

from depthscope.probes.activation import Activation
from depthscope.probes.depth_attention import DepthAttention
from depthscope.probes.fresh_share import FreshShare
from depthscope.probes.gradient import Gradient
from depthscope.probes.magnitude import Magnitude
from depthscope.probes.outer_state import OuterState
from depthscope.probes.parameter_gradient import ParameterGradient
from depthscope.probes.probe import Array, Merge, Probe, Row, Site, SiteKind, Totals, totals
from depthscope.probes.residual_check import MixCheck, ResidualCheck

__all__ = [
    "Activation",
    "Array",
    "DepthAttention",
    "FreshShare",
    "Gradient",
    "Magnitude",
    "Merge",
    "MixCheck",
    "OuterState",
    "ParameterGradient",
    "Probe",
    "ResidualCheck",
    "Row",
    "Site",
    "SiteKind",
    "Totals",
    "totals",
]
