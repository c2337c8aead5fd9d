"""How the designs of Attention Residuals and their variants are typed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from depthscope.models.attnres import BlockAttnRes, FullAttnRes
from depthscope.models.config import DecoderConfig
from depthscope.models.delta_attnres import DeltaAttnRes
from depthscope.models.mixer import MixerOptions
from depthscope.models.option import Design, Option, choice, numbers, switch
from depthscope.models.residual import Residual
from depthscope.models.two_phase import TwoPhaseAttnRes

_BLOCKS: Mapping[str, Option] = {
    "S": Option(argument="block_size", parse=int, example="S=6"),
    "boundaries": Option(argument="boundaries", parse=numbers, example="boundaries=4+10+16"),
}

_VARIANTS: Mapping[str, Option] = {
    "query": choice("query", "query", ("learned", "input", "none")),
    "score": choice("score", "score", ("softmax", "sigmoid")),
    "keynorm": switch("key_norm", "keynorm"),
    "heads": Option(argument="heads", parse=int, example="heads=4"),
    "window": Option(argument="window", parse=int, example="window=8"),
}

_MIXER = frozenset(field.name for field in fields(MixerOptions))


def _six_unless_given(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options with S = 6 where neither S nor boundaries are among them."""
    given = "block_size" in options or "boundaries" in options
    return dict(options) if given else {"block_size": 6, **options}


def _with_mixer(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options with those of the mixer gathered."""
    others = {name: value for name, value in options.items() if name not in _MIXER}
    mixer = {name: value for name, value in options.items() if name in _MIXER}
    return {**others, "mixer": MixerOptions(**mixer)}


def _full(config: DecoderConfig, **options: Any) -> Residual:
    return FullAttnRes(config, **_with_mixer(options))


def _block(config: DecoderConfig, **options: Any) -> Residual:
    return BlockAttnRes(config, **_six_unless_given(_with_mixer(options)))


def _delta(config: DecoderConfig, **options: Any) -> Residual:
    return DeltaAttnRes(config, **(options or {"block_size": 1}))


def _two_phase(config: DecoderConfig, **options: Any) -> Residual:
    return TwoPhaseAttnRes(config, **_six_unless_given(options))


FULL_ATTNRES = Design(
    name=FullAttnRes.name,
    label=FullAttnRes.label,
    build=_full,
    options=_VARIANTS,
    example="full-attnres:window=8",
)

DELTA_ATTNRES = Design(
    name=DeltaAttnRes.name,
    label=DeltaAttnRes.label,
    build=_delta,
    options=_BLOCKS,
    example="delta-attnres:S=1",
)

TWO_PHASE_ATTNRES = Design(
    name=TwoPhaseAttnRes.name,
    label=TwoPhaseAttnRes.label,
    build=_two_phase,
    options=_BLOCKS,
    example="two-phase-attnres:S=6",
)

BLOCK_ATTNRES = Design(
    name=BlockAttnRes.name,
    label=BlockAttnRes.label,
    build=_block,
    options={**_BLOCKS, **_VARIANTS},
    example="block-attnres:S=6",
)
