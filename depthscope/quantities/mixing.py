"""Quantities of mixing, the one view for all designs: what every read is made of, over targets and origins."""

from __future__ import annotations

from depthscope.quantities.quantity import Quantity
from depthscope.quantities.words import OURS, SAMPLE


def mixing() -> tuple[Quantity, ...]:
    return (
        Quantity(
            name="mixing_contribution",
            label="Contribution of each origin",
            long_name="share of the embedding, of each sublayer's output and of the biases in a target's read",
            dims=("target", "origin"),
            units="1",
            formula="mean_t <c_{i->l}, h_l> / ||h_l||^2, h_l = sum_i c_{i->l} + c_constant",
            reduction=f"mean over {SAMPLE}",
            source=OURS,
            stream="slow",
            reach="mixing_origin",
            positive=False,
            note="Mixing weights and norm scales frozen at their values; signed; rows sum to 1. "
            "It attributes this forward; it is not a causal effect.",
        ),
        Quantity(
            name="mixing_coefficient",
            label="Coefficient of each origin",
            long_name="factor with which a target's read holds each origin, where the design scales by numbers",
            dims=("target", "origin"),
            units="1",
            formula="mean_t <c_{i->l}, v_i> / ||v_i||^2 where c_{i->l} is parallel to v_i",
            reduction=f"mean over {SAMPLE}",
            source=OURS,
            stream="slow",
            reach="mixing_origin",
            positive=False,
            note="In PreNorm all ones, in Attention Residuals their weights. Not defined where a matrix or a "
            "gain per feature lies between, nor for the constant.",
        ),
        Quantity(
            name="mixing_cancellation",
            label="Cancellation",
            long_name="size of the contributions to a target's read against their sum",
            dims=("target",),
            units="1",
            formula="sum_i |mean_t <c_{i->l}, h_l> / ||h_l||^2|",
            reduction=f"mean over {SAMPLE}",
            source=OURS,
            stream="slow",
            reach="mixing",
            note="Above about 2, single shares are large terms that cancel.",
        ),
    )
