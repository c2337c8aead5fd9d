"""Designs by name: ``"block-attnres:S=6"`` -> a residual."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from types import MappingProxyType
from typing import Any

from depthscope.models.altup import ALTUP
from depthscope.models.attnres_typed import BLOCK_ATTNRES, DELTA_ATTNRES, FULL_ATTNRES, TWO_PHASE_ATTNRES
from depthscope.models.config import DecoderConfig
from depthscope.models.deepnorm import DEEPNORM
from depthscope.models.denseformer import DENSEFORMER
from depthscope.models.highway import HIGHWAY
from depthscope.models.hires import HIRES
from depthscope.models.hyper_connections import HYPER_CONNECTIONS
from depthscope.models.layerscale import LAYERSCALE
from depthscope.models.lns import LAYER_NORM_SCALING
from depthscope.models.mhc import MANIFOLD_HYPER_CONNECTIONS
from depthscope.models.option import Design, Option, numbers
from depthscope.models.periln import PERI_LN
from depthscope.models.postnorm import POSTNORM
from depthscope.models.prenorm import PRENORM
from depthscope.models.residual import Residual
from depthscope.models.rezero import REZERO
from depthscope.models.vwn import VIRTUAL_WIDTH


class DesignError(ValueError):
    """A design string that cannot be built; the message says what was found, expected and to type."""


_ALL = (
    PRENORM,
    FULL_ATTNRES,
    BLOCK_ATTNRES,
    HIRES,
    POSTNORM,
    PERI_LN,
    LAYER_NORM_SCALING,
    REZERO,
    LAYERSCALE,
    HIGHWAY,
    DEEPNORM,
    DENSEFORMER,
    TWO_PHASE_ATTNRES,
    HYPER_CONNECTIONS,
    MANIFOLD_HYPER_CONNECTIONS,
    VIRTUAL_WIDTH,
    ALTUP,
    DELTA_ATTNRES,
)

DESIGNS: Mapping[str, Design] = MappingProxyType({design.name: design for design in _ALL})
"""Every design by the name that is typed."""


def residual_from_string(text: str, config: DecoderConfig) -> Residual:
    """Build the design that `text` names: ``name`` or ``name:option=value,option=value``.

    Options left out have the values of the design's file; lists are joined with ``+``. Raises DesignError for an
    unknown name or option, a value that cannot be read, and options that do not fit `config`.
    """
    name, colon, rest = text.strip().partition(":")
    design = DESIGNS.get(name)
    if design is None:
        near = get_close_matches(name, DESIGNS, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise DesignError(f"unknown design {name!r}: expected one of {', '.join(DESIGNS)}{hint}")
    items = [item.strip() for item in rest.split(",") if item.strip()]
    if colon and not items:
        raise DesignError(f"{text!r}: no option follows the colon; type {name} or {design.example}")
    if ":" in rest:
        joined = rest.replace(":", ",")
        raise DesignError(f"{text!r}: options are separated by commas; type {name}:{joined}")
    arguments: dict[str, Any] = {}
    listed: Option | None = None
    for item in items:
        key, equals, value = (part.strip() for part in item.partition("="))
        option = design.options.get(key)
        if option is None:
            if listed is not None and key.isdecimal() and not equals:
                raise DesignError(f"{text!r}: the numbers of a list are joined with +; type {listed.example}")
            known = ", ".join(design.options) or "none"
            raise DesignError(
                f"{text!r}: {name} has no option {key!r}; its options: {known} ({design.example})"
            )
        if not equals or not value:
            raise DesignError(f"{text!r}: option {key!r} has no value; type {option.example}")
        if option.argument in arguments:
            raise DesignError(f"{text!r}: option {key!r} is given twice")
        try:
            arguments[option.argument] = option.parse(value)
        except (ValueError, KeyError):
            raise DesignError(f"{text!r}: cannot read {key}={value!r}; type {option.example}") from None
        listed = option if option.parse is numbers else None
    try:
        return design.build(config, **arguments)
    except ValueError as error:
        raise DesignError(f"{text!r}: {error}") from None
