"""The report per site: what every place gave, and of what it did not give the likely cause."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from depthscope.recording import Recorder, SiteLine
from depthscope.recording.site_lines import grouped, where
from depthscope.store import open_run
from tests.recording.loops import ForeignGPT, batches, build, optimizer_of, train

# Of torch itself, for a compiled module whose input is no leaf.
pytestmark = pytest.mark.filterwarnings(
    "ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning"
)


@pytest.fixture(autouse=True)
def fresh_compiler() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def recorded(
    model: nn.Module,
    path: Path,
    *,
    steps: int = 3,
    after_attach: Callable[[Any], None] = lambda model: None,
    **options: Any,
) -> tuple[Recorder, list[str]]:
    """Record some steps; return the recorder, closed, and what it warned of."""
    draw, optimizer = batches(), optimizer_of(model)
    every = {"fast": 1, "slow": 1}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        recorder = Recorder(model, path, optimizer=optimizer, every=every, **options)
        after_attach(model)
        train(model, steps, draw, optimizer, lambda loss: recorder.step(loss=loss))
        recorder.close()
    return recorder, [str(each.message) for each in caught if "depthscope" in str(each.message)]


def lines(recorder: Recorder, site: str) -> dict[str, SiteLine]:
    """Return the report's lines of a kind of site, by their places."""
    return {line.where: line for line in recorder.report().sites if line.site == site}


def at(recorder: Recorder, site: str, layer: int) -> SiteLine:
    """Return the line that tells of a layer, whichever others share it."""
    for place, line in lines(recorder, site).items():
        words = place.split(" (")[0].partition(" ")[2]
        ends = [[int(end) for end in part.split("-")] for part in words.split(", ")]
        if any(span[0] <= layer <= span[-1] for span in ends):
            return line
    raise AssertionError(f"no line tells of {site} {layer}")


def reasons(line: SiteLine) -> str:
    return "; ".join(reason for reason, _ in line.missing)


def example() -> Tensor:
    return batches()()[0]


def test_a_model_that_gives_everything_has_a_line_a_kind(tmp_path: Path) -> None:
    recorder, warned = recorded(build("prenorm"), tmp_path / "run")
    report = recorder.report()
    assert not warned
    assert [(line.site, line.where) for line in report.sites] == [
        ("write", "layers 1-8"),
        ("state", "layers 1-8"),
        ("read", "layers 1-8"),
        ("sublayer parameters", "layers 1-8"),
        ("embedding", ""),
        ("final read", ""),
        ("embedding parameters", ""),
        ("head parameters", ""),
        ("final norm parameters", ""),
        ("rest parameters", ""),
    ]
    assert not any(line.missing for line in report.sites)
    assert set(lines(recorder, "read")["layers 1-8"].recorded) == {"read_rms", "read_logrms", "grad_read_rms"}


def test_mixers_and_outer_blocks_are_sites(tmp_path: Path) -> None:
    recorder, _ = recorded(build("block-attnres:S=3"), tmp_path / "mixed")
    mixers = lines(recorder, "mixer")
    assert set(mixers) == {"target 1 (1 attention)", "targets 2-9"}
    assert mixers["target 1 (1 attention)"].missing == (
        ("it has one source only", ("depth_attention_entropy",)),
    )
    recorder, _ = recorded(build("hires:B=2,n=2"), tmp_path / "outer")
    outer = lines(recorder, "outer state")
    assert {"outer_energy", "outer_unread_share", "write_read_coupling"} <= set(outer["block 1"].recorded)
    assert outer["block 2"].missing == (("no block comes after it", ("write_read_coupling",)),)
    fresh = lines(recorder, "write")["layers 4, 8"]
    assert fresh.missing == (("no next read is known to hold the newest write", ("fresh_share",)),)


def test_streams_outputs_and_states_before_their_norms_are_sites(tmp_path: Path) -> None:
    recorder, _ = recorded(build("hc:n=2,dynamic=no"), tmp_path / "wide")
    streams = lines(recorder, "streams")["layers 1-8"]
    assert {"stream_energy", "stream_mixing", "gain_forward"} <= set(streams.recorded)
    assert not streams.missing
    assert lines(recorder, "output")["layers 1-8"].recorded == ("output_rms",)
    recorder, _ = recorded(build("postnorm"), tmp_path / "normed")
    assert lines(recorder, "state before its norm")["layers 1-8"].recorded == ("state_prenorm_rms",)


def test_the_run_carries_the_table_for_those_who_have_no_torch(tmp_path: Path) -> None:
    recorder, _ = recorded(build("block-attnres:S=3"), tmp_path / "run")
    told = open_run(tmp_path / "run").notes["sites"]
    assert told == [line.to_json() for line in recorder.report().sites]


def test_a_forward_that_its_parent_bypasses_is_named(tmp_path: Path) -> None:
    def bypass(model: Any) -> None:
        stage = model.tower[2]

        def forward(x: Tensor) -> Tensor:
            x = x + stage.alpha(stage.u(x))
            return x + stage.beta.forward(stage.w(x))

        stage.forward = forward

    recorder, warned = recorded(build("foreign"), tmp_path / "run", after_attach=bypass, example=example())
    line = lines(recorder, "write")["layer 6 (tower.2.beta)"]
    assert "the parent bypasses its forward" in reasons(line)
    assert line.recorded == (), "a layer whose write is not seen is missing as a whole"
    assert "write of layer 6 (tower.2.beta): never fired, though its parameters get gradients" in warned[0]
    assert "together with the write" in reasons(lines(recorder, "read")["layer 6 (tower.2.beta)"])
    assert "layers 1-5, 7-8" in lines(recorder, "write")


def test_a_stage_that_is_never_used_is_named_as_such(tmp_path: Path) -> None:
    def drop(model: Any) -> None:
        model.tower[1].forward = lambda x: x

    recorder, warned = recorded(build("foreign"), tmp_path / "run", after_attach=drop, example=example())
    for layer in (3, 4):
        assert "its parameters get no gradient: unused" in reasons(at(recorder, "write", layer))
    assert len(warned) == 1
    assert "write of layer 3" in warned[0]
    assert "no gradient came to its parameters" in reasons(
        lines(recorder, "sublayer parameters")["layers 3-4"]
    )


def test_a_module_that_was_replaced_is_named(tmp_path: Path) -> None:
    def replace(model: Any) -> None:
        model.tower[0].beta = ForeignGPT().tower[0].beta

    recorder, _ = recorded(build("foreign"), tmp_path / "run", after_attach=replace, example=example())
    assert "replaced after the recorder" in reasons(lines(recorder, "write")["layer 2 (tower.0.beta)"])


def test_frozen_parameters_are_named(tmp_path: Path) -> None:
    model: Any = build("foreign")
    model.tower[0].requires_grad_(False)
    model.letters.requires_grad_(False)
    model.places.requires_grad_(False)
    recorder, warned = recorded(model, tmp_path / "run", example=example())
    frozen = lines(recorder, "sublayer parameters")["layers 1-2"]
    assert reasons(frozen).startswith("frozen")
    assert not frozen.recorded
    assert "all in front of it is frozen" in reasons(at(recorder, "write", 1))
    assert not warned, "freezing is what the loop asked for"


def test_one_block_that_ran_compiled_before_attaching_is_named_at_its_sites(tmp_path: Path) -> None:
    model: Any = build("foreign")
    model.tower[1].compile(backend="aot_eager")
    train(model, 1, batches(), optimizer_of(model))
    model.zero_grad()
    recorder, warned = recorded(model, tmp_path / "run", example=example())
    for site, layer in (("write", 3), ("write", 4), ("state", 3)):
        assert "torch.compiler.reset()" in reasons(at(recorder, site, layer))
    assert any("write of layer 3" in each and "torch.compiler.reset()" in each for each in warned)
    assert not at(recorder, "write", 5).missing


def test_before_enough_steps_were_due_nothing_is_blamed(tmp_path: Path) -> None:
    model: Any = build("foreign")
    draw, optimizer = batches(), optimizer_of(model)
    recorder = Recorder(model, tmp_path / "run", optimizer=optimizer, example=example())
    model.tower[1].forward = lambda x: x
    train(model, 2, draw, optimizer, lambda loss: recorder.step(loss=loss))
    assert recorder._session is not None
    recorder._session.handover.wait()
    assert reasons(at(recorder, "write", 3)) == "not seen in 2 due steps so far"
    recorder.close()
    assert "unused" in reasons(at(recorder, "write", 3)), "no more steps come"


def test_a_slow_stream_that_never_was_due_says_so(tmp_path: Path) -> None:
    model = build("block-attnres:S=3")
    draw, optimizer = batches(), optimizer_of(model)
    with Recorder(
        model, tmp_path / "run", optimizer=optimizer, start_step=1, every={"fast": 1, "slow": 50}
    ) as r:
        train(model, 3, draw, optimizer, lambda loss: r.step(loss=loss))
    assert reasons(lines(r, "mixer")["targets 2-9"]) == "no step of the slow stream was due (every 50)"


def test_a_hundred_sublayers_stay_readable(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model: Any = ForeignGPT(stages=64, width=4)
    for stage in list(model.tower)[40:42]:
        stage.requires_grad_(False)
    recorder, _ = recorded(model, tmp_path / "run", example=example())
    text = str(recorder.report())
    assert "layers 1-80, 85-128: param_grad_norm" in text
    assert len(text.splitlines()) < 60
    assert max(map(len, text.splitlines())) < 240


def test_places_in_words() -> None:
    assert where("layer", [2], ["a", "b", "c"]) == "layer 3 (c)"
    assert where("layer", [0, 1, 2, 5]) == "layers 1-3, 6"
    assert where("layer", [0, 2, 4, 6]) == "layers 1, 3, ... 7"
    assert where("block", [0, 1]) == "blocks 1-2"
    assert where("", [0]) == ""


def test_places_with_the_same_outcome_share_a_line() -> None:
    whole = (("write_rms",), ())
    half = ((), (("write_rms", "why"),))
    first, second = grouped("write", "layer", (), [whole, half, whole, half, half])
    assert (first.where, first.recorded) == ("layers 1, 3", ("write_rms",))
    assert (second.where, second.missing) == ("layers 2, 4-5", (("why", ("write_rms",)),))
