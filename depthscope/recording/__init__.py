"""The recorder: how a number gets from a tensor to the store without disturbing training."""

from depthscope.recording.recorder import Recorder
from depthscope.recording.report import Report
from depthscope.recording.schedule import Schedule
from depthscope.recording.site_lines import SiteLine
from depthscope.recording.strict import strictly
from depthscope.recording.watched import Rows

__all__ = ["Recorder", "Report", "Rows", "Schedule", "SiteLine", "strictly"]
