"""`depthscope doctor`: the table of health, a verified step, and what is said about anything else."""

from __future__ import annotations

import fcntl
from pathlib import Path
from typing import Any

import pytest

from depthscope.cli import health, main
from depthscope.probes import registered
from tests.cli.conftest import Type

HERE = "tests.testing.setups"


def verify(name: str, capsys: pytest.CaptureFixture[str], *more: str) -> tuple[int, str, str]:
    code = main(["doctor", "--verify", name if ":" in name else f"{HERE}:{name}", *more])
    told = capsys.readouterr()
    return code, told.out, told.err


def test_without_arguments_it_tells_what_a_recording_depends_on(typed: Type, tmp_path: Path) -> None:
    found = typed("doctor")
    assert found.code == 0, found.err
    rows = {
        line.split("  ")[1].strip() if line.startswith("ok") else line.strip()
        for line in found.out.splitlines()
    }
    for what in ("depthscope", "python", "zarr", "torch", "torch.distributed", "file locks"):
        assert any(what in row for row in rows), what
    assert f"work in {tmp_path}" in found.out
    assert "nnsight" in found.out
    assert "DEPTHSCOPE_STRICT" in found.out


def test_a_file_system_without_locks_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def refuse(*_: Any) -> None:
        raise OSError(37, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    fact = health._locks(str(tmp_path))
    assert (fact.state, "No locks available" in fact.found, "heartbeat" in fact.found) == ("-", True, True)
    assert "can't be written" not in fact.found


def test_a_broken_probe_of_others_is_wrong(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    entry = registered.EntryPoint(name="theirs", value="not_there:probe", group="depthscope.probes")
    monkeypatch.setattr(registered, "entry_points", lambda group: [entry])
    assert main(["doctor"]) == 1
    assert "WRONG  probes of others" in capsys.readouterr().out


def test_a_step_that_is_recorded_right(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = verify("plain", capsys)
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0] == f"One step of {HERE}:plain: additive, 8 sublayers, against fp64, tolerance 0.001"
    assert lines[1].split() == ["quantity", "entries", "recorded", "fp64", "difference"]
    row = next(line.split() for line in lines if " state_rms " in line)
    assert row[:3] == ["ok", "state_rms", "8"]
    assert abs(float(row[3]) / float(row[4]) - 1) < 1e-5
    assert lines[-1].endswith("all agree")


def test_a_step_that_is_not(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = verify("plain", capsys, "--tolerance", "1e-13")
    assert code == 1
    assert "NOT OK" in out
    assert "differ: " in out.splitlines()[-1]


@pytest.mark.parametrize(
    ("target", "code", "words"),
    [
        ("plain:", 2, "is not of the form module:name"),
        ("no_such_module:setup", 2, "no module is called 'no_such_module'"),
        ("plane", 2, "has no 'plane'; did you mean plain"),
        ("constant", 2, "is a int; expected a function without arguments"),
        ("raises", 1, "RuntimeError: no weights at hand"),
        (
            "raising_step",
            1,
            "the step of 'tests.testing.setups:raising_step' raised RuntimeError: the batch is gone",
        ),
        ("two_values", 1, "returned 2 values; expected (model, optimizer, step)"),
        ("number", 1, "returned a int without 'model'"),
        ("misspelt", 1, "returned 'scalar'; expected model, optimizer, step, scaler, reference, example"),
        ("no_model", 1, "model is a str; expected the torch.nn.Module"),
        ("no_optimizer", 1, "optimizer is a str; expected a torch.optim.Optimizer"),
        ("no_function", 1, "step is a int; expected a function step(model, optimizer, recorder)"),
        ("never_ended", 1, "step() never called recorder.step()"),
        ("two_steps", 1, "step() called recorder.step() 2 times"),
        ("without_the_optimizer", 1, "step() made no step of the optimizer"),
        ("without_depth", 1, "no depth axis was found"),
    ],
)
def test_what_is_no_setup_is_told_in_words(
    target: str, code: int, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found, out, err = verify(target, capsys)
    assert words in err
    assert (found, out) == (code, "")
    assert "Traceback" not in err


@pytest.mark.parametrize("text", ["zero", "0", "-1", "nan"])
def test_a_tolerance_is_a_number_above_0(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--verify", f"{HERE}:plain", f"--tolerance={text}"]) == 2
    assert "expected" in capsys.readouterr().err


def test_a_tolerance_without_a_step_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--tolerance", "0.1"]) == 2
    assert "--tolerance is for --verify" in capsys.readouterr().err
