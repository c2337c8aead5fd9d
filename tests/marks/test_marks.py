"""A coefficient is the plain call until a tape records it; a port prints as a place."""

from __future__ import annotations

import subprocess
import sys

import pytest

from depthscope.marks import Port, Tape, coefficient


def test_without_a_tape_a_coefficient_is_the_call_itself():
    assert coefficient(pow, 3, 2) == 9


def test_a_tape_records_and_then_replays_whatever_the_arguments():
    tape = Tape()
    with tape:
        assert [coefficient(pow, 3, 2), coefficient(pow, 2, 5)] == [9, 32]
    assert tape.values == [9, 32]
    with tape:
        assert [coefficient(pow, 0, 1), coefficient(pow, 0, 1)] == [9, 32]
    assert coefficient(pow, 0, 1) == 0


def test_nested_coefficients_are_part_of_the_outer_value():
    tape = Tape()
    with tape:
        coefficient(lambda: coefficient(pow, 2, 2) + coefficient(pow, 2, 3))
    assert tape.values == [12]


def test_tapes_nest_and_give_the_outer_one_back():
    outer, inner = Tape(), Tape()
    with outer:
        coefficient(pow, 2, 1)
        with inner:
            coefficient(pow, 2, 2)
        coefficient(pow, 2, 3)
    assert (outer.values, inner.values) == ([2, 8], [4])


def powers(tape, *exponents):
    with tape:
        return [coefficient(pow, 2, exponent) for exponent in exponents]


def test_a_replay_of_another_forward_is_refused():
    tape = Tape()
    powers(tape, 2, 3)
    with pytest.raises(RuntimeError, match="holds 2 coefficients and the replay asks for one more"):
        powers(tape, 1, 1, 1)
    with pytest.raises(RuntimeError, match="asked for 1 of the 2"):
        powers(tape, 1)
    assert powers(tape, 1, 1) == [4, 8]


def test_half_a_forward_is_no_record():
    tape = Tape()
    with pytest.raises(TypeError):
        powers(tape, 2, "three")
    assert tape.values == []
    assert powers(tape, 3) == [8]
    assert coefficient(pow, 2, 2) == 4


@pytest.mark.parametrize(
    ("port", "text"),
    [
        (Port(module="end", side="output"), "end.output"),
        (Port(module="layers.2.write", side="output", path=(-1,)), "layers.2.write.output[-1]"),
        (Port(module="", side="input", path=("hidden", 0)), "(root).input['hidden'][0]"),
    ],
)
def test_a_port_prints_as_a_place(port, text):
    assert str(port) == text


def test_marks_alone_load_no_torch():
    program = "import sys, depthscope.marks; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
