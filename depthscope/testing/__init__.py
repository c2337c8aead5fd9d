"""Checks for those who extend or trust the recording: a probe of one's own, a training step of one's own."""

from depthscope.testing.probe_check import Disagreement, ProbeCheck, ProbeError, check_probe
from depthscope.testing.setup import Setup, SetupError, setup_of
from depthscope.testing.verification import Comparison, Verification, verify_step

__all__ = [
    "Comparison",
    "Disagreement",
    "ProbeCheck",
    "ProbeError",
    "Setup",
    "SetupError",
    "Verification",
    "check_probe",
    "setup_of",
    "verify_step",
]
