"""The benchmark for a CUDA device, rehearsed on the CPU: every section runs, and nothing is made up."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from benchmarks import gpu
from depthscope.store import open_run

pytestmark = [
    pytest.mark.filterwarnings("ignore:`torch.jit.:DeprecationWarning"),  # torch's own, on import of inductor
    pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning"),
]


@pytest.fixture(scope="module")
def rehearsal(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], Path]:
    folder = tmp_path_factory.mktemp("gpu")
    torch._dynamo.reset()
    code = gpu.main(["--rehearse", "--json", str(folder / "table.json"), "--out", str(folder / "out")])
    torch._dynamo.reset()
    table = json.loads((folder / "table.json").read_text())
    assert code == 0, [line for line in table["lines"] if line["held"] is False]
    return table, folder / "out"


def test_each_section_ran_and_every_limit_held(rehearsal: tuple[dict[str, Any], Path]) -> None:
    lines = rehearsal[0]["lines"]
    sections = dict.fromkeys(line["section"] for line in lines)
    assert list(sections) == ["correctness", "synchronisation", "cuda graphs", "cost", "kernels", "training"]
    assert all(line["held"] is not False for line in lines)
    for section in sections:
        assert [line for line in lines if line["section"] == section and line["value"] is not None]
    assert not [line for line in lines if "left out" in line["note"] or line["what"] in ("failed", "stopped")]


def test_what_only_a_device_can_tell_is_said_to_need_one(rehearsal: tuple[dict[str, Any], Path]) -> None:
    needing = [line for line in rehearsal[0]["lines"] if line["note"] == "needs CUDA"]
    assert {line["section"] for line in needing} == {"synchronisation", "cuda graphs", "kernels"}
    assert all(line["value"] is None for line in needing)


def test_every_design_and_precision_was_compared(rehearsal: tuple[dict[str, Any], Path]) -> None:
    compared = [line for line in rehearsal[0]["lines"] if line["section"] == "correctness" and line["limit"]]
    assert len(compared) == 9  # three designs, in fp32, in bf16, and in bf16 compiled
    # Rows are stored in fp32 (6e-8), and a bf16 number is right to 2^-9.
    for line in compared:
        assert 0 < line["value"] < (1e-6 if "fp32" in line["what"] else 2e-3)


def test_training_leaves_three_runs_and_their_figures(rehearsal: tuple[dict[str, Any], Path]) -> None:
    out = rehearsal[1]
    for folder in ("prenorm", "block-attnres-S4", "hires-n2"):
        run = open_run(out / "runs" / folder)
        assert run.status == "finished"
        assert len(run["state_rms"]) == 6
    assert {path.stem for path in out.glob("*.pdf")} == {
        "depth-profile",
        "depth-map",
        "depth-attention",
        "block-boundaries",
        "skip-paths",
        "outer-state",
    }


def test_a_recorder_that_is_wrong_misses_a_limit(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A gradient that is 1 % too large, as one not unscaled or not summed would be by more."""
    from benchmarks.device import correctness
    from depthscope.probes import Gradient

    original = Gradient.finish
    monkeypatch.setattr(correctness, "DESIGNS", ("prenorm",))
    monkeypatch.setattr(correctness, "PRECISIONS", ("fp32",))
    monkeypatch.setattr(gpu, "sections", lambda out: {"correctness": correctness.correctness})
    monkeypatch.setattr(
        Gradient,
        "finish",
        lambda self, merged, row: {name: 1.01 * value for name, value in original(self, merged, row).items()},
    )
    assert gpu.main(["--rehearse"]) == 1
    assert "MISSED" in capsys.readouterr().out
