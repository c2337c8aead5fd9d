"""Quantities with one value a step."""

from __future__ import annotations

from depthscope.quantities.quantity import Quantity
from depthscope.quantities.words import OURS, TOKENS


def whole_model() -> tuple[Quantity, ...]:
    def scalar(name: str, label: str, long_name: str, units: str, **more: str) -> Quantity:
        return Quantity(
            name=name,
            label=label,
            long_name=long_name,
            dims=(),
            units=units,
            formula=more.get("formula", ""),
            reduction=more.get("reduction", ""),
            source=OURS,
            stream="fast",
            reach=more.get("reach", "given"),  # type: ignore[arg-type]
            positive=more.get("signed", "") == "",
            when=more.get("when", ""),
            note=more.get("note", ""),
        )

    after = "after clipping, unscaled: as the optimizer uses it"
    parts = (
        ("embedding", "the embedding"),
        ("head", "the LM head"),
        ("final_norm", "the norm in front of the LM head"),
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
            reduction=f"mean of squares over {TOKENS} and features",
            reach="embedding",
        ),
        scalar(
            "embedding_logrms",
            "Embedding, typical token",
            "typical size of the embedding's output",
            "log(activation)",
            formula="mean_t log(||v_0|| / sqrt(d))",
            reduction=f"mean over {TOKENS}",
            reach="embedding",
            signed="yes",
        ),
        scalar(
            "final_read_rms",
            "Final read, rms",
            "root mean square of the last read, before the norm in front of the LM head",
            "activation",
            formula="rms(h_{L+1})",
            reduction=f"mean of squares over {TOKENS} and features",
            reach="final_read",
        ),
        scalar(
            "final_read_logrms",
            "Final read, typical token",
            "typical size of the last read",
            "log(activation)",
            formula="mean_t log(||h_{L+1}|| / sqrt(d))",
            reduction=f"mean over {TOKENS}",
            reach="final_read",
            signed="yes",
        ),
        *(
            scalar(
                f"{part}_grad_norm",
                f"Gradient, {part.replace('_', ' ')}",
                f"L2 norm of the gradient of {meaning}",
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
