"""Sweeps: what they hold, and that a killed one goes on where it stopped."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
import xarray as xr

from depthscope.causal import (
    CausalError,
    Subject,
    ablate_sources,
    knock_out,
    losses_under,
    measure_effects,
    replace_write,
)
from depthscope.causal.memory import interventions_at_once
from depthscope.store import CorruptRun, NotARun, list_sweeps, mean_interval, open_sweep, sweep_path
from tests.causal.models import batch, hooked, losses, trained

DESIGN = "block-attnres:S=2"


def test_an_effect_is_the_mean_over_batches_of_the_loss_with_the_cut_minus_the_loss_without() -> None:
    model, batches = trained("prenorm"), [batch(seed) for seed in range(3)]
    found = knock_out(model, batches)
    for layer in range(4):
        changes = []
        for given in batches:
            cut = hooked(model, given, f"layers.{layer}.sublayer", torch.zeros_like)
            plain = hooked(model, given, f"layers.{layer}.sublayer", lambda output: output)
            changes.append(float(losses(cut, given).mean() - losses(plain, given).mean()))
        mean, deviation = np.mean(changes), np.std(changes, ddof=1)
        np.testing.assert_allclose(found["loss_change"].values[layer, 0], changes, atol=1e-12)
        np.testing.assert_allclose(found["effect"].values[layer, 0], mean, atol=1e-12)
        # Student's t at 2 degrees of freedom, two-sided 95 %: 4.3027.
        np.testing.assert_allclose(found["effect_interval"].values[layer, 0], 4.3027 * deviation / 3**0.5)
    assert found["loss_change"].attrs["comment"] == "positive: cutting hurts"


def test_cutting_what_a_model_learnt_to_use_is_positive() -> None:
    model = trained("prenorm").train()
    given = batch()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(60):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(
            model(*given.args).flatten(0, 1), given.targets.flatten()
        ).backward()
        optimizer.step()
    assert (knock_out(model, [given])["effect"].values > 0).all()


def test_each_token_has_its_own_effect_and_pairs_that_do_not_exist_are_missing() -> None:
    model, batches = trained(DESIGN), [batch(0), batch(1)]
    found = ablate_sources(model, batches, "zero")
    assert found["loss_change"].shape == (5, 3, 2)
    assert found["target_name"].values.tolist() == ["1 attention", "2 MLP", "3 attention", "4 MLP", "output"]
    assert found["source_name"].values.tolist() == ["embedding", "block 1", "block 2"]
    exists = found["exists"].values.astype(bool)
    assert exists.tolist() == [[1, 0, 0], [1, 1, 0], [1, 1, 0], [1, 1, 1], [1, 1, 1]]
    assert (np.isfinite(found["effect"].values) == exists).all()
    np.testing.assert_allclose(
        found["token_change"].mean(["sequence", "position"]).values[exists],
        found["loss_change"].values[..., 0][exists],
        atol=1e-6,  # tokens are stored in float32
    )
    assert np.isnan(ablate_sources(model, batches, "renormalise")["effect"].values[0, 0])  # its only source


def test_resampling_takes_the_next_batch_and_needs_one() -> None:
    model, batches = trained(DESIGN), [batch(0), batch(1)]
    subject = Subject.of(model, batches[0].args)
    found = knock_out(model, batches, "resample")["loss_change"].values[2, 0]
    write = subject.axis.sublayers[2].write
    for number, (given, other) in enumerate([(batches[0], batches[1]), (batches[1], batches[0])]):
        donor = subject.look(other.args, {}, [write])[1]
        cut = losses_under(subject, given, [replace_write(subject.axis, 3, "resample", donor)]).mean()
        plain = losses(hooked(model, given, "head", lambda output: output), given).mean()
        np.testing.assert_allclose(found[number], float(cut - plain), atol=1e-12)
    with pytest.raises(CausalError, match="two batches or more"):
        knock_out(model, batches[:1], "resample")


def test_every_kind_of_sweep_has_its_rows_and_columns() -> None:
    model, batches = trained("hires:B=2,n=2"), [batch()]
    outer = measure_effects(model, batches, "outer")
    assert outer["source_name"].values.tolist() == ["read", "write", "extra features"]
    assert np.isfinite(outer["effect"].values).all()
    assert outer["effect_interval"].isnull().all()  # one batch has no spread
    assert measure_effects(model, batches, "resets")["target_name"].values.tolist() == ["after block 1"]
    assert measure_effects(model, batches, "sources")["target_name"].values.tolist() == [
        "block 1",
        "block 2",
        "output",
    ]
    families = measure_effects(trained(DESIGN), batches, "families", "zero")
    assert families["exists"].values.tolist() == [[1, 0, 0], [1, 1, 0], [1, 0, 1], [1, 1, 1], [1, 0, 1]]


def test_any_zarr_reader_sees_the_store(tmp_path: Path) -> None:
    path = sweep_path(tmp_path, "mixers")
    found = ablate_sources(trained(DESIGN), [batch()], path=path, about={"step": 8, "checkpoint": "a.pt"})
    with xr.open_zarr(path) as seen:
        assert seen["loss_change"].equals(found["loss_change"])
        assert seen["target_name"].values.tolist() == found["target_name"].values.tolist()
    (listed,) = list_sweeps(tmp_path)
    assert (listed.name, listed.kind, listed.step) == ("mixers", "sources", 8)
    assert listed.attributes["identity"]["mode"] == "renormalise"
    assert listed.read().equals(found)


def test_a_store_goes_on_only_with_the_same_model_data_and_question(tmp_path: Path) -> None:
    path, model = sweep_path(tmp_path, "a"), trained(DESIGN)
    knock_out(model, [batch()], path=path)
    with pytest.raises(ValueError, match="mode was 'zero', is 'mean'"):
        knock_out(model, [batch()], "mean", path=path)
    with pytest.raises(ValueError, match="data was"):
        knock_out(model, [batch(1)], path=path)
    with torch.no_grad():
        model.head.weight[0, 0] += 1
    with pytest.raises(ValueError, match=r"weights was .*rm -r"):
        knock_out(model, [batch()], path=path)


def test_a_damaged_chunk_is_told_and_never_read(tmp_path: Path) -> None:
    path = sweep_path(tmp_path, "a")
    knock_out(trained(DESIGN), [batch()], path=path)
    chunk = path / "loss_change" / "c.1.0.0"
    content = bytearray(chunk.read_bytes())
    content[-6] ^= 1
    chunk.write_bytes(content)
    with pytest.raises(CorruptRun, match=r"loss_change/c\.1\.0\.0"):
        open_sweep(path).read()
    # Gone on with, it is told before anything is measured.
    (path / "loss_change" / "c.3.0.0").unlink()
    with pytest.raises(CorruptRun, match=rf"{path} is damaged: loss_change/c\.1\.0\.0.*: rm -r {path}"):
        knock_out(trained(DESIGN), [batch()], path=path)
    assert not (path / "loss_change" / "c.3.0.0").exists()


def test_a_store_that_lost_an_array_or_all_metadata_is_told_with_what_to_delete(tmp_path: Path) -> None:
    path = sweep_path(tmp_path, "a")
    knock_out(trained(DESIGN), [batch()], path=path)
    told = json.loads((path / "zarr.json").read_text())
    del told["consolidated_metadata"]["metadata"]["token_loss"]
    (path / "zarr.json").write_text(json.dumps(told))
    with pytest.raises(CorruptRun, match=rf"{path} is damaged: its metadata lack token_loss.*: rm -r {path}"):
        knock_out(trained(DESIGN), [batch()], path=path)
    (path / "zarr.json").unlink()
    with pytest.raises(NotARun, match=rf"{path} is no sweep.* delete it: rm -r {path}"):
        knock_out(trained(DESIGN), [batch()], path=path)


@pytest.mark.parametrize("broken", ["zarr.json", "target_name/c.0"])
def test_a_store_with_broken_metadata_or_labels_names_its_path(tmp_path: Path, broken: str) -> None:
    path = sweep_path(tmp_path, "a")
    knock_out(trained(DESIGN), [batch()], path=path)
    (path / broken).write_bytes(b"{")
    with pytest.raises(CorruptRun, match=rf"{path} is damaged: {broken.split('/')[0]}.*: rm -r {path}"):
        knock_out(trained(DESIGN), [batch()], path=path)


SCRIPT = """
import sys
from pathlib import Path
from depthscope.causal import ablate_sources
from tests.causal.models import batch, trained

def told(finished, total):
    print(finished, total, flush=True)
    sys.stdin.readline()  # until the test says so, nothing goes on

ablate_sources(trained("full-attnres"), [batch(seed) for seed in range(3)], "zero", path=Path(sys.argv[1]), advance=told)
print("done", flush=True)
"""


def sweep_until(path: Path, until: int | None) -> list[int]:
    """Sweep in a process of its own and kill it once it says `until` (None: never); return all that it said."""
    command = [sys.executable, "-c", SCRIPT, str(path)]
    root, pipe = Path(__file__).parents[2], subprocess.PIPE
    said: list[int] = []
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, cwd=root) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for line in process.stdout:
            if line == "done\n":
                break
            finished, total = map(int, line.split())
            assert total == 15
            said.append(finished)
            if finished == until:
                process.send_signal(signal.SIGKILL)
                break
            process.stdin.write("\n")
            process.stdin.flush()
    assert process.returncode == (0 if until is None else -signal.SIGKILL)
    return said


def test_a_killed_sweep_goes_on_and_measures_nothing_finished_again(tmp_path: Path) -> None:
    path = tmp_path / "killed.zarr"
    assert sweep_until(path, 4) == [0, 1, 2, 3, 4]
    assert sweep_until(path, 9) == [4, 5, 6, 7, 8, 9]
    files = {file: file.stat().st_mtime_ns for file in (path / "loss_change").glob("c.*")}
    assert len(files) == 9
    half = open_sweep(path).read()
    assert half["batches_measured"].values.max() == 2  # the first batch is whole, the second half done
    assert sweep_until(path, None) == [9, 10, 11, 12, 13, 14, 15]
    assert all(file.stat().st_mtime_ns == before for file, before in files.items())
    whole = ablate_sources(trained("full-attnres"), [batch(seed) for seed in range(3)], "zero")
    assert open_sweep(path).read()["loss_change"].equals(whole["loss_change"])


def test_what_does_not_fit_into_memory_is_refused_before_it_is_tried() -> None:
    given = batch()
    subject = Subject.of(trained(DESIGN), given.args)
    needed = subject.bytes_per_sequence * given.sequences
    assert interventions_at_once(subject, given, free=2 * needed) == 1
    assert interventions_at_once(subject, given, free=4 * needed) == 2
    with pytest.raises(CausalError, match="Give smaller batches"):
        interventions_at_once(subject, given, free=needed)


def test_an_interval_is_students_and_missing_values_do_not_count() -> None:
    values = np.array([[1.0, 2.0, 3.0, np.nan], [5.0, np.nan, np.nan, np.nan], [np.nan] * 4])
    mean, half = mean_interval(values)
    np.testing.assert_allclose(mean, [2, 5, np.nan])
    np.testing.assert_allclose(half, [4.3027 / 3**0.5, np.nan, np.nan], rtol=1e-4)
    # Published quantiles of t at 27 and 200 degrees of freedom, between the tabled ones: 2.0518, 1.9719.
    for degrees, quantile in ((27, 2.0518), (200, 1.9719)):
        spread = np.concatenate([np.zeros((degrees + 1) // 2), np.ones(degrees + 1 - (degrees + 1) // 2)])
        _, half = mean_interval(spread[None])
        np.testing.assert_allclose(half[0] * (degrees + 1) ** 0.5 / spread.std(ddof=1), quantile, rtol=5e-4)
