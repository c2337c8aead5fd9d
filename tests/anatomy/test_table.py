"""Printing an anatomy."""

from __future__ import annotations

import torch

from depthscope.anatomy import inspect_model
from tests.anatomy.foreign_blocks import Sandwich
from tests.anatomy.foreign_gpt import ForeignGPT, tokens


def test_the_table_has_a_line_for_each_sublayer_with_its_ports():
    torch.manual_seed(0)
    lines = str(inspect_model(ForeignGPT(Sandwich, blocks=2), tokens())).splitlines()
    assert lines[0] == "ForeignGPT: 4 sublayers, design additive (residual-write solve)"
    assert lines[1] == "blocks: stack: ModuleList of 2 Sandwich, 2,568 parameters"
    assert lines[3].split() == ["layer", "block", "kind", "module", "read", "write", "state", "checks"]
    assert lines[4].split()[:7] == [
        "1",
        "1",
        "attention",
        "stack.0.one",
        "stack.0.n1.input[0]",
        "stack.0.n2.output",
        "stack.0.n3.input[0]",
    ]
    assert lines[7].split()[:7] == [
        "4",
        "2",
        "mlp",
        "stack.1.two",
        "stack.1.n3.input[0]",
        "stack.1.n4.output",
        "stack.1.output",
    ]
    assert lines[-2:] == ["embedding   stack.0.input[0]", "final read  m.input[0]"]


def test_the_columns_are_aligned():
    lines = str(inspect_model(ForeignGPT(Sandwich, blocks=2), tokens())).splitlines()
    for title in ("kind", "module", "read", "write", "state", "checks"):
        start = lines[3].index(title)
        assert all(line[start - 2 : start] == "  " and line[start] != " " for line in lines[4:8]), title


def test_every_check_is_shown_passed():
    anatomy = inspect_model(ForeignGPT(Sandwich, blocks=2), tokens())
    assert [check.block for check in anatomy.checks] == ["stack.0", "stack.1"]
    assert all(check.passed and check.value < 1e-6 for check in anatomy.checks)
    assert str(anatomy).count(" ok") == 4
