"""Checks for those who extend or trust the recording: a probe of one's own, a training step of one's own."""

from depthscope.testing.probe_check import Disagreement, ProbeCheck, ProbeError, check_probe

__all__ = ["Disagreement", "ProbeCheck", "ProbeError", "check_probe"]
