"""Limits, ticks and encodings: properties that hold for any values."""

from __future__ import annotations

import base64
import math
from itertools import pairwise

import numpy as np
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from depthscope.figures import limits_of, plotly_text, run_dash, shortened, significant, theme
from depthscope.figures.limits import axis_range
from depthscope.figures.shown import difference, ratio_to_first
from depthscope.figures.ticks import layer_ticks, log_ticks, round_ticks
from depthscope.figures.typed import typed

finite = st.floats(-1e6, 1e6, allow_nan=False, width=32)
positive = st.floats(2**-20, 2**20, width=32)
anything = st.floats(width=32)


def array(values: list[float]) -> xr.DataArray:
    return xr.DataArray(np.array(values, dtype=np.float64), dims="layer")


@given(st.lists(anything, min_size=1, max_size=60), st.booleans(), st.booleans())
def test_limits_hold_the_drawable_values_and_say_what_they_clip(
    values: list[float], robust: bool, log: bool
) -> None:
    limits = limits_of([array(values)], robust=robust, log=log)
    drawable = [value for value in values if math.isfinite(value) and (value > 0 or not log)]
    if not drawable:
        assert limits is None
        return
    assert limits is not None
    assert limits.low < limits.high
    assert limits.clips_low == any(value < limits.low for value in drawable)
    assert limits.clips_high == any(value > limits.high for value in drawable)
    if not robust:
        assert not limits.clips_low
        assert not limits.clips_high


@given(st.lists(finite, min_size=1, max_size=40))
def test_symmetric_limits_have_zero_in_the_middle(values: list[float]) -> None:
    limits = limits_of([array(values)], symmetric=True)
    assert limits is not None
    assert limits.low == -limits.high
    assert limits.high > 0


@given(st.lists(anything, max_size=30), st.lists(anything, max_size=30), st.booleans())
def test_an_axis_holds_every_current_value(history: list[float], current: list[float], log: bool) -> None:
    limits = limits_of([array(history)], log=log)
    low, high = axis_range(limits, [array(current)], log=log, signed=not log)
    assert math.isfinite(low)
    assert low < high
    for value in current:
        if math.isfinite(value) and (value > 0 or not log):
            assert low <= (math.log10(value) if log else value) <= high


@given(hnp.arrays(np.float64, (3, 5), elements=positive))
def test_the_ratio_to_the_first_sublayer_times_it_gives_the_values_back(values: np.ndarray) -> None:
    ratios = ratio_to_first(values, axis=-1)
    assert (ratios[:, 0] == 1).all()
    np.testing.assert_allclose(ratios * values[:, :1], values, rtol=1e-12)


@given(hnp.arrays(np.float64, 6, elements=positive), hnp.arrays(np.float64, 6, elements=positive))
def test_a_difference_is_undone_by_its_power_of_two(values: np.ndarray, baseline: np.ndarray) -> None:
    np.testing.assert_allclose(baseline * 2 ** difference(values, baseline, signed=False), values, rtol=1e-9)
    np.testing.assert_array_equal(difference(values, baseline, signed=True), values - baseline)


@given(
    hnp.arrays(st.sampled_from([np.float32, np.float64, np.int32]), hnp.array_shapes(max_dims=2, max_side=7))
)
def test_typed_arrays_come_back_as_they_were(values: np.ndarray) -> None:
    encoded = typed(values)
    decoded = np.frombuffer(base64.b64decode(encoded["bdata"]), dtype=f"<{encoded['dtype']}")
    shape = [int(size) for size in encoded["shape"].split(",")] if "shape" in encoded else values.shape
    np.testing.assert_array_equal(decoded.reshape(shape), values)


def test_half_precision_is_sent_as_single_and_long_integers_as_double() -> None:
    assert typed(np.ones(2, np.float16))["dtype"] == "f4"
    assert typed(np.ones(2, np.int64))["dtype"] == "f8"


@given(st.integers(1, 256), st.integers(0, 40))
def test_layer_ticks_end_at_the_last_and_are_at_most_eight(layers: int, block: int) -> None:
    blocks = [place // block + 1 if block else 0 for place in range(layers)]
    ticks = layer_ticks(layers, blocks)
    assert ticks[-1] == layers
    assert len(ticks) <= 8
    assert ticks == sorted(set(ticks))


def test_layer_ticks_are_block_ends() -> None:
    assert layer_ticks(24, [place // 6 for place in range(24)]) == [1, 6, 12, 18, 24]
    assert layer_ticks(128, [place // 8 for place in range(128)]) == [1, 32, 56, 80, 104, 128]
    assert layer_ticks(24, [0] * 24) == [1, 4, 8, 12, 16, 20, 24]


@given(st.integers(1, 256), st.integers(0, 40))
def test_labels_of_sublayers_never_touch(layers: int, block: int) -> None:
    ticks = layer_ticks(layers, [place // block + 1 if block else 0 for place in range(layers)])
    assert all(later - earlier >= layers / 9 for earlier, later in pairwise(ticks))


@given(st.floats(-8, 8), st.floats(0.2, 9))
def test_log_ticks_lie_on_the_axis_and_there_are_enough(low: float, decades: float) -> None:
    ticks = log_ticks(low, low + decades)
    inside = [tick for tick in ticks if low - 0.01 <= math.log10(tick) <= low + decades + 0.01]
    assert len(inside) >= 2
    assert len(ticks) <= 12


@given(st.floats(-1e5, 1e5), st.floats(1e-3, 1e6), st.integers(2, 7))
def test_round_ticks_are_near_the_number_wanted(low: float, span: float, wanted: int) -> None:
    ticks = round_ticks(low, low + span, wanted)
    assert wanted / 3 <= len(ticks) <= 2 * wanted + 1


@pytest.mark.parametrize(
    ("value", "text"), [(0.409, "0.409"), (3.14159, "3.14"), (1234.5, "1230"), (0.0, "0"), (2e-7, "2.00e−7")]
)
def test_values_have_three_significant_digits(value: float, text: str) -> None:
    assert significant(value) == text


@given(st.text(max_size=60))
def test_names_in_plotly_text_hold_no_tag_and_no_template(name: str) -> None:
    text = plotly_text(name)
    assert "<" not in text
    assert "%{" not in text
    assert len(shortened(name)) <= 28


def test_the_first_32_runs_differ_in_colour_or_dash() -> None:
    light = theme("light")
    assert len({(light.run_colour(slot), run_dash(slot)) for slot in range(1, 33)}) == 32
    assert light.run_colour(1) == "#0072B2"
    assert theme("dark").run_colour(1) == "#4C9FE6"
    assert theme("dark")["sequential-1"] == light["sequential-1"]
