"""`depthscope watch`: follows runs and speaks up when something goes wrong, for jobs that nobody looks at."""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from depthscope.cli.command import Command
from depthscope.cli.errors import UsageError
from depthscope.cli.options import count
from depthscope.cli.runs import several

if TYPE_CHECKING:
    from depthscope.analysis import Alert, AlertRule
    from depthscope.store import Run

ALERT, NOT_LOOKED_AT, ENDED_BADLY = 3, 2, 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("paths", nargs="+", metavar="PATH", help="runs, or folders of runs")
    parser.add_argument(
        "--alert",
        action="append",
        metavar="RULE",
        help="nonfinite, spike, gain, or a comparison such as loss>5 or state_rms/max>1e4 (repeatable; default: "
        "the first three)",
    )
    parser.add_argument("--exec", metavar="COMMAND", help="run this at an alert, the JSON line on its stdin")
    parser.add_argument("--keep-going", action="store_true", help="go on after an alert, until the runs end")
    parser.add_argument("--once", action="store_true", help="look at what is there now, and end")
    parser.add_argument(
        "--poll", type=count, default=2, metavar="SECONDS", help="how often to look (default: 2)"
    )


def run(arguments: argparse.Namespace) -> int:
    from depthscope.analysis import NAMED_RULES, alert_rule
    from depthscope.store import RunError

    try:
        rules = [alert_rule(text) for text in arguments.alert or NAMED_RULES]
    except ValueError as error:
        raise UsageError(f"watch: {error}") from None
    watched = {entry.path: Watched(entry, rules) for entry in several(arguments.paths, "watch")}
    code = 0
    looked_at: set[str] = set()
    while True:
        for entry in list(watched.values()):
            try:
                alerts = entry.look()
            except RunError as error:
                print(f"depthscope: watch: {error}", file=sys.stderr)
                code = max(code, ENDED_BADLY)
                del watched[entry.run.path]
                continue
            for alert in alerts:
                code = ALERT
                _tell(entry.run, alert, arguments.exec)
                if not arguments.keep_going:
                    return code
            if arguments.once or entry.ended:
                code = max(code, entry.end())
                looked_at |= entry.looked_at()
                del watched[entry.run.path]
        if not watched:
            return _of_rules(arguments.alert or [], looked_at, code)
        time.sleep(arguments.poll)


class Watched:
    """One run and what was looked at already."""

    def __init__(self, entry: Run, rules: list[AlertRule]) -> None:
        self.run, self._rules = entry, rules
        self._after: int | None = None
        self._attempts = len(entry.attempts)
        self._version: object = None
        self.ended = False

    def look(self) -> list[Alert]:
        """Return the alerts of rows that came since the last look."""
        version = self.run.version()
        if version == self._version:
            return []
        self._version = version
        # Before the rows are read: what a run that ends now writes last is seen in the next look.
        self.ended = self.run.status != "live"
        if len(self.run.attempts) != self._attempts:
            self._attempts = len(self.run.attempts)
            self._after = min(self._after or 0, self.run.attempts[-1].step - 1)
        until = self.run.last_step
        found = [rule.first(self.run, self._after) for rule in self._rules]
        self._after = until
        return sorted((alert for alert in found if alert is not None), key=lambda alert: alert.step)

    def looked_at(self) -> set[str]:
        """Return the rules of which the run has a quantity."""
        return {rule.text for rule in self._rules if any(name in self.run for name in rule.quantities)}

    def end(self) -> int:
        """Say how the run ended, and which rules had nothing to look at."""
        looked_at = self.looked_at()
        for rule in self._rules:
            if rule.text not in looked_at:
                print(
                    f"depthscope: watch: {self.run.path} has none of {', '.join(rule.quantities)}: the rule "
                    f"{rule.text!r} was not looked at",
                    file=sys.stderr,
                )
        status = self.run.status
        if status == "live":
            return 0
        _print(
            {"run": self.run.name, "path": str(self.run.path), "ended": status, "step": self.run.last_step}
        )
        return 0 if status == "finished" else ENDED_BADLY


def _of_rules(asked: list[str], looked_at: set[str], code: int) -> int:
    """A rule that was asked for and that no run could answer is no all-clear."""
    return code if code or set(asked) <= looked_at else NOT_LOOKED_AT


def _tell(entry: Run, alert: Alert, command: str | None) -> None:
    line = _print({"run": entry.name, "path": str(entry.path), **asdict(alert)})
    if command:
        subprocess.run(command, shell=True, input=line, text=True, check=False)


def _print(fields: dict[str, Any]) -> str:
    plain = {
        key: str(value) if isinstance(value, float) and not math.isfinite(value) else value
        for key, value in fields.items()
    }
    line = json.dumps(plain)
    print(line, flush=True)
    return line


WATCH = Command(
    name="watch",
    summary="follow runs, and end with an alert when something goes wrong",
    description="Follow live runs and print a JSON line at the first value that is not finite, at the first loss far "
    "above its usual course (spike), when the state after some sublayer is ten times its usual size (gain), or by "
    "rules of your own. Exit code: 0 the runs ended well, 1 one was stopped or crashed, 2 the command line was not "
    "understood, or no run has what a rule of yours asks for, 3 an alert.",
    examples=(
        ("depthscope watch runs/block-attnres", "until the run ends, or something goes wrong"),
        (
            "depthscope watch runs/ --alert 'loss>5' --alert 'state_rms/max>1e4' --exec 'mail -s alert me'",
            "rules of your own, and a command at an alert",
        ),
        ("depthscope watch runs/ --once --keep-going", "all alerts of what is there now"),
    ),
    add_arguments=add_arguments,
    run=run,
)
