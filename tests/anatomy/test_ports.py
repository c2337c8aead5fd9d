"""`port_value` finds the tensor that a port means."""

from __future__ import annotations

from collections import namedtuple
from dataclasses import dataclass

import pytest
import torch

from depthscope.anatomy import port_value
from depthscope.marks import Port

A, B, C = torch.randn(2), torch.randn(3), torch.randn(4)
WHOLE = torch.tensor([1, 2])

Pair = namedtuple("Pair", ["first", "second"])


@dataclass
class Output:
    count: int
    hidden: torch.Tensor
    more: tuple[torch.Tensor, ...]


def output(path, value):
    return port_value(Port(module="", side="output", path=path), (), {}, value)


def argument(path, args=(), kwargs=None):
    return port_value(Port(module="", side="input", path=path), args, kwargs or {}, None)


@pytest.mark.parametrize(
    ("path", "value", "expected"),
    [
        ((), A, A),
        ((), (None, WHOLE, (A, B)), A),
        ((), {"mask": WHOLE, "x": B}, B),
        ((), Output(1, A, (B,)), A),
        ((0,), (A, B), A),
        ((-1,), (A, B), B),
        ((1, 0), (A, [B, C]), B),
        ((-1,), [A, (WHOLE, C)], C),
        (("x",), {"y": A, "x": B}, B),
        ((1,), {"y": A, "x": B}, B),
        (("hidden",), Output(1, A, (B,)), A),
        (("more", 0), Output(1, A, (B,)), B),
        ((1,), Pair(A, B), B),
        ((), None, None),
        ((), WHOLE, None),
        ((3,), (A, B), None),
        ((-3,), (A, B), None),
        (("x",), (A, B), None),
        (("z",), Output(1, A, ()), None),
        ((0, 0), (None, A), None),
    ],
)
def test_a_path_leads_into_an_output(path, value, expected):
    assert output(path, value) is expected


@pytest.mark.parametrize(
    ("path", "args", "kwargs", "expected"),
    [
        ((), (A, B), {}, A),
        ((), ((A, B), C), {}, A),
        ((), (), {"mask": WHOLE, "x": B}, B),
        ((1,), (A, B), {}, B),
        ((-1,), (A, B), {}, B),
        ((0, 1), ((A, B), C), {}, B),
        (("x",), (A,), {"x": B}, B),
        (("x", -1), (A,), {"x": (B, C)}, C),
        ((2,), (A, B), {}, None),
        (("x",), (A,), {}, None),
        ((), (), {}, None),
        ((), (WHOLE, A), {}, None),
    ],
)
def test_a_path_leads_into_the_arguments(path, args, kwargs, expected):
    assert argument(path, args, kwargs) is expected
