"""Every recorded quantity as data: symbol, formula, unit, dims, source (docs/definitions)."""

from depthscope.quantities.catalogue import QUANTITIES, quantity
from depthscope.quantities.layout import DepthLayout, Mask, reachable, readable_layers
from depthscope.quantities.quantity import Quantity

__all__ = ["QUANTITIES", "DepthLayout", "Mask", "Quantity", "quantity", "reachable", "readable_layers"]
