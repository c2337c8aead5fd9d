"""Quantities as data: complete, consistent, and the same in the docs."""

from __future__ import annotations

import runpy
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from depthscope.quantities import QUANTITIES, DepthLayout, quantity, reachable, readable_layers

DIMS = {"layer", "target", "source", "origin", "block", "later_block", "side", "interface", "channel"}
DIMS |= {"head", "stream", "stream_out", "stream_in"}
ROOT = Path(__file__).parents[2]

LAYOUT = DepthLayout(
    design="block-attnres:S=2",
    layer_names=("1 attention", "2 MLP", "3 attention"),
    layer_kinds=("attention", "mlp", "attention"),
    transformer_block=(1, 1, 2),
    residual_block=(1, 1, 2),
    additive=(False,) * 3,
    reads=(True,) * 3,
    states=(True,) * 3,
    fresh=(True,) * 3,
    source_names=("embedding", "block 1", "block 2"),
    sources=((0,), (0, 1), (0, 1), (0, 1, 2)),
    partial=(-1, 1, -1, -1),
)


def test_every_quantity_says_what_it_is() -> None:
    for name, each in QUANTITIES.items():
        assert each.name == name
        assert each.label, name
        assert each.long_name, name
        assert each.units, name
        assert each.source, name
        assert set(each.dims) <= DIMS, name
        assert each.formula or not each.dims, name
        assert set(each.derived) <= set(QUANTITIES), name


def test_an_unknown_name_is_answered_with_the_closest() -> None:
    with pytest.raises(KeyError, match="state_rms"):
        quantity("state_rsm")


def test_reach_of_block_attention_residuals_by_hand() -> None:
    assert reachable(quantity("depth_attention"), LAYOUT) == (
        (True, False, False),
        (True, True, False),
        (True, True, False),
        (True, True, True),
    )
    assert reachable(quantity("depth_attention_entropy"), LAYOUT) == (False, True, True, True)
    assert reachable(quantity("outer_energy"), LAYOUT) == ()
    assert reachable(quantity("state_rms"), LAYOUT) == (True, True, True)
    assert reachable(quantity("grad_norm"), LAYOUT) is True


def test_reach_of_a_wide_state_by_hand() -> None:
    streams = replace(LAYOUT, streams=2, outputs=(True, False, True))
    assert reachable(quantity("stream_energy"), streams) == ((True, True),) * 3
    assert reachable(quantity("stream_mixing"), streams) == (((True, True), (True, True)),) * 3
    assert reachable(quantity("gain_forward"), streams) == (True, True, True)
    assert reachable(quantity("sinkhorn_residue"), streams) == (False, False, False)
    assert reachable(quantity("sinkhorn_residue"), replace(streams, doubly_stochastic=True)) == (True,) * 3
    assert reachable(quantity("output_rms"), streams) == (True, False, True)
    outer = replace(LAYOUT, outer_blocks=3)
    no, yes = False, True
    assert reachable(quantity("write_read_coupling"), outer) == ((no, yes, yes), (no, no, yes), (no, no, no))


def test_a_run_of_an_older_version_has_none_of_what_came_later() -> None:
    for name in ("stream_energy", "gain_forward", "sinkhorn_residue", "output_rms", "state_prenorm_rms"):
        assert not any(np.ravel(reachable(quantity(name), LAYOUT))), name


def test_reach_of_mixing_by_hand() -> None:
    replayed = replace(LAYOUT, mixing=(True, True, False, True))
    assert replayed.origin_names == ("embedding", "1 attention", "2 MLP", "3 attention", "constant")
    assert reachable(quantity("mixing_contribution"), replayed) == (
        (True, False, False, False, True),
        (True, True, False, False, True),
        (False,) * 5,
        (True,) * 5,
    )
    assert reachable(quantity("mixing_cancellation"), replayed) == (True, True, False, True)
    assert reachable(quantity("mixing_contribution"), LAYOUT) == ()


def test_what_another_quantity_holds_is_in_a_readers_reach() -> None:
    """No next read shows the write, and the contributions of three of four targets are taken."""
    share, streams = quantity("fresh_share"), replace(LAYOUT, fresh=(False,) * 3)
    replayed = replace(streams, mixing=(True, True, False, True))
    assert reachable(share, replayed) == readable_layers(share, streams) == (False, False, False)
    assert readable_layers(share, replayed) == (True, False, True)
    assert readable_layers(share, replace(replayed, fresh=(False, True, False))) == (False, True, False)
    assert readable_layers(quantity("state_rms"), replayed) == reachable(quantity("state_rms"), replayed)


def test_a_layout_travels_through_json() -> None:
    assert DepthLayout.from_json(LAYOUT.to_json() | {"of_a_newer_version": 1}) == LAYOUT


def test_the_docs_are_made_from_the_quantities() -> None:
    page = runpy.run_path(str(ROOT / "docs" / "make_quantities.py"))["page"]()
    written = (ROOT / "docs" / "quantities.md").read_text(encoding="utf-8")
    assert written == page, "run: python docs/make_quantities.py"


def test_a_gradient_norm_names_its_group_with_one_article() -> None:
    assert quantity("rest_grad_norm").long_name.endswith(
        "gradient of everything that belongs to no other group"
    )
    assert quantity("head_grad_norm").long_name.endswith("gradient of the LM head")
