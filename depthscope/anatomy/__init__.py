"""Finding the depth axis of a model: blocks, sublayers, and where each read, write and state passes."""

from depthscope.anatomy.anatomy import Anatomy, call_arguments, inspect_model
from depthscope.anatomy.assemble import FOUND_DESIGN
from depthscope.anatomy.blocks import Candidate
from depthscope.anatomy.error import AnatomyError
from depthscope.anatomy.finding import Check
from depthscope.anatomy.groups import REST, parameter_groups, tied_names, tied_parameters
from depthscope.anatomy.layout import layout_of
from depthscope.anatomy.ports import floating, follow, port_value, replaced
from depthscope.anatomy.untouched import untouched
from depthscope.anatomy.wrappers import holds_shards, is_sharded, unwrap

__all__ = [
    "FOUND_DESIGN",
    "REST",
    "Anatomy",
    "AnatomyError",
    "Candidate",
    "Check",
    "call_arguments",
    "floating",
    "follow",
    "holds_shards",
    "inspect_model",
    "is_sharded",
    "layout_of",
    "parameter_groups",
    "port_value",
    "replaced",
    "tied_names",
    "tied_parameters",
    "untouched",
    "unwrap",
]
