"""What every read of a model is made of: its residual network, replayed with frozen weights and norm scales."""

from depthscope.mixing.error import MixingError
from depthscope.mixing.function_tape import FunctionTape
from depthscope.mixing.measure import CHECKED, Measured, measure, measure_mixing
from depthscope.mixing.network import ResidualNetwork
from depthscope.mixing.places import Places, no_replay_because, places_of
from depthscope.mixing.sample import TOKENS, sample
from depthscope.mixing.shares import TargetShares, shares_by_pullback, shares_by_replay

__all__ = [
    "CHECKED",
    "TOKENS",
    "FunctionTape",
    "Measured",
    "MixingError",
    "Places",
    "ResidualNetwork",
    "TargetShares",
    "measure",
    "measure_mixing",
    "no_replay_because",
    "places_of",
    "sample",
    "shares_by_pullback",
    "shares_by_replay",
]
