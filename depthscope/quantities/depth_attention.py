"""Quantities of depth mixing, over targets and sources."""

from __future__ import annotations

from depthscope.quantities.quantity import Quantity
from depthscope.quantities.words import ATTNRES, OURS, TOKENS


def depth_attention() -> tuple[Quantity, ...]:
    def summary(name: str, label: str, long_name: str, formula: str, **more: str) -> Quantity:
        return Quantity(
            name=name,
            label=label,
            long_name=long_name,
            dims=("target",),
            units=more.get("units", "1"),
            formula=formula,
            reduction=more.get("reduction", f"mean over {TOKENS}"),
            source=more.get("source", OURS),
            stream="slow",
            reach=more.get("reach", "target"),  # type: ignore[arg-type]
            note=more.get("note", ""),
        )

    def over_sources(name: str, label: str, long_name: str, formula: str, **more: str) -> Quantity:
        return Quantity(
            name=name,
            label=label,
            long_name=long_name,
            dims=("target", "source"),
            units=more.get("units", "1"),
            formula=formula,
            reduction=more.get("reduction", f"mean over {TOKENS}"),
            source=more.get("source", OURS),
            stream="slow",
            reach="source",
            positive="signed" not in more,
            note=more.get("note", ""),
        )

    return (
        over_sources(
            "depth_attention",
            "Depth attention",
            "weight of each source in a target's read",
            "mean_t alpha_{i->l}",
            source=f"{ATTNRES}, Figure 8",
            note="Rows sum to 1; with several heads their mean. A weight describes routing; only an intervention shows an effect.",
        ),
        Quantity(
            name="depth_attention_by_head",
            label="Depth attention by head",
            long_name="weight of each source in the part of a target's read that belongs to a head",
            dims=("target", "source", "head"),
            units="1",
            formula="mean_t alpha_{i->l,k}, k the head",
            reduction=f"mean over {TOKENS}",
            source=OURS,
            stream="slow",
            reach="source_head",
            note="Only of mixers with several heads; depth_attention is its mean over them.",
        ),
        over_sources(
            "depth_contribution",
            "Contribution",
            "share of each source in a target's read",
            "mean_t alpha_i <v_i, h_l> / ||h_l||^2",
            signed="yes",
            note="Signed; rows sum to 1. Values are not normalised, so it differs from the weight.",
        ),
        over_sources(
            "source_rms",
            "Source, rms",
            "root mean square of each source as the target reads it",
            "rms(v_i)",
            units="activation",
            reduction=f"mean of squares over {TOKENS} and features",
        ),
        over_sources(
            "depth_attention_std",
            "Spread over tokens",
            "standard deviation over tokens of the weight",
            "std_t alpha_{i->l}",
            reduction=f"population standard deviation over {TOKENS}",
            note="0: routing does not depend on the token. With several heads over tokens and heads.",
        ),
        summary(
            "depth_attention_entropy",
            "Entropy",
            "entropy of a target's weights against uniform",
            "mean_t (-sum_i alpha_i log alpha_i) / log n_sources",
            reach="target_of_two",
            note="1 uniform, 0 one source; not defined at one source.",
        ),
        summary(
            "depth_attention_max", "Largest weight", "largest weight of a target", "mean_t max_i alpha_i"
        ),
        summary(
            "depth_distance",
            "Depth distance",
            "mean distance of what a target reads",
            "sum_i mean_t alpha_i distance_i, distance 1 = the newest source",
            units="sources",
            source=f"{ATTNRES}, Section 5 (locality)",
        ),
        summary(
            "newest_weight",
            "Weight of the newest source",
            "weight of the newest source a target can read",
            "mean_t alpha_newest",
        ),
        summary(
            "embedding_weight",
            "Weight of the embedding",
            "weight of the embedding in a target's read",
            "mean_t alpha_0",
        ),
        summary(
            "query_norm",
            "Query norm",
            "length of the effective query",
            "||u_l||, u_l = key-norm gain * w_l",
            reduction="none",
            note="Only the product of key-norm gain and query is identifiable.",
        ),
    )
