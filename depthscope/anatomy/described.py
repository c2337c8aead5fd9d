"""Models that describe their own depth axis."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from torch import nn

from depthscope.anatomy.error import AnatomyError
from depthscope.anatomy.plan import checked_plan
from depthscope.marks import DepthAxis, Mixer, Port


def described_axis(model: nn.Module) -> DepthAxis | None:
    """Return what ``model.describe_depth()`` says, or None where the model does not describe itself.

    Raises:
        AnatomyError: it names a module or parameter that the model does not have, or gives two layers one write.
    """
    describe = getattr(model, "describe_depth", None)
    if not callable(describe):
        return None
    axis = describe()
    if not isinstance(axis, DepthAxis):
        raise AnatomyError(
            f"{type(model).__name__}.describe_depth() returned {type(axis).__name__}, expected "
            "depthscope.marks.DepthAxis"
        )
    modules = {path for path, _ in model.named_modules()}
    parameters = {name for name, _ in model.named_parameters(remove_duplicate=False)}
    for what, name in _named(axis):
        if name not in modules and not (what == "parameters" and name in parameters):
            raise AnatomyError(
                f"{type(model).__name__}.describe_depth() names {name!r} ({what}), which is no "
                f"{'module or parameter' if what == 'parameters' else 'module'} of the model"
            )
    written: dict[Port, int] = {}
    for sublayer in axis.sublayers:
        earlier = written.setdefault(sublayer.write, sublayer.index)
        if earlier != sublayer.index:
            raise AnatomyError(
                f"{type(model).__name__}.describe_depth() gives layers {earlier} and {sublayer.index} one write, "
                f"{sublayer.write}: a module that is called several times in a forward is one layer, whose numbers "
                "are merged over the calls"
            )
    return axis


def with_overrides(
    axis: DepthAxis, block_size: int | Sequence[int] | None, mixers: Sequence[Mixer] | None, model: nn.Module
) -> DepthAxis:
    """Return the axis with other residual blocks or mixers, where the caller gave them."""
    plan = checked_plan(model, (), None, None, block_size, mixers)
    if block_size is not None:
        layers = len(axis.sublayers)
        sublayers = tuple(
            replace(sublayer, residual_block=plan.residual_block(sublayer.index, layers))
            for sublayer in axis.sublayers
        )
        axis = replace(axis, sublayers=sublayers)
    return axis if mixers is None else replace(axis, mixers=plan.mixers)


def _named(axis: DepthAxis) -> Iterator[tuple[str, str]]:
    ports: list[Port | None] = [axis.embedding, axis.final_read, axis.outer_end]
    parameters = [axis.embedding_parameters, axis.head_parameters, axis.final_norm_parameters]
    for sublayer in axis.sublayers:
        ports += [sublayer.read, sublayer.write, sublayer.state, sublayer.made, sublayer.carried]
        ports += [sublayer.output, sublayer.state_prenorm]
        parameters.append(sublayer.parameters)
    for mixer in axis.mixers:
        ports.append(mixer.weights)
        parameters.append(mixer.parameters)
        yield "mixer", mixer.module
    ports += [mixing.weights for mixing in axis.streams]
    for block in axis.outer:
        ports += [block.carry, block.read, block.write, block.boundary, block.state]
        parameters += [block.read_parameters, block.write_parameters]
    for port in ports:
        if port is not None:
            yield "port", port.module
    for names in parameters:
        for name in names:
            yield "parameters", name
