"""What a column of many rows shows."""

from __future__ import annotations

import numpy as np
import xarray as xr

from depthscope.figures.columns import column_means


def test_a_column_shows_the_mean_of_what_is_finite_but_an_infinity_stays() -> None:
    stats = ["mean", "min", "max", "nonfinite"]
    bins = [[2, 1, 3, 0], [2, 1, np.inf, 1], [2, -np.inf, 3, 1], [np.nan] * 3 + [4], [2, 1, 3, 1]]
    shown = column_means(xr.DataArray(bins, dims=("step", "stat"), coords={"stat": stats}))
    assert shown.dims == ("step",)
    np.testing.assert_array_equal(shown.values, [2, np.inf, -np.inf, np.nan, 2])
