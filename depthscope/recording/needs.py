"""What would have given an array its values, in words."""

from __future__ import annotations

from depthscope.probes import Gradient, ParameterGradient, StreamGain
from depthscope.recording.causes import NO_GRADIENTS
from depthscope.recording.sites import NO_PRODUCT

NO_VALUE = "no value came in the first recorded steps"
_NO_READ = (
    "no read was seen beside its write: a sublayer that is compiled by itself hides it; compile the block"
)
_CLIPPING = "known with step(grad_norm=..., max_norm=...) or recorder.before_clip()"
_NO_SCALER = "no GradScaler was seen"
NEEDS = {
    **{name: NO_PRODUCT for name in StreamGain.quantities},
    "loss": "step() was given no loss",
    **{
        name: f"{_NO_READ}; or the write goes to several streams, is wider than the read and has no angle with it"
        for name in ("write_cosine", "write_dot")
    },
    **{name: _NO_READ for name in ("read_rms", "read_logrms", "write_ratio", "fresh_share")},
    "grad_norm_before_clip": _CLIPPING,
    "clip_coefficient": _CLIPPING,
    "loss_scale": _NO_SCALER,
    "skipped": _NO_SCALER,
    "query_norm": "no depth mixer has a query",
    "outer_unread_share": "the outer state is not wider than the blocks, so all of it is read; or no module is R_b alone",
    "write_read_coupling": "the interfaces are sharded outside their forward, or no modules are R_b and W_b alone",
    "mixing_coefficient": "no contribution is parallel to its origin: matrices or gains for each feature lie between",
    "learning_rate": "no step of an optimizer was seen",
    "peak_memory": "no CUDA device is in use",
    "tokens": "nothing that the loop calls the module with, or compiled code does, tells positions: use step(tokens=...)",
    "step_seconds": "",  # come with the second row
    "recording_seconds": "",
    **{name: NO_GRADIENTS for name in ParameterGradient.quantities},
    **{name: "no gradient came back in the first recorded steps" for name in Gradient.quantities},
}
"""What would have given an array its values; empty: they are only late."""
