"""Where the gradient of a tensor can be seen in autograd's graph, whatever the model does with the tensor later."""

from __future__ import annotations

from typing import Any, NamedTuple

from torch import Tensor

_COPIES = frozenset(
    f"{operation}Backward{number}"
    for operation in (
        "Clone",
        "ToCopy",
        "View",
        "UnsafeView",
        "ReshapeAlias",
        "Alias",
        "Transpose",
        "Permute",
        "T",
        "Squeeze",
        "Unsqueeze",
    )
    for number in (0, 1)
)
"""Nodes that hand on the same numbers, in another place, order, shape or dtype."""


class Place(NamedTuple):
    """One output of one node of the graph."""

    node: Any
    output: int

    @property
    def source(self) -> Place:
        """Where the numbers were made: behind all copies and views."""
        place = self
        while place.node.name() in _COPIES:
            node, output = place.node.next_functions[0]
            if node is None:
                break
            place = Place(node, output)
        return place

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the gradient that comes here."""
        return tuple(self.node._input_metadata[self.output].shape)

    def adds(self, term: Place) -> bool:
        """Whether this is a sum of which `term` is a part: then the gradients of both are the same."""
        made, part = self.source, term.source
        return made.node.name() == "AddBackward0" and any(
            node is not None and Place(node, output).source == part
            for node, output in made.node.next_functions
        )


def place_of(tensor: Tensor) -> Place | None:
    """Return where `tensor` stands in the graph; None for a leaf."""
    return None if tensor.grad_fn is None else Place(tensor.grad_fn, tensor.output_nr)
