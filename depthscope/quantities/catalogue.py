"""The quantities of format 1, in the order a reader meets them.

Notation: sublayers l = 1..L; h_l read, f_l write, s_l state after the write, v_i source of depth mixing;
t runs over tokens, d is the model width, D the width of an outer state; rms(x) = sqrt(mean over tokens and
features of x^2), ||.|| is the L2 norm of one token's vector.
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from types import MappingProxyType

from depthscope.quantities.depth_attention import depth_attention
from depthscope.quantities.mixing import mixing
from depthscope.quantities.outer_state import outer_state
from depthscope.quantities.per_layer import per_layer
from depthscope.quantities.quantity import Quantity
from depthscope.quantities.streams import streams
from depthscope.quantities.whole_model import whole_model

_ALL = (*per_layer(), *whole_model(), *depth_attention(), *mixing(), *outer_state(), *streams())
QUANTITIES: Mapping[str, Quantity] = MappingProxyType({entry.name: entry for entry in _ALL})


def quantity(name: str) -> Quantity:
    """Return the quantity called `name`; KeyError names the closest ones."""
    try:
        return QUANTITIES[name]
    except KeyError:
        close = get_close_matches(name, QUANTITIES, n=3, cutoff=0.4) or list(QUANTITIES)[:3]
        raise KeyError(f"no quantity is called {name!r}; did you mean {', '.join(close)}?") from None
