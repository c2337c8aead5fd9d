"""Everything that needs one CUDA device, in one run of less than eight minutes.

    python -m benchmarks.gpu [--seconds 460] [--json FILE] [--out FOLDER]
    python -m benchmarks.gpu --rehearse

Correctness against fp64, no wait for the device, CUDA graphs, cost at a real size, kernels and bandwidth, and then
three designs trained for the time left, with their figures in the folder. A section that the time does not suffice for
is left out, and that is said. Exit code 1 when a limit is missed or a section fails.

A rehearsal runs the same code on the CPU at small size; what only a device can tell is named and not made up.
"""

from __future__ import annotations

import argparse
import json
import platform
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

import torch

from benchmarks.device.correctness import correctness
from benchmarks.device.cost import cost
from benchmarks.device.cuda_graphs import cuda_graphs
from benchmarks.device.kernels import kernels
from benchmarks.device.setting import Line, Setting
from benchmarks.device.synchronisation import synchronisation
from benchmarks.device.training import training

NEEDED = {
    "correctness": 20,
    "synchronisation": 20,
    "cuda graphs": 20,
    "cost": 60,
    "kernels": 25,
    "training": 40,
}
"""Seconds without which a section is not begun."""


RESERVED = {"cost": 75}
"""Seconds that a section leaves to those behind it."""


class TimeIsUp(BaseException):
    """Passes what catches exceptions on its way, the compiler's handlers too."""


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Stop the body after some seconds, in the middle of a compilation if need be."""

    def stop(*_: object) -> None:
        raise TimeIsUp

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, max(0.1, seconds))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def sections(out: Path) -> dict[str, Callable[[Setting], Iterator[Line]]]:
    """The sections, most valuable first."""
    return {
        "correctness": correctness,
        "synchronisation": synchronisation,
        "cuda graphs": cuda_graphs,
        "cost": cost,
        "kernels": kernels,
        "training": lambda setting: training(setting, out),
    }


def run(setting: Setting, out: Path) -> Iterator[Line]:
    """Yield every line as it comes; a section that fails ends with one line that says why."""
    for name, section in sections(out).items():
        if setting.seconds_left < NEEDED[name] and not setting.rehearsal:
            yield Line(section=name, what="", note=f"left out: {setting.seconds_left:.0f} s are left")
            continue
        started = time.monotonic()
        try:
            with at_most(setting.seconds_left - RESERVED.get(name, 0)):
                yield from section(setting)
        except TimeIsUp:
            yield Line(section=name, what="stopped", note="the time was up")
        except Exception as error:  # noqa: BLE001 - the others still have something to say
            traceback.print_exc()
            text = " ".join(f"{type(error).__name__}: {error}".split())
            yield Line(section=name, what="failed", note=text[:200], held=False)
        yield Line(section=name, what="took", value=time.monotonic() - started, unit="s")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=460.0, help="when to be done")
    parser.add_argument("--json", type=Path, help="where to write the table as JSON")
    parser.add_argument("--out", type=Path, help="folder for runs and figures; a temporary one by default")
    parser.add_argument("--rehearse", action="store_true", help="the same code on the CPU at small size")
    options = parser.parse_args(arguments)
    ends = time.monotonic() + options.seconds
    if not options.rehearse and not torch.cuda.is_available():
        print("this machine has no CUDA device that torch can use; try --rehearse", file=sys.stderr)
        return 2
    folder = Path(tempfile.mkdtemp(prefix="depthscope-gpu-"))
    out = options.out or folder / "out"
    device = torch.device("cpu") if options.rehearse else torch.device("cuda", torch.cuda.current_device())
    machine = {
        "device": "cpu (rehearsal)" if options.rehearse else torch.cuda.get_device_name(device),
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "python": platform.python_version(),
    }
    print(", ".join(f"{name} {value}" for name, value in machine.items()), flush=True)
    lines = []
    try:
        for line in run(Setting(device=device, folder=folder, ends=ends), out):
            print(line, flush=True)
            lines.append(line)
            if options.json:  # after each line: what was measured is there also when the time runs out
                table = {**machine, "lines": [asdict(each) for each in lines]}
                options.json.write_text(json.dumps(table, indent=1) + "\n")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    missed = [line for line in lines if line.held is False]
    print(f"{len(lines)} lines, {len(missed)} missed or failed")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
