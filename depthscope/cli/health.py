"""What of this machine a recording depends on, as rows of a table."""

from __future__ import annotations

import fcntl
import importlib.metadata
import importlib.util
import os
import platform
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from depthscope.cli.version import version_text

_PACKAGES = ("numpy", "zarr", "xarray", "plotly", "dash")


@dataclass(frozen=True, kw_only=True)
class Fact:
    """One row."""

    state: Literal["ok", "-", "WRONG"]
    """`-`: neither good nor bad."""
    what: str
    found: str


def facts() -> Iterator[Fact]:
    """Yield what was found, the most needed first."""
    yield Fact(state="ok", what="depthscope", found=version_text().removeprefix("depthscope "))
    yield Fact(state="ok", what="python", found=f"{platform.python_version()} ({sys.executable})")
    yield from (Fact(state="ok", what=name, found=_version(name)) for name in _PACKAGES)
    yield from _torch()
    yield _locks(os.getcwd())
    strict = os.environ.get("DEPTHSCOPE_STRICT", "") not in ("", "0")
    meaning = (
        "a failing recording raises into the training" if strict else "a failing recording warns and ends"
    )
    yield Fact(state="-", what="DEPTHSCOPE_STRICT", found=f"{'set' if strict else 'not set'}: {meaning}")
    for name, meaning in (
        ("nnsight", "for interventions on a finished model; keep it out of the process that trains"),
        ("wandb", "wandb.watch puts hooks of its own on a model; --verify tells whether it has"),
    ):
        found = _version(name)
        yield Fact(state="-", what=name, found=f"{found}: {meaning}" if found != "not installed" else found)


def _torch() -> Iterator[Fact]:
    if importlib.util.find_spec("torch") is None:
        found = "not installed: runs can be read and shown, not recorded; pip install 'depthscope[record]'"
        yield Fact(state="-", what="torch", found=found)
        return
    import torch

    build = f"CUDA {torch.version.cuda}" if torch.version.cuda else "CPU only"
    yield Fact(state="ok", what="torch", found=f"{torch.__version__} ({build})")
    if torch.cuda.is_available():
        names = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
        yield Fact(state="ok", what="CUDA devices", found=", ".join(names))
    else:
        yield Fact(state="-", what="CUDA devices", found="none")
    gloo = torch.distributed.is_available() and torch.distributed.is_gloo_available()
    several = "with gloo, over which ranks merge" if gloo else "without gloo: one process only"
    yield Fact(state="ok" if gloo else "-", what="torch.distributed", found=several)
    yield _probes()


def _probes() -> Fact:
    from depthscope.probes import registered_probes

    try:
        names = [probe.name for probe in registered_probes()]
    except ValueError as error:
        return Fact(state="WRONG", what="probes of others", found=str(error))
    return Fact(state="-", what="probes of others", found=", ".join(names) or "none")


def _locks(folder: str) -> Fact:
    """A run is protected from a second writer by a lock, where the file system has them."""
    what = "file locks"
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except PermissionError:
        return Fact(state="-", what=what, found=f"{folder} can't be written to; type this where the runs go")
    except OSError as error:
        found = f"not in {folder} ({error.strerror}): a heartbeat file keeps a second writer away instead"
        return Fact(state="-", what=what, found=found)
    return Fact(state="ok", what=what, found=f"work in {folder}")


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"
