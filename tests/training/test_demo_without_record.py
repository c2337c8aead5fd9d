"""The demo as a trainer alone."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from depthscope.training import DemoOptions, run_demo

TINY = DemoOptions(
    designs=("prenorm", "block-attnres:S=2"),
    steps=4,
    width=16,
    layers=4,
    context=16,
    batch=2,
    device="cpu",
    record=False,
)


@pytest.mark.parametrize("terminal", [False, True])
def test_it_trains_says_how_far_it_is_and_leaves_nothing(tmp_path, monkeypatch, terminal):
    monkeypatch.chdir(tmp_path)
    text = io.StringIO()
    assert run_demo(TINY, Console(file=text, force_terminal=terminal, width=120)) == 0
    assert list(tmp_path.iterdir()) == []
    for word in ("2 designs, 4 steps each", "4 sublayers of width 16", "prenorm", "block-attnres-S2", "4/4"):
        assert word in text.getvalue()
    lines = text.getvalue().splitlines()
    assert [line.split()[0] for line in lines[-2:]] == ["prenorm", "block-attnres-S2"]
    assert all(4 < float(line.split()[1]) < 6 for line in lines[-2:])
