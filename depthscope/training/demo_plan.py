"""What a demo needs, checked before anything is created."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import torch

from depthscope.models import Decoder, residual_from_string
from depthscope.training.demo_options import CPU_SIZE, CUDA_SIZE, DemoOptions
from depthscope.training.trainer import TrainingOptions, build_decoder

_IN_A_PATH = {ord(":"): "-", ord(","): "-", ord("+"): "-", ord("="): "", ord(" "): ""}


class DemoError(ValueError):
    """Options that cannot be carried out; the message says what was found, expected and to type."""


def run_names(designs: tuple[str, ...]) -> list[str]:
    """Return a folder name for each design string: ``block-attnres:S=4`` -> ``block-attnres-S4``."""
    names = [design.translate(_IN_A_PATH) for design in designs]
    if not names:
        raise DemoError("no design is given; type one or more, e.g. --designs prenorm,block-attnres")
    for name in names:
        if names.count(name) > 1:
            raise DemoError(f"the design {name!r} is given twice; each is trained once")
    return names


def prepare(options: DemoOptions, device: str) -> tuple[list[Decoder], TrainingOptions]:
    """Return the models, in the order of the designs, and how to train them."""
    kind = device.partition(":")[0]
    if kind not in ("cpu", "cuda"):
        raise DemoError(f"device {device!r}: the demo runs on cpu or cuda; type --device cpu")
    on_cuda = kind == "cuda"
    if on_cuda and not torch.cuda.is_available():
        raise DemoError(
            f"device {device!r}: this machine has no CUDA device that torch can use; type --device cpu"
        )
    size = CUDA_SIZE if on_cuda else CPU_SIZE
    try:
        config, training = options.decoder(size), options.training(size)
        for design in options.designs:
            residual_from_string(design, config)
    except ValueError as error:
        raise DemoError(str(error)) from None
    models = [build_decoder(design, config, seed=options.seed).to(device) for design in options.designs]
    return models, training


def make_root(out: Path | None, names: list[str]) -> Path:
    """Create and return the folder for the runs: `out` where no run of these names is, or a new dated one."""
    if out is None:
        dated = Path("demo-runs") / datetime.now().strftime("%Y-%m-%d_%H-%M-%S")
        for attempt in range(1, 1000):
            root = dated if attempt == 1 else dated.with_name(f"{dated.name}_{attempt}")
            try:
                root.mkdir(parents=True)
            except FileExistsError:
                continue
            return root
    else:
        for name in names:
            if (out / name).exists():
                raise DemoError(
                    f"{out / name} exists already; choose another folder with --out, or leave --out away for a "
                    "new dated one"
                )
        if out.exists() and not out.is_dir():
            raise DemoError(f"{out} is a file, expected a folder for the runs; choose another with --out")
        out.mkdir(parents=True, exist_ok=True)
        return out
    raise DemoError(f"{dated} and 999 like it exist already; choose a folder with --out")
