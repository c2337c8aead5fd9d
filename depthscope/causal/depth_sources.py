"""Which sources each target reads along the depth, and how one of them is cut for one target alone."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from torch import Tensor

from depthscope.causal.error import CausalError
from depthscope.causal.intervention import Change, Edit, Intervention
from depthscope.causal.replacing import Mode, replacement
from depthscope.causal.values import Values
from depthscope.marks import DepthAxis, Port


class DepthSources(ABC):
    """The (target, source) pairs of a design. Targets and sources are numbered from 0, as rows and columns."""

    what: ClassVar[str]
    """What a source is, for people."""
    modes: ClassVar[tuple[Mode, ...]] = ("zero", "mean", "resample")

    def __init__(self, axis: DepthAxis) -> None:
        self.axis = axis

    @property
    @abstractmethod
    def target_names(self) -> tuple[str, ...]: ...

    @property
    @abstractmethod
    def source_names(self) -> tuple[str, ...]: ...

    @abstractmethod
    def readable(self, target: int) -> tuple[int, ...]:
        """Return the columns that a target reads, oldest first."""

    @abstractmethod
    def current(self, target: int) -> tuple[int, ...]:
        """Return those of them that were written in the target's own block."""

    @abstractmethod
    def read(self, target: int) -> Port:
        """Return where the target's read passes, and can be changed for this target alone."""

    @abstractmethod
    def source_ports(self, target: int) -> tuple[Port, ...]:
        """Return where the sources pass, one port for each column of `readable`."""

    def weights(self, target: int) -> tuple[Port, ...]:
        """Return where the weights of the sources pass; none where they are simply added."""
        return ()

    @abstractmethod
    def total(self, target: int, sources: Sequence[Tensor], values: Values) -> Tensor:
        """Return the read [batch, time, d] that is made of `sources`, each [batch, time, d]."""

    @abstractmethod
    def parts(self, target: int, values: Values) -> list[Tensor]:
        """Return what each source adds to the target's read, [batch, time, d]; they sum to it.

        `values` hold `source_ports`, `weights` and `read`. Weights and the scales of norms stay as they were.
        """

    def cut(
        self, target: int, columns: Sequence[int], mode: Mode = "zero", donor: Values | None = None
    ) -> Intervention:
        """Return the intervention under which `target` reads without some sources; all other reads stay.

        Args:
            target: row of the map, from 0; the last is the final read.
            columns: columns of the sources, at least one.
            mode: what stands in their place.
            donor: what passed `source_ports(target)` on another batch; for ``resample`` only.

        Raises:
            CausalError: a column that the target does not read, or a mode that the design does not have.
        """
        if mode not in self.modes:
            raise CausalError(
                f"{self.axis.design}: no mode {mode!r} for {self.what}; it has {', '.join(self.modes)}"
            )
        readable = self.readable(target)
        strange = [column for column in columns if column not in readable]
        if strange or not columns:
            names = ", ".join(self.source_names[column] for column in readable)
            raise CausalError(f"{self.target_names[target]} reads {names}; found columns {list(columns)}")
        if mode == "renormalise" and len(set(columns)) == len(readable):
            raise CausalError(
                f"{self.target_names[target]} reads nothing else: no weight is left to renormalise"
            )
        if mode == "resample" and donor is None:
            raise CausalError("mode 'resample' takes values from another batch: give donor")
        without = ", ".join(self.source_names[column] for column in columns)
        return self._build(f"{self.target_names[target]} without {without}", target, columns, mode, donor)

    def _build(
        self, name: str, target: int, columns: Sequence[int], mode: Mode, donor: Values | None
    ) -> Intervention:
        ports, readable = self.source_ports(target), self.readable(target)
        places = [readable.index(column) for column in columns]

        def change(read: Tensor, values: Values) -> Tensor:
            sources = [values[port] for port in ports]
            for place in places:
                other = None if donor is None else donor[ports[place]]
                sources[place] = replacement(mode, sources[place], other)
            return self.total(target, sources, values)

        return self._edit(name, target, change)

    def _edit(self, name: str, target: int, change: Change) -> Intervention:
        needs = (*self.weights(target), *self.source_ports(target))
        return Intervention(name=name, edits=(Edit(port=self.read(target), change=change, needs=needs),))

    def families(self, target: int) -> dict[str, tuple[int, ...]]:
        """Return the target's sources as families: the embedding, those of its own block, and the older ones."""
        own = self.current(target)
        readable = self.readable(target)
        older = tuple(column for column in readable if column != 0 and column not in own)
        found = {
            "embedding": tuple(column for column in readable if column == 0),
            "current block": own,
            "older": older,
        }
        return {name: columns for name, columns in found.items() if columns}


def target_names(axis: DepthAxis) -> tuple[str, ...]:
    """Return the sublayers and the final read, ``output``."""
    return (*(sublayer.name for sublayer in axis.sublayers), "output")


def block_of(axis: DepthAxis, layer: int) -> int:
    """Return the block of sublayer `layer` (from 1): its residual block, its transformer block where there is none."""
    sublayer = axis.sublayers[layer - 1]
    return sublayer.residual_block or sublayer.transformer_block
