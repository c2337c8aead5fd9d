"""The web app: a run drawer, a step bar, and pages over the depth axis of recorded runs."""

from depthscope.app.application import create_app
from depthscope.app.server import DEFAULT_PORT, PortInUse, make_app_server, serve

__all__ = ["DEFAULT_PORT", "PortInUse", "create_app", "make_app_server", "serve"]
