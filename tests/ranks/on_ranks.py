"""What a rank does: run by torchrun as ``-m tests.ranks.on_ranks FOLDER SCENARIO/DESIGN/WRAPPING...``."""

from __future__ import annotations

import copy
import os
import pickle
import sys
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from depthscope.store import RunWriter
from tests.ranks import recordings, troubles

rows: dict[str, dict[int, dict[str, np.ndarray]]] = {}
"""Stream, step, quantity: what reached the store in the scenario under way, before it was rounded for storage."""


def spy() -> None:
    original = RunWriter.append

    def append(self: RunWriter, stream: str, step: int, values: Mapping[str, Any]) -> bool:
        kept = {name: np.array(value, dtype=np.float64) for name, value in values.items()}
        rows.setdefault(stream, {})[step] = kept
        return original(self, stream, step, values)

    RunWriter.append = append


def main(folder: Path, wanted: list[str]) -> None:
    torch.set_num_threads(1)
    spy()
    for each in wanted:
        rows.clear()
        name, design, how = each.split("/")
        scenario = getattr(recordings, name, None) or getattr(troubles, name)
        if not dist.is_initialized() and name != "late":
            rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
            rendezvous = os.environ.get("RENDEZVOUS", "env://")
            dist.init_process_group("gloo", init_method=rendezvous, rank=rank, world_size=world)
        label = each.replace("/", "-")
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            result = scenario(design, how, folder / label)
        result |= {"rows": copy.deepcopy(rows)}
        result["warnings"] = [str(each.message) for each in caught if "depthscope" in str(each.message)]
        with open(folder / f"{label}.{os.environ['RANK']}.pickle", "wb") as file:
            pickle.dump(result, file)
        if dist.is_initialized() and name not in ("killed", "raised"):
            dist.barrier()
    if dist.is_initialized():
        dist.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
