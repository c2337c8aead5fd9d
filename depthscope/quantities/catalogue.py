"""The quantities of format 1, in the order a reader meets them.

Notation: sublayers l = 1..L; h_l read, f_l write, s_l state after the write, v_i source of depth mixing;
t runs over tokens, d is the model width, D the width of an outer state; rms(x) = sqrt(mean over tokens and
features of x^2), ||.|| is the L2 norm of one token's vector.
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from types import MappingProxyType

from depthscope.quantities.quantity import Quantity, Reach

_OURS = "depthscope definitions"
_ATTNRES = "Attention Residuals, arXiv 2603.15031"
_TOKENS = "all tokens of the optimizer step"
_GRADIENT_NOTE = (
    "N is the number of tokens that count in the loss over the whole optimizer step and all ranks (loss_tokens), "
    "L their mean loss; so the value does not depend on batch size, accumulation or world size."
)


def _per_layer() -> tuple[Quantity, ...]:
    tensors: tuple[tuple[str, str, Reach, str, str], ...] = (
        ("write", "f_l", "layer", "Write", "what the sublayer adds to the stream"),
        ("state", "s_l", "state", "State", "the stream after the write"),
        ("read", "h_l", "read", "Read", "the sublayer's input before its own norm"),
    )
    sizes = []
    for name, symbol, reach, label, meaning in tensors:
        sizes.append(
            Quantity(
                name=f"{name}_logrms",
                label=f"{label}, typical token",
                long_name=f"typical size of {meaning}",
                dims=("layer",),
                units="log(activation)",
                formula=f"mean_t log(||{symbol}|| / sqrt(d))",
                reduction=f"mean over {_TOKENS}",
                source=_OURS,
                stream="fast",
                reach=reach,
                positive=False,
                note="Natural log of the geometric mean over tokens; one massive token does not move it.",
            )
        )
        sizes.append(
            Quantity(
                name=f"{name}_rms",
                label=f"{label}, rms",
                long_name=f"root mean square of {meaning}",
                dims=("layer",),
                units="activation",
                formula=f"rms({symbol})",
                reduction=f"mean of squares over {_TOKENS} and features",
                source=f"{_ATTNRES}, Figure 5(b), which does not say which tensor it plots"
                if name == "state"
                else _OURS,
                stream="fast",
                reach=reach,
            )
        )
    return (
        *sizes,
        Quantity(
            name="fresh_share",
            label="Fresh share",
            long_name="share of the newest write in the next read",
            dims=("layer",),
            units="1",
            formula="mean_t <c_{l->l+1}, h_{l+1}> / ||h_{l+1}||^2, c the part of h_{l+1} that is f_l",
            reduction=f"mean over {_TOKENS}",
            source=_OURS,
            stream="fast",
            reach="fresh",
            positive=False,
            note="Means the same in every design; 1/(l+1) for equal uncorrelated writes on one stream.",
        ),
        Quantity(
            name="write_ratio",
            label="Write ratio",
            long_name="gain from read to write",
            dims=("layer",),
            units="1",
            formula="mean_t ||f_l|| / ||h_l||",
            reduction=f"mean over {_TOKENS}",
            source=_OURS,
            stream="fast",
            reach="read",
            note="Speaks of dilution only where the write goes to the very stream that is read.",
        ),
        Quantity(
            name="write_cosine",
            label="Write cosine",
            long_name="cosine between write and read",
            dims=("layer",),
            units="1",
            formula="mean_t cos(f_l, h_l)",
            reduction=f"mean over {_TOKENS}",
            source=_OURS,
            stream="fast",
            reach="read",
            positive=False,
            note="0 new, below 0 erases, above 0 strengthens, where the write is added to the stream read.",
        ),
        Quantity(
            name="write_dot",
            label="Write dot read",
            long_name="inner product of write and read per feature",
            dims=("layer",),
            units="activation^2",
            formula="mean_t <h_l, f_l> / d",
            reduction=f"mean over {_TOKENS}",
            source=_OURS,
            stream="fast",
            reach="read",
            positive=False,
        ),
        Quantity(
            name="abs_max",
            label="Largest entry",
            long_name="largest absolute entry of the state",
            dims=("layer",),
            units="activation",
            formula="max |s_l|",
            reduction=f"maximum over {_TOKENS} and features",
            source=_OURS,
            stream="fast",
            reach="state",
        ),
        Quantity(
            name="nonfinite",
            label="Non-finite tokens",
            long_name="number of tokens whose state holds a NaN or infinite entry",
            dims=("layer",),
            units="tokens",
            formula="#{t: ||s_l|| is NaN or infinite in fp32}",
            reduction=f"count over {_TOKENS}",
            source=_OURS,
            stream="fast",
            reach="state",
        ),
        Quantity(
            name="grad_write_rms",
            label="Gradient at the write",
            long_name="per-token gradient of the loss at the write",
            dims=("layer",),
            units="nats / activation",
            formula="N rms(dL/df_l)",
            reduction=f"mean of squares over {_TOKENS} and features",
            source=_OURS,
            stream="fast",
            reach="layer",
            note=_GRADIENT_NOTE,
        ),
        Quantity(
            name="grad_read_rms",
            label="Gradient at the read",
            long_name="per-token gradient of the loss at the read",
            dims=("layer",),
            units="nats / activation",
            formula="N rms(dL/dh_l)",
            reduction=f"mean of squares over {_TOKENS} and features",
            source=_OURS,
            stream="fast",
            reach="read",
            note=_GRADIENT_NOTE,
        ),
        Quantity(
            name="grad_state_rms",
            label="Gradient at the state",
            long_name="per-token gradient of the loss at the state",
            dims=("layer",),
            units="nats / activation",
            formula="N rms(dL/ds_l)",
            reduction=f"mean of squares over {_TOKENS} and features",
            source=f"{_ATTNRES}, Figure 5(c)",
            stream="fast",
            reach="state",
            derived=("grad_write_rms",),
            note="Equal to the gradient at the write wherever s_l = something + f_l, so stored once.",
        ),
        Quantity(
            name="grad_relative",
            label="Gradient times write",
            long_name="first-order size of the write's effect on the loss",
            dims=("layer",),
            units="nats",
            formula="write_rms grad_write_rms",
            reduction="product of two root mean squares",
            source=_OURS,
            stream="fast",
            reach="layer",
            derived=("write_rms", "grad_write_rms"),
            note="Unchanged when a design rescales its states: the one to compare across designs.",
        ),
        Quantity(
            name="write_share",
            label="Share of all writes",
            long_name="share of the sublayer in the sum of squared writes",
            dims=("layer",),
            units="1",
            formula="sum_t ||f_l||^2 / sum_i sum_t ||f_i||^2",
            reduction=f"sum over {_TOKENS}",
            source=_OURS,
            stream="fast",
            reach="layer",
            derived=("write_rms",),
        ),
        Quantity(
            name="param_grad_norm",
            label="Parameter gradient",
            long_name="L2 norm of the gradient of the sublayer's parameters",
            dims=("layer",),
            units="nats / parameter",
            formula="||dL/dtheta_l||_2",
            reduction="sum of squares over the sublayer's parameters, its norm included",
            source=_OURS,
            stream="fast",
            reach="layer",
            when="after clipping, unscaled: as the optimizer uses it",
            note="Divide by clip_coefficient for the value before clipping.",
        ),
        Quantity(
            name="mixer_grad_norm",
            label="Mixer gradient",
            long_name="L2 norm of the gradient of the depth mixer in front of the sublayer",
            dims=("layer",),
            units="nats / parameter",
            formula="||dL/d(query, key norm)||_2",
            reduction="sum of squares over the mixer's parameters",
            source=_OURS,
            stream="fast",
            reach="mixed_layer",
            when="after clipping, unscaled: as the optimizer uses it",
        ),
    )


def _whole_model() -> tuple[Quantity, ...]:
    def scalar(name: str, label: str, long_name: str, units: str, **more: str) -> Quantity:
        return Quantity(
            name=name,
            label=label,
            long_name=long_name,
            dims=(),
            units=units,
            formula=more.get("formula", ""),
            reduction=more.get("reduction", ""),
            source=_OURS,
            stream="fast",
            reach=more.get("reach", "given"),  # type: ignore[arg-type]
            positive=more.get("signed", "") == "",
            when=more.get("when", ""),
            note=more.get("note", ""),
        )

    after = "after clipping, unscaled: as the optimizer uses it"
    parts = (
        ("embedding", "embedding"),
        ("head", "LM head"),
        ("final_norm", "norm in front of the LM head"),
        ("rest", "everything that belongs to no other group"),
    )
    return (
        scalar("loss", "Training loss", "training loss of the optimizer step", "nats", signed="yes"),
        scalar(
            "embedding_rms",
            "Embedding, rms",
            "root mean square of the embedding's output",
            "activation",
            formula="rms(v_0)",
            reduction=f"mean of squares over {_TOKENS} and features",
            reach="embedding",
        ),
        scalar(
            "embedding_logrms",
            "Embedding, typical token",
            "typical size of the embedding's output",
            "log(activation)",
            formula="mean_t log(||v_0|| / sqrt(d))",
            reduction=f"mean over {_TOKENS}",
            reach="embedding",
            signed="yes",
        ),
        scalar(
            "final_read_rms",
            "Final read, rms",
            "root mean square of the last read, before the norm in front of the LM head",
            "activation",
            formula="rms(h_{L+1})",
            reduction=f"mean of squares over {_TOKENS} and features",
            reach="final_read",
        ),
        scalar(
            "final_read_logrms",
            "Final read, typical token",
            "typical size of the last read",
            "log(activation)",
            formula="mean_t log(||h_{L+1}|| / sqrt(d))",
            reduction=f"mean over {_TOKENS}",
            reach="final_read",
            signed="yes",
        ),
        *(
            scalar(
                f"{part}_grad_norm",
                f"Gradient, {part.replace('_', ' ')}",
                f"L2 norm of the gradient of the {meaning}",
                "nats / parameter",
                formula="||dL/dtheta||_2",
                reduction="sum of squares over the group's parameters",
                reach="step",
                when=after,
                note="Tied weights count once, with the embedding." if part in ("embedding", "head") else "",
            )
            for part, meaning in parts
        ),
        scalar(
            "grad_norm",
            "Gradient norm",
            "global L2 norm of the gradient",
            "nats / parameter",
            formula="||dL/dtheta||_2",
            reduction="sum of squares over all parameters",
            reach="step",
            when=after,
        ),
        scalar(
            "grad_norm_before_clip",
            "Gradient norm before clipping",
            "global L2 norm of the gradient before clipping",
            "nats / parameter",
            formula="||dL/dtheta||_2",
            reduction="sum of squares over all parameters",
            when="before clipping",
            note="Known with recorder.before_clip() or step(grad_norm=...).",
        ),
        scalar(
            "clip_coefficient",
            "Clip coefficient",
            "factor that clipping put on the gradient",
            "1",
            formula="grad_norm / grad_norm_before_clip",
        ),
        scalar("learning_rate", "Learning rate", "learning rate of the optimizer's first group", "1"),
        scalar("tokens", "Tokens seen", "tokens seen before this step", "tokens", reach="step"),
        scalar(
            "loss_tokens",
            "Loss tokens",
            "tokens that count in the loss of this optimizer step, all ranks",
            "tokens",
            formula="N",
            reach="step",
        ),
        scalar("loss_scale", "Loss scale", "factor on the loss that the gradients are divided by", "1"),
        scalar("skipped", "Skipped", "1 where the optimizer step was skipped for infinite gradients", "1"),
        scalar("step_seconds", "Seconds per step", "wall time since the previous step", "s"),
        scalar(
            "recording_seconds",
            "Recording time",
            "host time spent in the recorder.step() before this one",
            "s",
        ),
        scalar("peak_memory", "Peak memory", "largest device memory allocated so far", "bytes"),
    )


def _depth_attention() -> tuple[Quantity, ...]:
    def summary(name: str, label: str, long_name: str, formula: str, **more: str) -> Quantity:
        return Quantity(
            name=name,
            label=label,
            long_name=long_name,
            dims=("target",),
            units=more.get("units", "1"),
            formula=formula,
            reduction=more.get("reduction", f"mean over {_TOKENS}"),
            source=more.get("source", _OURS),
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
            reduction=more.get("reduction", f"mean over {_TOKENS}"),
            source=more.get("source", _OURS),
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
            source=f"{_ATTNRES}, Figure 8",
            note="Rows sum to 1. A weight describes routing; only an intervention shows an effect.",
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
            reduction=f"mean of squares over {_TOKENS} and features",
        ),
        over_sources(
            "depth_attention_std",
            "Spread over tokens",
            "standard deviation over tokens of the weight",
            "std_t alpha_{i->l}",
            reduction=f"population standard deviation over {_TOKENS}",
            note="0: routing does not depend on the token.",
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
            source=f"{_ATTNRES}, Section 5 (locality)",
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


def _outer_state() -> tuple[Quantity, ...]:
    source = "HiRes residual design; depthscope definitions"

    def block(name: str, label: str, long_name: str, formula: str, **more: str) -> Quantity:
        return Quantity(
            name=name,
            label=label,
            long_name=long_name,
            dims=tuple(more.get("dims", "block").split()),
            units=more.get("units", "1"),
            formula=formula,
            reduction=more.get("reduction", f"mean over {_TOKENS}"),
            source=source,
            stream="fast" if more.get("stream") == "fast" else "slow",
            reach=more.get("reach", "block"),  # type: ignore[arg-type]
            positive="signed" not in more,
            when=more.get("when", ""),
            note=more.get("note", ""),
        )

    squared = {"units": "activation^2"}
    return (
        block(
            "outer_energy",
            "Outer energy",
            "energy of the outer state before the boundary norm",
            "mean_t ||h_{b-1} + W_b Phi_b||^2 / D",
            **squared,
            note="Taken before the norm: after it the energy is constant by construction.",
        ),
        block(
            "outer_write_energy",
            "Outer write energy",
            "energy of what the block writes to the outer state",
            "mean_t ||W_b Phi_b||^2 / D",
            **squared,
        ),
        block(
            "outer_carry_energy",
            "Outer carry energy",
            "energy of what the outer state carries into the block",
            "mean_t ||h_{b-1}||^2 / D",
            **squared,
            note="Set by the boundary norm for b >= 2 (1 at unit gain), rms(h_0)^2 for b = 1.",
        ),
        block(
            "outer_write_ratio",
            "Outer write ratio",
            "size of the outer write against what is carried",
            "mean_t ||W_b Phi_b|| / ||h_{b-1}||",
        ),
        block(
            "outer_write_cosine",
            "Outer write cosine",
            "cosine between the outer write and what is carried",
            "mean_t cos(W_b Phi_b, h_{b-1})",
            signed="yes",
        ),
        block(
            "outer_read_rms",
            "Outer read, rms",
            "root mean square of what the block reads from the outer state",
            "rms(R_b h_{b-1})",
            units="activation",
            reduction=f"mean of squares over {_TOKENS} and features",
        ),
        block(
            "outer_extra_share",
            "Extra dimensions",
            "share of the outer energy outside the first d dimensions",
            "mean_t 1 - ||Pi h||^2 / ||h||^2, h = h_{b-1} + W_b Phi_b",
            note="Meaningful while the gates are small; 0 where the outer state is not wider.",
        ),
        block(
            "outer_channel_energy",
            "Energy by channel",
            "energy of each channel of the outer state before the boundary norm",
            "mean_t (h_{b-1} + W_b Phi_b)_c^2",
            dims="block channel",
            reach="block_channel",
            **squared,
        ),
        block(
            "interface_gate",
            "Interface gate",
            "gate of the trained interface, reading and writing",
            "sigmoid(alpha)",
            dims="block side",
            reach="block_side",
            reduction="none",
        ),
        block(
            "outer_direct",
            "Direct path",
            "amplitude of the direct path of the embedding through all boundary norms",
            "mean_t prod_b (1/rms_b) rms(h_0) / rms(h_B)",
            dims="",
            reach="has_outer",
            note="Not the share of the embedding in the last read: that is a mixing contribution.",
        ),
        block(
            "interface_grad_norm",
            "Interface gradient",
            "L2 norm of the gradient of the interface's parameters",
            "||dL/d(R_b)||_2, ||dL/d(W_b)||_2, ||dL/d(gates of b)||_2",
            dims="block interface",
            reach="block_interface",
            stream="fast",
            units="nats / parameter",
            reduction="sum of squares over the matrix of R_b, the matrix of W_b, and their gates",
            when="after clipping, unscaled: as the optimizer uses it",
        ),
    )


_ALL = (*_per_layer(), *_whole_model(), *_depth_attention(), *_outer_state())
QUANTITIES: Mapping[str, Quantity] = MappingProxyType({entry.name: entry for entry in _ALL})


def quantity(name: str) -> Quantity:
    """Return the quantity called `name`; KeyError names the closest ones."""
    try:
        return QUANTITIES[name]
    except KeyError:
        close = get_close_matches(name, QUANTITIES, n=3, cutoff=0.4) or list(QUANTITIES)[:3]
        raise KeyError(f"no quantity is called {name!r}; did you mean {', '.join(close)}?") from None
