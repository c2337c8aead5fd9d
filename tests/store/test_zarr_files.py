"""What is written here is what zarr itself would write, and the other way round."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import zarr
from zarr.codecs import BloscCodec, Crc32cCodec

from depthscope.store import Codec, open_run
from depthscope.store.arrays import describe_array, read_rows
from depthscope.store.chunk import decode_texts, encode_chunk, encode_texts
from depthscope.store.metadata import array_metadata
from tests.store.runs import LAYERS, MakeWriter


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "i8"])
def test_metadata_and_chunks_equal_zarrs_own(tmp_path: Path, dtype: str) -> None:
    values = np.arange(40).reshape(10, 4).astype(dtype)
    theirs = zarr.create_array(
        tmp_path / "theirs",
        shape=(10, 4),
        chunks=(8, 4),
        dtype=dtype,
        fill_value=np.nan if dtype != "i8" else 0,
        compressors=(BloscCodec(cname="zstd", clevel=1, shuffle="shuffle"), Crc32cCodec()),
        dimension_names=("step", "layer"),
        chunk_key_encoding={"name": "default", "separator": "."},
    )
    theirs[:] = values
    ours = array_metadata(
        shape=(10, 4), chunk_shape=(8, 4), dtype=dtype, dims=("step", "layer"), attributes={}, codec=Codec()
    )
    assert json.loads((tmp_path / "theirs" / "zarr.json").read_text()) == ours
    assert (tmp_path / "theirs" / "c.0.0").read_bytes() == encode_chunk(values[:8], Codec())
    read = read_rows(describe_array(tmp_path / "theirs", ours), 3, 10)
    np.testing.assert_array_equal(read, values[3:])


def test_labels_equal_zarrs_own(tmp_path: Path) -> None:
    texts = ["a", "", "Übergang", "层"]
    theirs = zarr.create_array(
        tmp_path / "t",
        shape=(4,),
        chunks=(4,),
        dtype=str,
        fill_value="",
        compressors=None,
        chunk_key_encoding={"name": "default", "separator": "."},
    )
    theirs[:] = np.array(texts, object)
    assert (tmp_path / "t" / "c.0").read_bytes() == encode_texts(texts)
    assert decode_texts(encode_texts(texts), 4) == texts


def stored(group: zarr.Group, name: str) -> npt.NDArray[Any]:
    array = group[name]
    assert isinstance(array, zarr.Array)
    return np.asarray(array[:])


def test_any_zarr_reader_sees_the_finished_run(make_writer: MakeWriter, tmp_path: Path) -> None:
    writer = make_writer()
    for step in range(37):
        writer.append("fast", step, {"loss": step, "write_rms": np.full(LAYERS, step)})
        writer.append("slow", step, {"depth_attention": np.full((LAYERS + 1, 3), step)})
    writer.close()
    run = open_run(tmp_path / "run")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for consolidated in (True, False):
            group = zarr.open_group(
                tmp_path / "run" / "rank00000" / "data.zarr", mode="r", use_consolidated=consolidated
            )
            assert {name for name, _ in group.groups()} == {"fast", "slow", "evaluation", "pyramid"}
            for name in ("fast/loss", "fast/write_rms", "slow/depth_attention"):
                np.testing.assert_array_equal(stored(group, name), run[name].values)
            assert stored(group, "layer_name").tolist() == list(run.layout.layer_names)
            assert stored(group, "slow/target_name")[-1] == "output"
