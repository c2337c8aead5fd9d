"""Quantities of a wide outer state, over its residual blocks."""

from __future__ import annotations

from depthscope.quantities.quantity import Quantity
from depthscope.quantities.words import TOKENS


def outer_state() -> tuple[Quantity, ...]:
    source = "HiRes residual design; depthscope definitions"

    def block(name: str, label: str, long_name: str, formula: str, **more: str) -> Quantity:
        return Quantity(
            name=name,
            label=label,
            long_name=long_name,
            dims=tuple(more.get("dims", "block").split()),
            units=more.get("units", "1"),
            formula=formula,
            reduction=more.get("reduction", f"mean over {TOKENS}"),
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
            reduction=f"mean of squares over {TOKENS} and features",
        ),
        block(
            "outer_extra_share",
            "Extra dimensions",
            "share of the outer energy outside the first d dimensions",
            "mean_t 1 - ||Pi h||^2 / ||h||^2, h = h_{b-1} + W_b Phi_b",
            note="Meaningful while the gates are small; 0 where the outer state is not wider.",
        ),
        block(
            "outer_unread_share",
            "Unread share",
            "share of the outer state's energy that the block's interface does not read",
            "mean_t 1 - ||P h_{b-1}||^2 / ||h_{b-1}||^2, P the projector onto the rows of R_b",
            note="1 - 1/n for a state whose energy lies evenly in all directions; not defined for n <= 1.",
        ),
        block(
            "write_read_coupling",
            "Write to read",
            "overlap of what a block writes with what a later block reads",
            "||R_b' W_b||_F / (||R_b'||_F ||W_b||_F), b' > b",
            dims="block later_block",
            reach="later_block",
            reduction="none",
            note="The skip map of a wide outer state: of the interfaces alone, whatever passes them.",
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
