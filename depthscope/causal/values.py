"""The values that passed some ports in one forward."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from depthscope.marks import Port


class Values:
    """Tensors by port; `batch_dims` holds the dim of the batch where it is not the first.

    A depth mixer's weights are [n_sources, batch, time]; all else is [batch, ...].
    """

    def __init__(self, batch_dims: Mapping[Port, int]) -> None:
        self._tensors: dict[Port, Tensor] = {}
        self._batch_dims = batch_dims

    def __getitem__(self, port: Port) -> Tensor:
        return self._tensors[port]

    def __contains__(self, port: object) -> bool:
        return port in self._tensors

    def put(self, port: Port, tensor: Tensor) -> None:
        self._tensors[port] = tensor

    def rows(self, start: int, size: int) -> Values:
        """Return the same for `size` rows of the batch, as views."""
        part = Values(self._batch_dims)
        for port, tensor in self._tensors.items():
            part.put(port, tensor.narrow(self._batch_dims.get(port, 0), start, size))
        return part
