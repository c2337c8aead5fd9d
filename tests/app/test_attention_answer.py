"""Depth attention, the answers without a browser: what the title's help says of the marks."""

from __future__ import annotations

from pathlib import Path

from depthscope.app.pages.depth_attention_answers import attention_answer
from depthscope.app.reading import CachedRun
from depthscope.app.state import read_ask
from depthscope.store import open_run
from tests.figures.mixing_runs import record_mixing


def test_the_title_s_help_says_what_a_pale_entropy_bar_is(tmp_path: Path) -> None:
    run = CachedRun(open_run(record_mixing(tmp_path / "run", steps=(0, 10))), "run")
    answer = attention_answer(read_ask({"runs": ["run"]}, ["run"]), [run], {"run": 1})
    assert "pale where a target reads three sources or fewer" in answer.definition
