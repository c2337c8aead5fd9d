"""What recording costs: the same loop plain and recorded, in one process, interleaved.

    python benchmarks/overhead.py [--pairs 30] [--small]

Each pair runs a few steps of the plain loop and as many of the recorded one, in alternating order, on process CPU
time. Printed: the median of the paired ratios, and the 95 % interval of that median.
"""

from __future__ import annotations

import argparse
import math
import platform
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import nn

from depthscope.models import Decoder, DecoderConfig, residual_from_string
from depthscope.recording import Recorder

SIZES = {
    "12 transformer blocks, d 256, 8 x 128": (24, 256, 8, 128),
    "2 transformer blocks, d 64, 8 x 64": (4, 64, 8, 64),
}
STEPS = {256: 2, 64: 20}


class Loop:
    """One copy of the model and its optimizer; `every` None runs without a recorder."""

    def __init__(self, design: str, size: tuple[int, int, int, int], every: int | None, folder: Path) -> None:
        layers, width, self.batch, self.time = size
        torch.manual_seed(0)
        config = DecoderConfig(vocabulary=256, width=width, layers=layers, heads=4, context=self.time)
        self.model = Decoder(config, residual_from_string(design, config))
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=3e-4)
        self.generator = torch.Generator().manual_seed(1)
        self.recorder = None
        self.calls = 0
        if every is not None:
            self.recorder = Recorder(
                self.model, folder, optimizer=self.optimizer, every={"fast": every, "slow": 100}
            )

    def run(self, steps: int) -> float:
        """Return the process CPU seconds of `steps` training steps."""
        started = time.process_time()
        for _ in range(steps):
            ids = torch.randint(0, 256, (self.batch, self.time + 1), generator=self.generator)
            loss = nn.functional.cross_entropy(self.model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
            loss.backward()
            self.optimizer.step()
            self.optimizer.zero_grad()
            if self.recorder is not None:
                self.recorder.step(loss=loss.detach())
                self.calls += 1
        return time.process_time() - started


def interval(ratios: list[float]) -> tuple[float, float, float]:
    """Return the median and the distribution-free 95 % interval of the median (order statistics)."""
    ordered = sorted(ratios)
    reach = 0.98 * math.sqrt(len(ordered))
    low = max(0, math.floor(len(ordered) / 2 - reach))
    high = min(len(ordered) - 1, math.ceil(len(ordered) / 2 + reach))
    return statistics.median(ordered), ordered[low], ordered[high]


def compare(plain: Loop, recorded: Loop, pairs: int, steps: int) -> tuple[float, float, float]:
    """Interleave the two loops and return the interval of the paired ratio."""
    plain.run(steps)
    recorded.run(steps)
    ratios = []
    for pair in range(pairs):
        order: list[Callable[[int], float]] = [plain.run, recorded.run]
        times = [run(steps) for run in (order if pair % 2 == 0 else order[::-1])]
        before, after = times if pair % 2 == 0 else times[::-1]
        ratios.append(after / before)
    return interval(ratios)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pairs", type=int, default=30)
    parser.add_argument(
        "--small", action="store_true", help="only the small model, where fixed costs dominate"
    )
    options = parser.parse_args()
    torch.set_num_threads(1)
    print(f"torch {torch.__version__}, numpy {np.__version__}, Python {platform.python_version()}, 1 thread")
    print(f"{'design':<18}{'size':<42}{'every':>6}{'ratio':>9}{'95 % interval':>18}")
    for name, size in SIZES.items():
        if options.small and size[1] != 64:
            continue
        for design in ("prenorm", "block-attnres:S=4"):
            for every in (1, 50):
                folder = Path(tempfile.mkdtemp(prefix="depthscope-overhead-"))
                plain, recorded = Loop(design, size, None, folder), Loop(design, size, every, folder / "run")
                median, low, high = compare(plain, recorded, options.pairs, STEPS[size[1]])
                assert recorded.recorder is not None
                recorded.recorder.close()
                due = math.ceil(recorded.calls / every)
                rows = recorded.recorder.report().rows
                assert rows == due, f"{rows} rows recorded where {due} were due"
                shutil.rmtree(folder)
                print(
                    f"{design:<18}{name:<42}{every:>6}{median:>9.3f}{f'{low:.3f} to {high:.3f}':>18}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
