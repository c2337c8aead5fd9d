"""The outline of a depth axis that travels in the store."""

from __future__ import annotations

from torch import nn

from depthscope.marks import DepthAxis
from depthscope.quantities import DepthLayout


def layout_of(axis: DepthAxis, model: nn.Module) -> DepthLayout:
    """Return what `axis` offers to record; `model` (unwrapped) gives the width of an outer state."""
    mixers = {mixer.target: mixer for mixer in axis.mixers}
    targets = range(1, len(axis.sublayers) + 2) if mixers else range(0)
    newest = {target: mixer.sources[-1] for target, mixer in mixers.items() if mixer.partial}
    return DepthLayout(
        design=axis.design,
        layer_names=tuple(sublayer.name for sublayer in axis.sublayers),
        layer_kinds=tuple(sublayer.kind for sublayer in axis.sublayers),
        transformer_block=tuple(sublayer.transformer_block for sublayer in axis.sublayers),
        residual_block=tuple(sublayer.residual_block for sublayer in axis.sublayers),
        additive=tuple(sublayer.additive for sublayer in axis.sublayers),
        summed=tuple(sublayer.summed for sublayer in axis.sublayers),
        outputs=tuple(sublayer.output is not None for sublayer in axis.sublayers),
        prenorm_states=tuple(sublayer.state_prenorm is not None for sublayer in axis.sublayers),
        reads=tuple(sublayer.read is not None for sublayer in axis.sublayers),
        states=tuple(sublayer.state is not None for sublayer in axis.sublayers),
        fresh=tuple(sublayer.fresh is not None for sublayer in axis.sublayers),
        embedding=axis.embedding is not None,
        final_read=axis.final_read is not None,
        source_names=axis.source_names,
        sources=tuple(mixers[target].sources if target in mixers else () for target in targets),
        partial=tuple(newest.get(target, -1) for target in targets),
        normalised=all(mixer.normalised for mixer in axis.mixers),
        heads=max((mixer.heads for mixer in axis.mixers), default=1),
        outer_blocks=len(axis.outer),
        outer_width=_outer_width(axis, model),
        streams=axis.streams[0].streams if axis.streams else 0,
        doubly_stochastic=any(mixing.doubly_stochastic for mixing in axis.streams),
    )


def _outer_width(axis: DepthAxis, model: nn.Module) -> int:
    """Return D: as described, or from W_b, whose shape is [D, d], whatever else belongs to the write."""
    if not axis.outer:
        return 0
    if axis.outer[0].width:
        return axis.outer[0].width
    parameters = dict(model.named_parameters(remove_duplicate=False))
    for name in axis.outer[0].write_parameters:
        matrices = [
            p for n, p in parameters.items() if (n == name or n.startswith(f"{name}.")) and p.ndim == 2
        ]
        if matrices:
            return int(matrices[0].shape[0])
    return 0
