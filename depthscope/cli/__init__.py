"""The command line: one file a subcommand, heavy imports inside the one that needs them."""

from depthscope.cli.program import main

__all__ = ["main"]
