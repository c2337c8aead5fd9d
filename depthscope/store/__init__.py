"""The run on disk: a writer that never loses an accepted row, and a reader that sees it while it is written."""

from depthscope.store.cells import CellArray, CellStore
from depthscope.store.checking import Check, check_run
from depthscope.store.codec import Codec
from depthscope.store.creation import holds_rows, refuse_existing_rows, refuse_writers
from depthscope.store.effects import Sweep, check_same, list_sweeps, open_sweep, sweep_folder, sweep_path
from depthscope.store.errors import (
    FORMAT,
    CorruptRun,
    CorruptSweep,
    NewerFormat,
    NotARun,
    RunError,
    RunLocked,
    SchemaError,
)
from depthscope.store.find import find_runs, run_folders
from depthscope.store.history import Gap, Rewind
from depthscope.store.interval import mean_interval
from depthscope.store.jsonable import jsonable
from depthscope.store.lock import Status
from depthscope.store.parameters import keep_parameters, refuse_other_parameters
from depthscope.store.past import attempts_in_words, gaps_in_words
from depthscope.store.resuming import Recovered, recover_run
from depthscope.store.run import Run, SublayerRecord, open_run
from depthscope.store.size import bytes_on_disk
from depthscope.store.specification import ArraySpec, Coordinate, StreamSpec
from depthscope.store.writer import RunWriter

__all__ = [
    "FORMAT",
    "ArraySpec",
    "CellArray",
    "CellStore",
    "Check",
    "Codec",
    "Coordinate",
    "CorruptRun",
    "CorruptSweep",
    "Gap",
    "NewerFormat",
    "NotARun",
    "Recovered",
    "Rewind",
    "Run",
    "RunError",
    "RunLocked",
    "RunWriter",
    "SchemaError",
    "Status",
    "StreamSpec",
    "SublayerRecord",
    "Sweep",
    "attempts_in_words",
    "bytes_on_disk",
    "check_run",
    "check_same",
    "find_runs",
    "gaps_in_words",
    "holds_rows",
    "jsonable",
    "keep_parameters",
    "list_sweeps",
    "mean_interval",
    "open_run",
    "open_sweep",
    "recover_run",
    "refuse_existing_rows",
    "refuse_other_parameters",
    "refuse_writers",
    "run_folders",
    "sweep_folder",
    "sweep_path",
]
