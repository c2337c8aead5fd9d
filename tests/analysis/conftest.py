"""Synthetic runs with numbers chosen by hand, written through the real writer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from depthscope.quantities import QUANTITIES, DepthLayout
from depthscope.store import ArraySpec, Run, RunWriter, StreamSpec, open_run
from tests.analysis.synthetic_runs import WriteRun

Values = Mapping[str, np.ndarray]


@pytest.fixture
def write_run(tmp_path: Path) -> WriteRun:
    """Return a function that writes a run and opens it.

    `values` maps a quantity to [records, ...]; `steps` gives the step labels of each stream's records.
    """

    def write(
        name: str,
        layout: DepthLayout,
        values: Values,
        *,
        steps: Sequence[int] | None = None,
        config: Mapping[str, Any] | None = None,
        missing: Mapping[str, str] | None = None,
    ) -> Run:
        dims = {"abs_median": ("layer",), **{key: entry.dims for key, entry in QUANTITIES.items()}}
        streams: dict[str, list[str]] = {}
        for key in values:
            home = QUANTITIES[key].stream if key in QUANTITIES else "slow"
            streams.setdefault(home, []).append(key)
        specs = [
            StreamSpec(
                name=stream,
                arrays=[ArraySpec(name=key, dims=dims[key], shape=np.shape(values[key])[1:]) for key in keys],
            )
            for stream, keys in streams.items()
        ]
        with RunWriter.create(
            tmp_path / name, name=name, config=config or {}, layout=layout, streams=specs, fsync=False
        ) as writer:
            for key, reason in (missing or {}).items():
                writer.annotate("missing", {key: reason})
            for stream, keys in streams.items():
                records = len(values[keys[0]])
                for record, step in enumerate(steps or range(0, 10 * records, 10)):
                    writer.append(stream, step, {key: values[key][record] for key in keys})
        return open_run(tmp_path / name)

    return write
