"""Designs are typed as short strings; a wrong one says what to type."""

from __future__ import annotations

from dataclasses import replace

import pytest

from depthscope.models import (
    DESIGNS,
    BlockAttnRes,
    Decoder,
    DecoderConfig,
    DesignError,
    FullAttnRes,
    HiRes,
    PreNorm,
    residual_from_string,
)


@pytest.mark.parametrize(
    ("text", "kind", "design"),
    [
        ("prenorm", PreNorm, "prenorm"),
        ("full-attnres", FullAttnRes, "full-attnres"),
        ("block-attnres", BlockAttnRes, "block-attnres:S=6"),
        ("block-attnres:S=3", BlockAttnRes, "block-attnres:S=3"),
        ("block-attnres:boundaries=2+7", BlockAttnRes, "block-attnres:boundaries=2+7+8"),
        ("hires", HiRes, "hires:n=2,B=4"),
        ("hires:n=1.5,B=2", HiRes, "hires:n=1.5,B=2"),
        ("hires:gate=none,boundaries=3", HiRes, "hires:n=2,boundaries=3+8,gate=none"),
        (
            "hires: B=1, gate=0.25, outer=no, norm=no, frozen=yes, phi=increment",
            HiRes,
            "hires:n=2,B=1,gate=0.25,outer=no,norm=no,frozen=yes,phi=increment",
        ),
    ],
)
def test_a_string_names_a_design(config, text, kind, design):
    residual = residual_from_string(text, config)
    assert type(residual) is kind
    assert residual.design == design
    assert Decoder(config, residual).describe_depth().design == design


def test_the_four_designs_are_known_by_name():
    assert list(DESIGNS) == ["prenorm", "full-attnres", "block-attnres", "hires"]
    assert [d.label for d in DESIGNS.values()] == ["PreNorm", "AttnRes full", "AttnRes block", "HiRes"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("atnres", ["'atnres'", "prenorm, full-attnres, block-attnres, hires", "did you mean"]),
        ("", ["''", "prenorm, full-attnres, block-attnres, hires"]),
        ("block-attnres:size=4", ["'size'", "S, boundaries", "block-attnres:S=6"]),
        ("prenorm:S=4", ["'S'", "none"]),
        ("block-attnres:S", ["'S'", "no value", "S=6"]),
        ("block-attnres:S=four", ["S='four'", "S=6"]),
        ("block-attnres:S=2,S=3", ["'S'", "twice"]),
        ("block-attnres:S=2,boundaries=3", ["exactly one"]),
        ("block-attnres:S=9", ["9", "1 to 8"]),
        ("block-attnres:S=0", ["0", "1 to 8"]),
        ("block-attnres:boundaries=4+2", ["[4, 2]", "rising"]),
        ("block-attnres:boundaries=4+9", ["[4, 9]", "from 1 to 8"]),
        ("hires:B=3", ["3 residual blocks", "4 transformer blocks", "1, 2, 4"]),
        ("hires:B=0", ["0 residual blocks", "1, 2, 4"]),
        ("hires:n=0.7", ["n=0.7", "16.8", "whole number"]),
        ("hires:gate=2", ["gate=2.0", "0 to 1"]),
        ("hires:outer=maybe", ["outer='maybe'", "outer=yes or outer=no"]),
    ],
)
def test_a_wrong_string_says_what_was_found_and_what_to_type(config, text, words):
    with pytest.raises(DesignError) as caught:
        residual_from_string(text, config)
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize("count", [24, 32])
def test_every_name_alone_fits_the_sizes_of_the_demo(count):
    config = DecoderConfig(layers=count, width=8, heads=2)
    for name in DESIGNS:
        assert residual_from_string(name, config).layers == count


def test_hires_alone_takes_as_many_blocks_up_to_four_as_fit(config):
    shapes = {layers: replace(config, layers=layers) for layers in (8, 12, 10, 14)}
    found = {layers: residual_from_string("hires", shape).design for layers, shape in shapes.items()}
    assert found == {8: "hires:n=2,B=4", 12: "hires:n=2,B=3", 10: "hires:n=2,B=1", 14: "hires:n=2,B=1"}
