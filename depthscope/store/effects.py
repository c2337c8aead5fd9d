"""Sweeps of interventions beside a run: ``RUN/causal/NAME.zarr``, each of one model at one step."""

from __future__ import annotations

import logging
import shlex
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from depthscope.store.cells import CellStore
from depthscope.store.errors import CorruptRun, CorruptSweep, RunError
from depthscope.store.interval import mean_interval

if TYPE_CHECKING:
    import xarray as xr

logger = logging.getLogger("depthscope.store")
FOLDER = "causal"
SUFFIX = ".zarr"
CHANGE = "loss_change"


@dataclass(frozen=True)
class Sweep:
    """A store of effects or of a lens, for reading."""

    path: Path
    cells: CellStore

    @property
    def name(self) -> str:
        return self.path.name.removesuffix(SUFFIX)

    @property
    def attributes(self) -> Mapping[str, Any]:
        """What was measured on what: ``kind``, ``mode``, ``step``, ``checkpoint``, ``identity``."""
        return self.cells.attributes

    @property
    def kind(self) -> str:
        return str(self.attributes.get("kind", ""))

    @property
    def step(self) -> int | None:
        """Optimizer steps completed when the checkpoint was written; None where nobody said."""
        found = self.attributes.get("step")
        return found if isinstance(found, int) and not isinstance(found, bool) else None

    @property
    def mode(self) -> str:
        """What stands in place of what is cut; empty for a sweep that cuts nothing."""
        return str(self.attributes.get("mode", ""))

    @property
    def batches(self) -> int:
        """How many batches were measured, as far as the sweep has come: of each array by its finished chunks."""
        return self.cells.finished("batch")

    def read(self, names: Collection[str] | None = None) -> xr.Dataset:
        """Return the arrays called `names` in memory, None for all: those of each token are large.

        Beside ``loss_change`` (target, source, batch), in nats a token and positive where the cut
        hurts, come its mean over batches ``effect`` (target, source), the half width ``effect_interval`` of its 95 % t
        interval, and ``batches_measured``. CorruptRun names run, sweep and file when one is damaged.
        """
        try:
            data = self.cells.read(names)
        except (OSError, ValueError, KeyError) as error:
            found = error.found if isinstance(error, CorruptSweep) else str(error)
            run = self.path.parent.parent.name
            raise CorruptRun(self.path, f"sweep {self.name} of run {run} is damaged: {found}") from None
        if CHANGE not in data:
            return data
        change: npt.NDArray[np.float64] = data[CHANGE].values
        mean, half = mean_interval(change)
        dims = data[CHANGE].dims[:-1]
        return data.assign(
            effect=(dims, mean, {"long_name": "loss change when cut", "units": "nats/token"}),
            effect_interval=(
                dims,
                half,
                {"long_name": "half width of the 95 % t interval", "units": "nats/token"},
            ),
            batches_measured=(
                dims,
                np.isfinite(change).sum(-1),
                {"long_name": "batches measured", "units": "1"},
            ),
        )


def sweep_folder(run: Path) -> Path:
    """Return where a run keeps its sweeps."""
    return run / FOLDER


def sweep_path(run: Path, name: str) -> Path:
    """Return where a run keeps the sweep of a name; ValueError for a name that is no plain file name."""
    if not name or name.startswith(".") or not all(each.isalnum() or each in "-_.=+" for each in name):
        raise ValueError(f"a sweep is called {name!r}; expected letters, digits and -_.=+")
    return sweep_folder(run) / f"{name}{SUFFIX}"


def open_sweep(path: Path) -> Sweep:
    """Open one sweep; RunError says why it cannot be."""
    return Sweep(path, CellStore(path))


def list_sweeps(run: Path) -> list[Sweep]:
    """Return the sweeps of the run in the folder `run`, by step and then name; one that cannot be read is logged."""
    found = []
    for path in sorted(sweep_folder(run).glob(f"*{SUFFIX}")):
        if path.is_symlink():
            logger.warning("%s is a link; a sweep is a folder", path)
            continue
        try:
            found.append(open_sweep(path))
        except RunError as error:
            logger.warning("%s", error)
    return sorted(found, key=lambda sweep: (sweep.step is None, sweep.step or 0, sweep.name))


def check_same(store: CellStore, identity: Mapping[str, Any]) -> None:
    """Raise ValueError when a store was begun for something else than `identity`, naming what differs."""
    before = store.attributes.get("identity")
    if not isinstance(before, Mapping):
        raise CorruptSweep(store.path, "its attributes do not say what was measured")
    other = [name for name, value in identity.items() if before.get(name) != value]
    if other:
        told = "; ".join(f"{name} was {before.get(name)!r}, is {identity[name]!r}" for name in other)
        raise ValueError(
            f"{store.path} was begun for something else ({told}); choose another name, or delete it: rm -r {shlex.quote(str(store.path))}"
        )
