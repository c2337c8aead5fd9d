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
from tests.models.every import EVERY


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


def test_the_designs_of_the_demo_come_first():
    names, labels = list(DESIGNS), [design.label for design in DESIGNS.values()]
    assert names[:4] == ["prenorm", "full-attnres", "block-attnres", "hires"]
    assert labels[:4] == ["PreNorm", "AttnRes full", "AttnRes block", "HiRes"]
    assert len(set(names)) == len(set(labels)) == len(names)


def test_the_list_of_designs_under_test_has_every_design_and_option():
    typed = {name: set() for name in DESIGNS}
    for design in EVERY:
        name, _, rest = design.partition(":")
        typed[name] |= {item.partition("=")[0] for item in rest.split(",") if item}
    missing = {name: set(DESIGNS[name].options) - options for name, options in typed.items()}
    # Of these the values that are no default are typed elsewhere in this file.
    shared = {"block-attnres": {"score", "keynorm"}, "full-attnres": {"heads"}, "hires": {"boundaries"}}
    assert {name: left - shared.get(name, set()) for name, left in missing.items()} == {
        name: set() for name in DESIGNS
    }


@pytest.mark.parametrize("text", EVERY)
def test_a_design_is_built_from_its_own_string(config, text):
    residual = residual_from_string(text, config)
    again = residual_from_string(residual.design, config)
    assert type(again) is type(residual)
    assert again.design == residual.design
    shapes = {name: p.shape for name, p in residual.named_parameters()}
    assert shapes == {name: p.shape for name, p in again.named_parameters()}
    for item in text.partition(":")[2].split(","):
        assert item in residual.design or item == "boundaries=1+4"
    assert f"{residual.design},".startswith(text.partition(":")[0])


@pytest.mark.parametrize(
    ("text", "design"),
    [
        ("full-attnres:query=learned,score=softmax,keynorm=yes,heads=1", "full-attnres"),
        ("block-attnres:window=8", "block-attnres:S=6,window=8"),
        ("block-attnres:S=4,score=sigmoid,keynorm=no", "block-attnres:S=4,score=sigmoid,keynorm=no"),
        ("full-attnres:heads=4", "full-attnres:heads=4"),
        ("two-phase-attnres", "two-phase-attnres:S=6"),
        ("layerscale", "layerscale:start=0.1"),
        ("highway", "highway:bias=-1"),
        ("hc", "hc:n=4,dynamic=yes"),
        ("mhc", "mhc:n=4"),
        ("vwn:n=4", "vwn:m=2,n=4,dynamic=yes"),
        ("altup", "altup:K=2"),
        ("delta-attnres", "delta-attnres:S=1"),
        ("hires:n=1,identity=yes,outer=no", "hires:n=1,B=4,outer=no,identity=yes"),
    ],
)
def test_what_is_usual_is_left_out_or_written_out(config, text, design):
    assert residual_from_string(text, config).design == design


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("atnres", ["'atnres'", "prenorm, full-attnres, block-attnres, hires", "did you mean"]),
        ("", ["''", "prenorm, full-attnres, block-attnres, hires"]),
        ("block-attnres:size=4", ["'size'", "S, boundaries, query", "block-attnres:S=6"]),
        ("prenorm:S=4", ["'S'", "none"]),
        ("block-attnres:S", ["'S'", "no value", "S=6"]),
        ("block-attnres:S=four", ["S='four'", "S=6"]),
        ("block-attnres:S=2,S=3", ["'S'", "twice"]),
        ("block-attnres:S=2,boundaries=3+5", ["S=2 and boundaries=3+5", "exactly one", "e.g. S=6"]),
        ("block-attnres:S=9", ["S=9:", "1 to 8"]),
        ("block-attnres:S=0", ["S=0:", "1 to 8"]),
        ("block-attnres:boundaries=4+2", ["boundaries=4+2:", "rising"]),
        ("block-attnres:boundaries=4+9", ["boundaries=4+9:", "from 1 to 8"]),
        ("hires:B=3", ["3 residual blocks", "4 transformer blocks", "1, 2, 4"]),
        ("hires:B=0", ["0 residual blocks", "1, 2, 4"]),
        ("hires:n=0.7", ["n=0.7", "16.8", "whole number"]),
        ("hires:gate=2", ["gate=2:", "0 to 1", "none"]),
        ("hires:outer=maybe", ["outer='maybe'", "outer=yes or outer=no"]),
        ("hires:identity=yes,frozen=yes", ["identity", "nothing to freeze"]),
        ("full-attnres:query=fixed", ["query='fixed'", "query=learned or query=input or query=none"]),
        ("full-attnres:heads=7", ["heads=7", "divisor of the width 24"]),
        ("full-attnres:window=0", ["window=0", "1 or more"]),
        ("full-attnres:S=2", ["'S'", "query, score, keynorm, heads, window"]),
        ("two-phase-attnres:query=input", ["'query'", "S, boundaries"]),
        ("layerscale:start=small", ["start='small'", "start=0.1"]),
        ("highway:gate=1", ["'gate'", "bias"]),
        ("denseformer:k=4", ["'k'", "none"]),
        ("hc:n=0", ["0 streams", "1 to 1000"]),
        ("hc:dynamic=maybe", ["dynamic='maybe'", "dynamic=yes or dynamic=no"]),
        ("mhc:n=6,lite=yes", ["n=6", "permutations", "up to 5"]),
        ("vwn:m=5", ["m=5", "divisor of the width 24"]),
        ("altup:n=2", ["'n'", "K", "altup:K=2"]),
        ("delta-attnres:S=9", ["S=9:", "1 to 8"]),
        ("hires:", ["no option follows the colon", "type hires or hires:n=2,B=4"]),
        ("prenorm: ,", ["no option follows the colon", "prenorm"]),
        ("hires:n=2:B=2", ["separated by commas", "hires:n=2,B=2"]),
        ("block-attnres:boundaries=1,3", ["joined with +", "boundaries=4+10+16"]),
        ("block-attnres:S=2,3", ["no option '3'"]),
        ("hires:B=2,boundaries=2+4", ["B=2 and boundaries=2+4", "one of them"]),
        *(
            (f"hires:n={n}", [f"n={n}:", "above 0 and at most 1000"])
            for n in ("nan", "inf", "1e+09", "-2", "0")
        ),
        ("hires:gate=nan", ["gate=nan:", "0 to 1"]),
        *((f"highway:bias={bias}", [f"bias={bias}:", "finite"]) for bias in ("nan", "inf", "-inf", "1e+39")),
        *(
            (f"layerscale:start={start}", [f"start={start}:", "finite number above 0"])
            for start in ("-1", "0", "nan", "inf", "1e-60")
        ),
        *((f"altup:K={K}", [f"K={K}:", "1 to 4, the number of transformer blocks"]) for K in (0, 5, 99)),
        *((f"{name}:n=1000000000", ["1000000000 streams", "1 to 1000"]) for name in ("hc", "mhc", "vwn")),
    ],
)
def test_a_wrong_string_says_what_was_found_and_what_to_type(config, text, words):
    with pytest.raises(DesignError) as caught:
        residual_from_string(text, config)
    for word in words:
        assert word in str(caught.value)


def test_numbers_at_the_ends_of_their_ranges_are_taken(config):
    for design in ("altup:K=4", "highway:bias=0", "layerscale:start=1e-30", "hires:n=1000,B=1,gate=0"):
        assert residual_from_string(design, config).design == design


@pytest.mark.parametrize("count", [24, 32])
def test_every_name_alone_fits_the_sizes_of_the_demo(count):
    config = DecoderConfig(layers=count, width=8, heads=2)
    for name in DESIGNS:
        assert residual_from_string(name, config).layers == count


def test_hires_alone_takes_as_many_blocks_up_to_four_as_fit(config):
    shapes = {layers: replace(config, layers=layers) for layers in (8, 12, 10, 14)}
    found = {layers: residual_from_string("hires", shape).design for layers, shape in shapes.items()}
    assert found == {8: "hires:n=2,B=4", 12: "hires:n=2,B=3", 10: "hires:n=2,B=1", 14: "hires:n=2,B=1"}
