"""What recording costs a training loop, ours and other tools', interleaved in one process.

    python -m benchmarks.overhead [--pairs 30] [--peers SITE_PACKAGES] [--size small] [--no-compiled]

Every round runs some steps of the plain loop and as many of each recorded one, in an order that is drawn anew each
round, on process CPU time: of all threads, the drain thread's too, until they rest. Shown is the median over the
rounds of the ratio to the same round's plain steps, and its distribution-free 95 % interval. Each loop has a copy of
the model of its own, on the same data; what each tool recorded is counted and must be what is said of it.

"Every 50" is the ratio of steps that record nothing, plus a fiftieth of what a recorded step costs more: a median over
single steps would not see the recorded ones.

Peers are measured where they are installed, see benchmarks/peers.py. Each size runs in a process of its own, so that no
tool carries anything over.
"""

from __future__ import annotations

import argparse
import math
import os
import platform
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import timeit
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from benchmarks.paired import Interval, interval
from benchmarks.peers import KINDS, Kind, Peer
from depthscope.models import Decoder, DecoderConfig, residual_from_string
from depthscope.recording import Recorder
from depthscope.store import open_run

LIMITS = {"eager": 1.03, "compiled": 1.05, "rarely": 1.005}
OFF_STEP_US, STEP_US = 2.0, 100.0
RARELY = 50
QUIET_SECONDS, QUIET_LOOKS, MOST_LOOKS = 0.01, 3, 300
"""Threads rest where the process worked for less than a tenth of so long, so many times in a row; looks at most."""


@dataclass(frozen=True, kw_only=True)
class Size:
    name: str
    layers: int
    width: int
    batch: int
    context: int
    steps: int
    """Of each loop in one round."""
    limited: bool
    """The limits of recording.md are for this size."""


SIZES = {
    "large": Size(
        name="12 transformer blocks, d 256, 8 x 128",
        layers=24,
        width=256,
        batch=8,
        context=128,
        steps=1,
        limited=True,
    ),
    "small": Size(
        name="2 transformer blocks, d 64, 8 x 64",
        layers=4,
        width=64,
        batch=8,
        context=64,
        steps=20,
        limited=False,
    ),
}


class Loop:
    """One copy of the model in training: plain, or with a recorder or a peer."""

    def __init__(self, size: Size, design: str = "prenorm", *, compiled: bool = False) -> None:
        torch.manual_seed(0)
        config = DecoderConfig(
            vocabulary=256, width=size.width, layers=size.layers, heads=4, context=size.context
        )
        self.size = size
        self.model = Decoder(config, residual_from_string(design, config))
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=3e-4)
        self.generator = torch.Generator().manual_seed(1)
        self.called: Any = torch.compile(self.model, fullgraph=True) if compiled else self.model
        self.recorder: Recorder | None = None
        self.peer: Peer | None = None
        self.steps = 0

    def record(self, folder: Path, every: int) -> Loop:
        self.recorder = Recorder(
            self.model, folder, optimizer=self.optimizer, every={"fast": every, "slow": 100}
        )
        return self

    def watch(self, kind: Kind, folder: Path) -> Loop:
        folder.mkdir()
        sublayers: Sequence[nn.Module] = [layer.sublayer for layer in self.model.layers]  # type: ignore[misc]
        self.peer = kind.attach(self.model, sublayers, folder)
        return self

    def run(self, steps: int) -> float:
        """Return the process CPU seconds of so many training steps."""
        started = time.process_time()
        for _ in range(steps):
            ids = torch.randint(0, 256, (self.size.batch, self.size.context + 1), generator=self.generator)
            loss = nn.functional.cross_entropy(self.called(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
            loss.backward()  # type: ignore[no-untyped-call]
            if self.peer is not None:
                self.peer.after_backward()
            self.optimizer.step()
            if self.peer is not None:
                self.peer.after_step(loss.detach())
            self.optimizer.zero_grad()
            if self.recorder is not None:
                self.recorder.step(loss=loss.detach())
            self.steps += 1
        return time.process_time() - started

    def close(self, folder: Path) -> None:
        """End the recording, and check that it holds what it has to."""
        if self.peer is not None:
            self.peer.close()
            wanted = self.peer.expected(self.steps)
            if not wanted or self.peer.recorded != wanted:
                raise AssertionError(
                    f"{self.peer.recorded} recorded in {self.steps} steps, expected {wanted}"
                )
        if self.recorder is not None:
            every = self.recorder.report().streams["fast"]
            self.recorder.close()
            states, due = open_run(folder)["state_rms"].values, math.ceil(self.steps / every)
            if states.shape != (due, self.size.layers) or not np.isfinite(states).all():
                raise AssertionError(
                    f"{np.isfinite(states).sum()} values, expected {due} rows of {self.size.layers}"
                )


def quiet() -> float:
    """Wait until no thread of the process works any more; return the seconds of the processor that went by."""
    started = before = time.process_time()
    still = 0
    for _ in range(MOST_LOOKS):
        if still == QUIET_LOOKS:
            break
        time.sleep(QUIET_SECONDS)
        now = time.process_time()
        still = still + 1 if now - before < QUIET_SECONDS / 10 else 0
        before = now
    return before - started


class RarelyDue:
    """Runs the steps of a loop that record nothing; those that do come in between, and are not timed."""

    def __init__(self, loop: Loop) -> None:
        self.loop = loop

    def __call__(self, steps: int) -> float:
        spent = 0.0
        while steps:
            if self.loop.steps % RARELY == 0:
                self.loop.run(1)
                quiet()
            here = min(steps, RARELY - self.loop.steps % RARELY)
            spent += self.loop.run(here)
            steps -= here
        return spent


def rounds(plain: Loop, others: dict[str, Callable[[int], float]], count: int) -> dict[str, Interval]:
    """Interleave all loops and return the interval of each one's ratio to the plain one.

    What a loop leaves to threads of its own (rows to write, say) counts to it, and not to the loop that comes next.
    """
    steps = plain.size.steps
    runs = {"plain": plain.run, **others}
    for run in runs.values():
        run(3)  # warm, compiled, and past what a first step does once
    ratios: dict[str, list[float]] = {name: [] for name in others}
    order = list(runs)
    shuffle = random.Random(0).shuffle
    for _ in range(count):
        shuffle(order)
        seconds = {name: runs[name](steps) + quiet() for name in order}
        for name in others:
            ratios[name].append(seconds[name] / seconds["plain"])
    return {name: interval(values) for name, values in ratios.items()}


def rarely(off: Interval, on: Interval) -> Interval:
    """Return the ratio over steps of which one in `RARELY` records."""
    more = (on.median - 1) / RARELY
    return Interval(median=off.median + more, low=off.low + more, high=off.high + more)


def measure(size: Size, design: str, count: int, folder: Path, *, compiled: bool, peers: bool) -> list[str]:
    """Compare one group of loops, eager or compiled; return what went wrong."""
    way = "compiled" if compiled else "eager"
    plain = Loop(size, design, compiled=compiled)
    places = {"often": folder / f"{way}-often", "rarely": folder / f"{way}-rarely"}
    loops = {
        "often": Loop(size, design, compiled=compiled).record(places["often"], 1),
        "rarely": Loop(size, design, compiled=compiled).record(places["rarely"], RARELY),
    }
    others: dict[str, Callable[[int], float]] = {
        "often": loops["often"].run,
        "rarely": RarelyDue(loops["rarely"]),
    }
    kinds, missing = {}, {}
    for kind in KINDS if peers and not compiled else ():
        place = folder / kind.name.replace(" ", "-")
        try:
            loops[kind.name] = Loop(size, design).watch(kind, place)
        except ImportError as error:
            missing[kind.name] = str(error.name)
            continue
        kinds[kind.name], others[kind.name] = kind, loops[kind.name].run
    found = rounds(plain, others, count)
    for name, loop in loops.items():
        loop.close(places.get(name, folder))
    found["rarely"] = rarely(found["rarely"], found["often"])
    wrong = []
    for name, what in (("often", "every step"), ("rarely", f"every {RARELY} steps")):
        limit = LIMITS[way if name == "often" else "rarely"] if size.limited else None
        held = limit is None or found[name].low <= limit
        verdict = "" if limit is None else f"<= {limit:g} {'held' if held else 'MISSED'}"
        print(f"depthscope, {way}, {what:<16}{found[name]!s:<26}{verdict}", flush=True)
        if not held:
            wrong.append(f"{size.name}, {way}, {what}: {found[name]}, limit {limit}")
    for name, kind in kinds.items():
        print(f"{name:<38}{found[name]!s:<26}records {kind.records}; omits {kind.omits}", flush=True)
        cheaper = found[name].median <= found["often"].median
        if size.limited and kind.activations_and_gradients and cheaper:
            wrong.append(f"{size.name}: {name} is not slower than ours")
    for name, lacking in missing.items():
        print(f"{name:<38}not installed ({lacking})", flush=True)
    return wrong


def host_cost(size: Size, folder: Path) -> list[str]:
    """Time `step()` where a row is due, and a hook where none is."""
    loop = Loop(size).record(folder / "host", 1)
    recorder = loop.recorder
    assert recorder is not None
    taken: list[tuple[float, float]] = []
    original = recorder.step

    def step(*args: Any, **kwargs: Any) -> None:
        wall, processor = time.perf_counter(), time.thread_time()
        original(*args, **kwargs)
        taken.append((time.perf_counter() - wall, time.thread_time() - processor))

    recorder.step = step  # type: ignore[method-assign]
    loop.run(3)
    taken.clear()
    loop.run(20 if size.layers > 10 else 200)
    wall, processor = (1e6 * statistics.median(each) for each in zip(*taken, strict=True))
    hook = _off_step_us(loop)
    loop.close(folder / "host")
    print(f"step(), a row due: median {wall:.0f} us, of them {processor:.0f} us of the processor", flush=True)
    print(f"a hook where no row is due: {hook:.2f} us, torch's call of it included", flush=True)
    wrong = []
    if size.limited and processor > STEP_US:
        wrong.append(f"step() takes {processor:.0f} us, limit {STEP_US:g}")
    if hook > OFF_STEP_US:
        wrong.append(f"an idle hook takes {hook:.2f} us, limit {OFF_STEP_US:g}")
    return wrong


def _off_step_us(loop: Loop) -> float:
    """Return what an idle hook adds to the call of a module, in microseconds of the processor."""
    assert loop.recorder is not None
    assert loop.recorder._session is not None
    loop.recorder._session.observer.streams = frozenset()
    hooked = loop.model.layers[0].sublayer
    hooks = hooked._forward_hooks  # type: ignore[union-attr]
    bare = nn.Identity()
    watched = nn.Identity()
    for hook in hooks.values():
        watched.register_forward_hook(hook, with_kwargs=True)
    value = torch.zeros(1)
    times = [
        min(timeit.repeat(lambda each=each: each(value), number=5000, repeat=7, timer=time.process_time))  # type: ignore[misc]
        for each in (bare, watched)
    ]
    return 1e6 * (times[1] - times[0]) / 5000 / len(hooks)


def run_size(name: str, options: argparse.Namespace) -> int:
    size = SIZES[name]
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore")  # the peers' and the compiler's own
    # Or one model would run the code that was compiled for another of its class, hooks and all.
    torch._dynamo.config.skip_nnmodule_hook_guards = False
    print(f"\n{size.name}, {options.design}: median ratio and its 95 % interval, {options.pairs} pairs")
    wrong = []
    folder = Path(tempfile.mkdtemp(prefix="depthscope-overhead-"))
    try:
        wrong += measure(
            size, options.design, options.pairs, folder, compiled=False, peers=not options.no_peers
        )
        if not options.no_compiled:
            wrong += measure(size, options.design, options.pairs, folder, compiled=True, peers=False)
        wrong += host_cost(size, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    for text in wrong:
        print(f"MISSED  {text}", flush=True)
    return 1 if wrong else 0


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pairs", type=int, default=30)
    parser.add_argument("--size", choices=SIZES, help="only this one")
    parser.add_argument("--design", default="prenorm")
    parser.add_argument(
        "--no-compiled", action="store_true", help="leave compiled code out: it takes minutes"
    )
    parser.add_argument("--no-peers", action="store_true")
    parser.add_argument("--peers", type=Path, help="site-packages with the peers")
    options = parser.parse_args()
    if options.peers:
        sys.path.append(str(options.peers))
    if options.size:
        return run_size(options.size, options)
    print(
        f"torch {torch.__version__}, numpy {np.__version__}, Python {platform.python_version()}, 1 thread, "
        f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}",
        flush=True,
    )
    given = sys.argv[1:]
    ended = [
        subprocess.run(
            [sys.executable, "-m", "benchmarks.overhead", "--size", name, *given], check=False
        ).returncode
        for name in SIZES
    ]
    print(f"\nload {os.getloadavg()[0]:.1f} at the end")
    return max(ended)


if __name__ == "__main__":
    sys.exit(main())
