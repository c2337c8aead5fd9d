"""What a column of a figure shows of the rows in it."""

from __future__ import annotations

import numpy as np
import xarray as xr


def column_means(array: xr.DataArray) -> xr.DataArray:
    """Return the means of bins (stat, ...) of finite values, but ±inf where a bin holds one.

    An overflow in a single row is then marked in the figure, however many rows share a column.
    """
    mean, low, high = (array.sel(stat=stat, drop=True) for stat in ("mean", "min", "max"))
    return mean.where(~np.isinf(low), low).where(~np.isinf(high), high)
