"""`create_app`: the Dash app over a folder of runs."""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import partial
from pathlib import Path

import flask
from dash import Dash, html

from depthscope.app.callbacks import connect, show_error
from depthscope.app.pages import PAGES
from depthscope.app.questions import check_questions
from depthscope.app.registry import Registry
from depthscope.app.security import access_for, protect
from depthscope.app.shell import shell
from depthscope.figures import TOKENS

_ASSETS = Path(__file__).with_name("assets")
_INDEX = """<!DOCTYPE html>
<html lang="en">
  <head>
    {%metas%}
    <title>{%title%}</title>
    <link rel="icon" type="image/svg+xml" href="__PREFIX__assets/icons/favicon.svg">
    {%css%}
  </head>
  <body>
    {%app_entry%}
    {%config%}
    {%scripts%}
    {%renderer%}
  </body>
</html>
"""


def create_app(
    root: str | os.PathLike[str],
    *,
    host: str = "127.0.0.1",
    prefix: str = "/",
    token: str | None = None,
    allow_hosts: Iterable[str] = (),
) -> Dash:
    """Return the app that shows the runs at or below `root`.

    `host` is the address it will be served at: it decides which names requests may use, and whether a token
    is needed. `prefix` is the path in front of every address behind a proxy, ``/`` or ``/some/path/``.
    The token in use is ``app.server.config["DEPTHSCOPE_TOKEN"]``. RunError when `root` is no folder,
    ValueError for a prefix or a token that cannot be used.
    """
    prefix = checked_prefix(prefix)
    access = access_for(host, token=token, allow_hosts=allow_hosts)
    registry = Registry(Path(root), {page.name: page.lacks for page in PAGES})
    app = Dash(
        "depthscope.app",
        title="depthscope",
        update_title="",
        assets_folder=str(_ASSETS),
        requests_pathname_prefix=prefix,
        routes_pathname_prefix="/",
        external_stylesheets=[f"{prefix}tokens.css"],
        serve_locally=True,
        suppress_callback_exceptions=False,
        add_log_handler=False,
        on_error=partial(show_error, registry),
        enable_mcp=False,
    )
    app.index_string = _INDEX.replace("__PREFIX__", prefix)

    def layout() -> html.Div:
        return shell(PAGES, prefix, registry.catalogue())

    app.layout = layout
    connect(app, registry, PAGES)
    app.server.add_url_rule("/tokens.css", "tokens", lambda: flask.send_file(TOKENS, mimetype="text/css"))

    app.server.config["DEPTHSCOPE_TOKEN"] = access.token
    protect(app, access, prefix)
    check_questions(app)
    return app


def checked_prefix(prefix: str) -> str:
    """Return `prefix` with a slash at both ends; ValueError for one that is no path."""
    path = f"/{prefix.strip('/')}/" if prefix.strip("/") else "/"
    if any(character in path for character in "?#\\<>\"' ") or "//" in path:
        raise ValueError(f"the prefix {prefix!r} is no path; expected something like /proxy/8050/")
    return path
