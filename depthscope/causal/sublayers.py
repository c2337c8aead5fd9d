"""Sublayers taken out: their write replaced, or the module not run at all."""

from __future__ import annotations

from torch import Tensor

from depthscope.causal.error import CausalError
from depthscope.causal.intervention import Edit, Intervention, Skip
from depthscope.causal.replacing import Mode, replacement
from depthscope.causal.values import Values
from depthscope.marks import DepthAxis, Port, Sublayer


def replace_write(
    axis: DepthAxis, layer: int, mode: Mode = "zero", donor: Values | None = None
) -> Intervention:
    """Return the intervention that replaces f_l, what sublayer `layer` (from 1) adds, for every later read.

    Args:
        axis: the depth axis.
        layer: 1 to L.
        mode: ``zero``, ``mean`` or ``resample``.
        donor: what passed the sublayer's write on another batch; for ``resample`` only.
    """
    sublayer = sublayer_of(axis, layer)
    return replaced_at(f"without {sublayer.name}", sublayer.write, mode, donor)


def skip_sublayer(axis: DepthAxis, layer: int) -> Intervention:
    """Return the intervention under which the module of sublayer `layer` (from 1) is not run and gives zeros.

    The same numbers as a zero `replace_write` where the write is that module's output, without its cost; where a norm or
    a gate lies between, those still act.
    """
    sublayer = sublayer_of(axis, layer)
    if sublayer.write.side != "output" or sublayer.write.path:
        raise CausalError(f"{sublayer.name}: its write is not the output of one module; knock it out instead")
    return Intervention(name=f"{sublayer.name} not run", skips=(Skip(path=sublayer.write.module),))


def replaced_at(name: str, port: Port, mode: Mode, donor: Values | None) -> Intervention:
    """Return the intervention that replaces all that passes a port."""
    if mode == "renormalise":
        raise CausalError(f"{name}: no mode 'renormalise', there are no weights; use zero, mean or resample")
    if mode == "resample" and (donor is None or port not in donor):
        raise CausalError(
            f"{name}: mode 'resample' takes what passed {port} on another batch; give it as donor"
        )

    def change(value: Tensor, values: Values) -> Tensor:
        return replacement(mode, value, donor[port] if donor is not None and port in donor else None)

    return Intervention(name=name, edits=(Edit(port=port, change=change),))


def sublayer_of(axis: DepthAxis, layer: int) -> Sublayer:
    """Return sublayer `layer`, from 1; CausalError where there is none."""
    if not 1 <= layer <= len(axis.sublayers):
        raise CausalError(f"layer {layer}: the model has sublayers 1 to {len(axis.sublayers)}")
    return axis.sublayers[layer - 1]
