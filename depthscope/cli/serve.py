"""`depthscope serve`: the web app over a folder of runs."""

from __future__ import annotations

import argparse
import os
import socket
import sys
from functools import partial
from pathlib import Path

from depthscope.cli.command import Command
from depthscope.cli.errors import CliError, UsageError
from depthscope.cli.ls import default_folders
from depthscope.cli.options import port_or_any
from depthscope.cli.runs import existing


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "paths",
        nargs="*",
        metavar="PATH",
        help="a run, or a folder with runs in it or below it (default: runs or demo-runs)",
    )
    parser.add_argument(
        "--host", default="127.0.0.1", metavar="H", help="address to listen at (default: 127.0.0.1)"
    )
    parser.add_argument(
        "--port", type=port_or_any, metavar="P", help="port to listen at; 0: any free one (default: 8050)"
    )
    parser.add_argument(
        "--prefix",
        default="/",
        metavar="/PATH/",
        help="path in front of every address, behind a proxy (default: /)",
    )
    parser.add_argument(
        "--token",
        metavar="T",
        help="secret that visitors need when HOST is not loopback (default: a new one)",
    )
    parser.add_argument(
        "--allow-host", action="append", default=[], metavar="NAME", help="a further name the page answers to"
    )


def run(arguments: argparse.Namespace) -> int:
    root = _root(arguments.paths)
    from depthscope.app import DEFAULT_PORT, PortInUse, serve
    from depthscope.store import RunError, run_folders

    number = DEFAULT_PORT if arguments.port is None else arguments.port
    try:
        empty = not run_folders(root)
        serve(
            root,
            host=arguments.host,
            port=number,
            token=arguments.token,
            prefix=arguments.prefix,
            allow_hosts=arguments.allow_host,
            announce=partial(_announce, root=root, empty=empty),
        )
    except PortInUse as error:
        raise CliError(
            f"serve: {error.strerror}.\nType: depthscope serve {root} --port {_next(number)}"
        ) from None
    except OSError as error:
        raise CliError(f"serve: {error.strerror or error}") from None
    except RunError as error:
        raise CliError(f"serve: {error}") from None
    except ValueError as error:  # a prefix or a token that cannot be used
        raise UsageError(f"serve: {error}") from None
    return 0


def _root(texts: list[str]) -> Path:
    """Return the one folder to serve."""
    found = [existing(text, "serve") for text in texts or default_folders("serve")]
    if len(found) > 1:
        above = os.path.commonpath([path.absolute() for path in found])
        raise UsageError(
            f"serve: one folder is served with all runs below it; found {len(found)}: "
            f"{', '.join(map(str, found))}.\nType: depthscope serve {above}"
        )
    if not found[0].is_dir():
        raise UsageError(f"serve: {found[0]} is a file; expected a folder with runs in it.")
    return found[0]


def _announce(address: str, *, root: Path, empty: bool) -> None:
    print(f"depthscope is at {address} (Ctrl-C ends it)", flush=True)
    if empty:
        print(f"depthscope: no run below {root} yet; the page shows runs as they come.", file=sys.stderr)


def _next(number: int) -> int:
    """Return a port near `number` that is free now, 0 (any) when none is."""
    above, below = range(number + 1, min(number + 50, 65536)), range(number - 1, max(number - 50, 1023), -1)
    candidates: list[int] = [*above, *below]
    for candidate in candidates:
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", candidate))
            except OSError:
                continue
        return candidate
    return 0


SERVE = Command(
    name="serve",
    summary="look at runs in the browser, also while they are recorded",
    description="Show the runs below a folder in the browser, also while they grow. Ctrl-C ends it.",
    examples=(
        ("depthscope serve runs/", "at http://127.0.0.1:8050/"),
        ("ssh -L 8050:127.0.0.1:8050 cluster depthscope serve runs/", "runs that lie on another machine"),
        ("depthscope serve runs/ --host 0.0.0.0", "open to the network; the address holds a token"),
        ("depthscope serve runs/ --prefix /proxy/8050/", "behind a Jupyter proxy"),
    ),
    add_arguments=add_arguments,
    run=run,
)
