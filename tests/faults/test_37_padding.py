"""Fault 37: inside ``recorder.tokens(mask)`` padding stays out of every statistic over tokens; else all count."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch._dynamo.utils import counters
from torch.utils.checkpoint import checkpoint

from depthscope.probes import Activation, Magnitude, Site
from depthscope.quantities import QUANTITIES
from depthscope.recording import Recorder
from depthscope.recording.positions import fits, over_tokens
from depthscope.recording.values import joined, split
from depthscope.store import open_run
from tests.faults.truth import without_updates
from tests.ranks.expected import compare, row_of
from tests.ranks.launching import left_by
from tests.ranks.models import batch_of, mask_of, padded, together
from tests.ranks.models import trained as trained_as_on_ranks
from tests.recording.loops import BATCH, TIME, build
from tests.recording.rows import spy_on_rows, trained

# Of torch itself, also without a recorder: for a compiled module whose input is no leaf.
pytestmark = pytest.mark.filterwarnings(
    "ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning"
)

BACKEND = "aot_eager"
Way = Callable[[Any], Any]


@pytest.fixture(autouse=True)
def fresh_compiler() -> Iterator[None]:
    torch._dynamo.reset()
    counters.clear()
    yield
    torch._dynamo.reset()


def right_padded() -> Tensor:
    """Three sequences of 10, 6 and 3 positions."""
    return torch.arange(TIME) < torch.tensor([TIME, 6, 3])[:, None]


def packed() -> Tensor:
    """Two documents in each sequence, with a separator that is not counted between them."""
    mask = torch.ones(BATCH, TIME, dtype=torch.bool)
    mask[0, 4] = mask[1, 7] = mask[2, :2] = False
    return mask


def eagerly(model: Any) -> Any:
    return model


def whole(model: Any) -> Any:
    return torch.compile(model, fullgraph=True, backend=BACKEND)


def each_block(model: Any) -> Any:
    for stage in model.tower:
        stage.compile(fullgraph=True, backend=BACKEND)
    return model


def mean_loss(logits: Tensor, targets: Tensor) -> Tensor:
    return nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())


def build_like(model: nn.Module) -> nn.Module:
    """Return a model with the same weights, which is not compiled."""
    twin = build("foreign")
    twin.load_state_dict(model.state_dict())
    return twin


def without_clocks(row: dict[str, Any], compiled: bool) -> dict[str, Any]:
    """A module that is compiled as a whole does not tell how many tokens the run has seen."""
    return {name: value for name, value in row.items() if not (compiled and name == "tokens")}


@pytest.mark.parametrize(
    ("design", "way", "mask"),
    [
        ("prenorm", eagerly, right_padded()),
        ("block-attnres:S=3", eagerly, right_padded()),
        ("hires:B=2,n=2", eagerly, packed()),
        ("foreign", eagerly, packed()),
        ("block-attnres:S=3", whole, packed()),
        ("hires:B=2,n=2", whole, right_padded()),
        ("foreign", each_block, packed()),
    ],
)
def test_every_quantity_is_over_the_positions_that_count(
    design: str, way: Way, mask: Tensor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = spy_on_rows(monkeypatch)
    model, inputs, targets = trained(build(design))
    targets = targets.masked_fill(~mask, -100)
    expected, unmasked = row_of(model, inputs, targets, mask), row_of(model, inputs, targets)
    model.zero_grad()
    optimizer = without_updates(model)
    every = {"fast": 1, "slow": 1}
    with Recorder(model, tmp_path / "run", optimizer=optimizer, every=every, example=inputs) as recorder:
        called = way(model)
        with recorder.tokens(mask):
            logits = called(inputs)
        loss = mean_loss(logits, targets)
        loss.backward()
        optimizer.step()
        recorder.step(loss=loss.detach())
    row = rows["fast"][0] | rows.get("slow", {}).get(0, {})
    compare(row, without_clocks(expected, way is whole), tolerance=2e-5)
    assert row["loss_tokens"] == int(mask.sum())
    assert np.abs(unmasked["write_rms"] / row["write_rms"] - 1).max() > 1e-3
    run = open_run(tmp_path / "run")
    for name in run.quantities:
        if "all tokens" in QUANTITIES[name].reduction:
            assert (
                run[name].attrs["token_mask"].startswith("from row 0 on the positions that recorder.tokens")
            )
    assert sum(counters["graph_break"].values()) == 0


@pytest.mark.parametrize("way", [eagerly, pytest.param(whole, marks=pytest.mark.soak), each_block])
def test_micro_batches_have_masks_of_their_own(
    way: Way, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loop uses one tensor for all of them, overwrites it under way, and the third has no mask."""
    rows = spy_on_rows(monkeypatch)
    model, inputs, targets = trained(build("foreign"))
    mask = right_padded()
    mask[2] = True
    targets = targets.masked_fill(~mask, -100)
    expected = row_of(model, inputs, targets, mask)
    model.zero_grad()
    optimizer = without_updates(model)
    with Recorder(model, tmp_path / "run", optimizer=optimizer, example=inputs[:1]) as recorder:
        called = way(model)
        shared = torch.empty(1, TIME, dtype=torch.int64)
        for place in range(BATCH):
            part = slice(place, place + 1)
            shared.copy_(mask[part])
            if place < 2:
                with recorder.tokens(shared):
                    logits = called(inputs[part])
            else:
                logits = called(inputs[part])
            shared.zero_()
            (mean_loss(logits, targets[part]) * mask[part].sum() / mask.sum()).backward()
        optimizer.step()
        recorder.step(loss=expected["loss"])
    compare(rows["fast"][0], without_clocks(expected, way is whole), tolerance=2e-5)


@pytest.mark.parametrize("design_and_way", ["prenorm/ddp", "foreign/fsdp"])
def test_every_rank_has_a_mask_of_its_own(design_and_way: str, two_ranks: Path) -> None:
    scenario = f"masked/{design_and_way}"
    rows = left_by(two_ranks, scenario)["rows"]["fast"]
    model = trained_as_on_ranks(design_and_way.split("/")[0])
    batches = [batch_of(rank) for rank in range(2)]
    masks = [mask_of(rank) for rank in range(2)]
    inputs, targets = together([padded(*both) for both in zip(batches, masks, strict=True)])
    compare(rows[0], row_of(model, inputs, targets, torch.cat(masks)))
    model.zero_grad()
    expected = row_of(model, *together(batches)) | {"tokens": int(torch.cat(masks).sum())}
    compare(rows[1], expected)
    run = open_run(two_ranks / scenario.replace("/", "-"))
    assert run["state_rms"].attrs["token_mask"].startswith("from row 0")


@pytest.mark.parametrize("way", [whole, each_block])
def test_toggling_adds_no_graph(way: Way, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With and without a mask, with and without the slow stream: a graph each, once."""
    rows = spy_on_rows(monkeypatch)
    model, inputs, targets = trained(build("foreign"))
    masks = [right_padded(), None, packed()]
    expected = []
    for mask in masks:
        part = targets if mask is None else targets.masked_fill(~mask, -100)
        model.zero_grad()
        expected.append(row_of(model, inputs, part, mask))
    optimizer = without_updates(model)
    graphs = []
    every = {"fast": 1, "slow": 2}
    with Recorder(model, tmp_path / "run", optimizer=optimizer, every=every, example=inputs) as recorder:
        called = way(model)
        for step in range(24):
            optimizer.zero_grad()
            mask = masks[step % 3]
            if mask is None:
                loss = mean_loss(called(inputs), targets)
            else:
                with recorder.tokens(mask):
                    loss = mean_loss(called(inputs), targets.masked_fill(~mask, -100))
            loss.backward()
            optimizer.step()
            recorder.step(loss=loss.detach())
            graphs.append(counters["stats"]["unique_graphs"])
    assert graphs[-1] == graphs[5], graphs
    assert sum(counters["graph_break"].values()) == 0
    for step in range(24):
        wanted = {name: value for name, value in expected[step % 3].items() if name != "tokens"}
        compare(rows["fast"][step], wanted, tolerance=2e-5)


@pytest.mark.parametrize("way", [pytest.param(whole, marks=pytest.mark.soak), each_block])
def test_masks_of_ever_other_lengths_share_their_graphs(
    way: Way, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = spy_on_rows(monkeypatch)
    model, inputs, targets = trained(build("foreign"))
    optimizer = without_updates(model)
    lengths, graphs = (TIME, 7, 5, 8, 6, 9), []
    with Recorder(model, tmp_path / "run", optimizer=optimizer, example=inputs) as recorder:
        called = way(model)
        for time in lengths:
            mask = right_padded()[:, :time]
            with recorder.tokens(mask):
                logits = called(inputs[:, :time])
            mean_loss(logits, targets[:, :time].masked_fill(~mask, -100)).backward()
            optimizer.step()
            recorder.step()
            optimizer.zero_grad()
            graphs.append(counters["stats"]["unique_graphs"])
    assert graphs[-1] == graphs[1], graphs
    for step, time in enumerate(lengths):
        mask = right_padded()[:, :time]
        model.zero_grad()
        part = targets[:, :time].masked_fill(~mask, -100)
        expected = row_of(build_like(model), inputs[:, :time], part, mask)
        names = ("write_rms", "state_logrms", "grad_write_rms", "grad_read_rms", "param_grad_norm", "abs_max")
        compare(rows["fast"][step], {name: expected[name] for name in names}, tolerance=2e-5)


@pytest.mark.parametrize("reentrant", [True, False])
@pytest.mark.parametrize("way", [eagerly, each_block])
def test_a_recomputation_outside_of_the_context_has_its_forwards_mask(
    reentrant: bool, way: Way, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = spy_on_rows(monkeypatch)
    model: Any
    model, inputs, targets = trained(build("foreign"))
    mask = packed()
    targets = targets.masked_fill(~mask, -100)
    expected = row_of(model, inputs, targets, mask)
    model.zero_grad()

    def forward(ids: Tensor) -> Tensor:
        x = model.letters(ids) + model.places.weight
        for stage in model.tower:
            x = checkpoint(stage, x, use_reentrant=reentrant)
        return model.out(model.last(x))  # type: ignore[no-any-return]

    optimizer = without_updates(model)
    recorder = Recorder(model, tmp_path / "run", optimizer=optimizer, example=inputs)
    model.forward = forward
    called = way(model)
    with recorder.tokens(mask):
        loss = mean_loss(called(inputs), targets)
    loss.backward()
    optimizer.step()
    recorder.step(loss=loss.detach())
    recorder.close()
    compare(rows["fast"][0], expected, tolerance=2e-5)


def test_without_a_mask_the_attribute_says_all_positions(tmp_path: Path) -> None:
    model, inputs, targets = trained(build("block-attnres:S=3"))
    with Recorder(model, tmp_path / "run", every={"fast": 1, "slow": 1}) as recorder:
        mean_loss(model(inputs), targets).backward()
        recorder.step()
    run = open_run(tmp_path / "run")
    assert run["loss_tokens"].values.tolist() == [BATCH * TIME]
    for name in ("state_rms", "grad_write_rms", "depth_attention", "grad_relative"):
        assert run[name].attrs["token_mask"].startswith("all positions"), name
    assert "token_mask" not in run["learning_rate"].attrs
    assert "counts every position" in str(recorder.report())


def test_tokens_seen_are_those_that_count_also_between_rows(tmp_path: Path) -> None:
    model, inputs, targets = trained(build("prenorm"))
    counted = int(packed().sum())
    with Recorder(model, tmp_path / "run", every=3) as recorder:
        for step in range(7):
            if step == 5:
                state = recorder.state_dict()
            with recorder.tokens(packed()):
                mean_loss(model(inputs), targets).backward()
            recorder.step(**({"tokens": 4} if step == 1 else {}))
            model.zero_grad()
    assert state["tokens_seen"] == 4 * counted + 4
    assert isinstance(state["tokens_seen"], int)
    run = open_run(tmp_path / "run")
    assert run["tokens"].values.tolist() == [0, 2 * counted + 4, 5 * counted + 4]
    assert run["loss_tokens"].values.tolist() == [counted] * 3
    assert "counts every position" not in str(recorder.report())


UNFIT = {
    "one position too many": torch.ones(BATCH, TIME + 1, dtype=torch.bool),
    "one position too few": torch.ones(BATCH, TIME - 1, dtype=torch.bool),
    "another batch": torch.ones(BATCH - 1, TIME, dtype=torch.int64),
    "time first": right_padded().T,
    "whole sequences": torch.tensor([True, True, False]),
    "an axis more": right_padded()[..., None],
}


@pytest.mark.parametrize(
    ("way", "mask"),
    [
        *(pytest.param(eagerly, mask, id=name) for name, mask in UNFIT.items()),
        pytest.param(each_block, UNFIT["one position too many"], id="compiled: one position too many"),
        pytest.param(
            whole, UNFIT["one position too few"], id="compiled whole: too few", marks=pytest.mark.soak
        ),
    ],
)
def test_a_mask_that_does_not_fit_is_named_and_nothing_is_guessed(
    way: Way, mask: Tensor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = spy_on_rows(monkeypatch)
    model, inputs, targets = trained(build("foreign"))
    recorder = Recorder(model, tmp_path / "run", example=inputs)
    called = way(model)

    def step() -> None:
        with recorder.tokens(mask):
            mean_loss(called(inputs), targets).backward()
        recorder.step(loss=1.0)
        recorder.close()

    with pytest.warns(UserWarning, match=r"does not fit.*\[batch, time\]") as warned:
        step()
    assert len(warned) == 1
    nothing_but_parameters(rows)
    assert "does not fit" in str(open_run(tmp_path / "run").missing)


def nothing_but_parameters(rows: dict[str, dict[int, dict[str, Any]]], step: int = 0) -> None:
    row = rows["fast"][step]
    assert row["loss"] == 1
    for name in ("state_rms", "write_rms", "grad_write_rms", "loss_tokens"):
        assert np.isnan(row.get(name, np.nan)).all(), name
    mixing = rows["slow"].get(step, {}).get("mixing_contribution", np.nan)
    assert np.isnan(mixing).all()
    assert np.isfinite(row["grad_norm"])


NO_MASK = {
    "float32": (torch.zeros(BATCH, TIME), "a tensor of torch.float32"),
    "a list": ([True], "a list"),
    "one entry": (torch.tensor(True), "a tensor with one entry and no dims"),
    "sparse": (right_padded().to_sparse(), "a tensor of layout torch.sparse_coo"),
    "meta": (right_padded().to("meta"), "a tensor on the meta device, which holds nothing"),
}


@pytest.mark.parametrize("given", NO_MASK)
def test_something_that_is_no_mask_is_refused_by_name(given: str, tmp_path: Path) -> None:
    mask, words = NO_MASK[given]
    model, inputs, _ = trained(build("prenorm"))
    recorder = Recorder(model, tmp_path / "run", example=inputs)
    with pytest.raises(TypeError, match=f"got {words}; expected a bool tensor"), recorder.tokens(mask):  # type: ignore[arg-type]
        pass


@pytest.mark.parametrize("way", [eagerly, each_block, pytest.param(whole, marks=pytest.mark.soak)])
def test_recording_goes_on_behind_something_that_is_no_mask(
    way: Way, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Row 0 has nothing of its forward, since some positions were to be left out; row 1 is whole."""
    rows = spy_on_rows(monkeypatch)
    model, inputs, targets = trained(build("foreign"))
    targets = targets.masked_fill(~packed(), -100)
    expected = row_of(model, inputs, targets, packed())
    model.zero_grad()
    optimizer = without_updates(model)
    monkeypatch.setenv("DEPTHSCOPE_STRICT", "0")
    recorder = Recorder(model, tmp_path / "run", optimizer=optimizer, example=inputs)
    called = way(model)

    def step(mask: Tensor) -> None:
        with recorder.tokens(mask):
            loss = mean_loss(called(inputs), targets)
        loss.backward()
        optimizer.step()
        recorder.step(loss=1.0)
        optimizer.zero_grad()

    def loop() -> None:
        step(packed().float())
        step(packed())
        recorder.close()

    with pytest.warns(UserWarning, match=r"got a tensor of torch\.float32; expected a bool tensor") as warned:
        loop()
    assert len(warned) == 1
    nothing_but_parameters(rows)
    names = ("write_rms", "state_rms", "grad_write_rms", "grad_norm", "loss_tokens")
    compare(rows["fast"][1], {name: expected[name] for name in names}, tolerance=2e-5)


@pytest.mark.parametrize(
    ("shape", "fit"),
    [
        ((6, 8), True),
        ((1, 6, 8), True),
        ((6, 2, 8), False),  # a batch of six, each of two positions
        ((6, 6, 8), False),
        ((5, 6), True),  # a mixer's weights over flat positions
        ((5, 4), False),
    ],
)
def test_a_mask_of_one_dim_is_over_flat_positions(shape: tuple[int, ...], fit: bool) -> None:
    assert fits(torch.tensor([True, True, False, True, False, False]), torch.zeros(shape)) == fit


def test_what_is_left_out_may_be_nan() -> None:
    """Three tokens of two features; the last is not counted and holds NaN and infinity."""
    vectors = torch.tensor([[[3.0, 4.0], [6.0, -8.0], [torch.nan, torch.inf]]])
    counted = torch.tensor([True, True, False])
    seen = {"state": Activation(vectors, counted=counted)}
    found = Magnitude().moments(Site(kind="state", position=0), seen)
    assert {name: float(value) for name, value in found.items()} == pytest.approx(
        {"state_square": 125.0, "state_log": np.log(50.0), "nonfinite": 0.0, "abs_max": 8.0}
    )


@pytest.mark.parametrize(
    ("shape", "fit"),
    [
        ((2, 3, 8), True),
        ((6, 8), True),  # flattened
        ((1, 6, 8), True),
        ((2, 3, 4, 8), True),  # four streams
        ((3, 2, 8), False),  # time first
        ((2, 4, 8), False),
        ((5, 2, 3), True),  # a mixer's weights
        ((5, 2, 3, 4), True),  # of four heads
    ],
)
def test_which_tensors_a_mask_fits(shape: tuple[int, ...], fit: bool) -> None:
    mask = torch.tensor([[True, True, False], [True, False, False]])
    tensor = torch.zeros(shape)
    assert fits(mask, tensor) == fit
    if fit and shape[-1] == 8:
        counted = over_tokens(mask, tensor)
        assert counted is not None
        streams = 4 if len(shape) == 4 else 1
        assert counted.tolist() == [flag for flag in mask.flatten().tolist() for _ in range(streams)]


@pytest.mark.parametrize("count", [0, 7, 2**24 + 1, 2**40 + 3])
def test_whole_numbers_of_a_device_are_exact_although_they_travel_in_fp32(count: int) -> None:
    on_device, on_host = split(
        {"tokens": torch.tensor(count), "loss": torch.tensor(1.5), "given": 3}, torch.device("cpu")
    )
    travelled = {name: value.to(torch.float32).item() for name, value in on_device.items()}
    assert joined(on_host | travelled) == {"tokens": count, "loss": 1.5, "given": 3}
