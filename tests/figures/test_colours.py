"""Colours stay apart for readers who see fewer of them: CIELAB distances under simulated colour blindness."""

from __future__ import annotations

from itertools import combinations, pairwise

import numpy as np
import numpy.typing as npt
import pytest

from depthscope.figures import run_dash, theme
from depthscope.figures.theme import ThemeName

Colour = npt.NDArray[np.float64]
# Machado, Oliveira and Fernandes 2009, severity 1, on linear RGB.
VISION = {
    "normal": np.eye(3),
    "protan": np.array([[0.1523, 1.0526, -0.2049], [0.1145, 0.7863, 0.0992], [-0.0039, -0.0481, 1.0520]]),
    "deutan": np.array([[0.3673, 0.8606, -0.2280], [0.2801, 0.6725, 0.0474], [-0.0118, 0.0429, 0.9689]]),
    "tritan": np.array([[1.2555, -0.0767, -0.1788], [-0.0784, 0.9309, 0.1476], [0.0047, 0.6914, 0.3039]]),
}
TO_XYZ = np.array([[0.4125, 0.3576, 0.1804], [0.2127, 0.7152, 0.0722], [0.0193, 0.1192, 0.9503]])
WHITE = np.array([0.9505, 1.0, 1.0890])
CLOSEST = 13.0
"""Distance of the closest pair that the design asks for."""


def linear(colour: str) -> Colour:
    shares = np.array([int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)])
    return np.where(shares <= 0.04045, shares / 12.92, ((shares + 0.055) / 1.055) ** 2.4)


def lab(colour: str, vision: str) -> Colour:
    xyz = TO_XYZ @ np.clip(VISION[vision] @ linear(colour), 0, 1) / WHITE
    f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def contrast(one: str, other: str) -> float:
    dark, light = sorted(float(TO_XYZ[1] @ linear(colour)) for colour in (one, other))
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("vision", VISION)
@pytest.mark.parametrize("name", ["light", "dark"])
def test_four_runs_and_a_control_stay_apart(name: ThemeName, vision: str) -> None:
    tokens = theme(name)
    colours = [*(tokens.run_colour(slot) for slot in range(1, 5)), tokens["run-control"]]
    seen = [lab(colour, vision) for colour in colours]
    assert min(np.linalg.norm(one - other) for one, other in combinations(seen, 2)) > CLOSEST


@pytest.mark.parametrize("vision", VISION)
def test_a_map_grows_lighter_from_end_to_end_for_every_reader(vision: str) -> None:
    lightness = [lab(str(colour), vision)[0] for _, colour in theme("light").sequential()]
    assert all(later - earlier > 3 for earlier, later in pairwise(lightness))


@pytest.mark.parametrize("name", ["light", "dark"])
def test_every_line_stands_out_from_the_surface_and_runs_differ_in_dash(name: ThemeName) -> None:
    tokens = theme(name)
    colours = [*(tokens.run_colour(slot) for slot in range(1, 9)), tokens["run-control"]]
    assert min(contrast(colour, tokens["surface"]) for colour in colours) > 3
    assert len({run_dash(slot) for slot in range(1, 9)}) == 8
