"""What every site of the depth axis gave so far: which quantities, over which rows, and why the rest is not there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from depthscope.probes import Array
from depthscope.quantities import DepthLayout, Quantity, reachable
from depthscope.recording.schema import absence
from depthscope.recording.site_lines import SiteLine, grouped, where

SILENT_AFTER = 3
"""Due steps after which a site that never fired, or fires no more, is named."""
Place: TypeAlias = tuple[str, int]
"""A kind of site, and the entry on its axis, from 0."""
Mask: TypeAlias = npt.NDArray[np.bool_]

_KINDS = {
    "embedding": "embedding",
    "write": "write",
    "read": "read_gradient",
    "state": "state",
    "output": "output",
    "state before its norm": "state_prenorm",
    "streams": "stream_mixing",
    "mixer": "mixer",
    "outer state": "outer_block",
    "final read": "final_read",
}
"""Kinds of the report, each with the probes' kind whose tokens tell that it fired."""
_OF_LAYERS = {
    "state": "state",
    "output": "output",
    "state_prenorm": "state before its norm",
    **dict.fromkeys(("stream", "stream_pair", "stream_layer", "doubly_stochastic"), "streams"),
}
"""The kind of site of a quantity over layers, by its reach; that of all others is the write."""
_WITHIN = ("write", "mixer", "outer state")
"""Kinds that are seen within the blocks only: the first read is also the embedding, the last state the final read."""
_PARTLY = {"target_of_two": "it has one source only", "later_block": "no block comes after it"}
"""Why one entry of a quantity can lack a value that others of the same model have."""
NO_PRODUCT = (
    "the matrices of all layers were never there together: a layer was left out, or runs in a checkpointed region of "
    "compiled code, where no hook can hand them on"
)
STOPPED = (
    "stopped firing: its module was replaced, compiled, or is no longer called, or a second model of its class was "
    "compiled, whose code without hooks it now runs (torch._dynamo.config.skip_nnmodule_hook_guards = False, before "
    "compiling, keeps them apart)"
)


@dataclass(frozen=True, kw_only=True)
class Silence:
    """A site that gave nothing, with the likely cause."""

    place: Place
    cause: str


class Sites:
    """Fed by the drain thread with each row; read by the report."""

    def __init__(
        self,
        layout: DepthLayout,
        recorded: Iterable[Quantity],
        cause: Callable[[Place, Sites], str],
        every: Mapping[str, int],
    ) -> None:
        """`cause` says why a place never fired."""
        self.layout, self._cause, self._every = layout, cause, every
        self.quantities: dict[str, list[Quantity]] = {}
        """By kind of site."""
        for quantity in recorded:
            if kind := kind_of(quantity):
                self.quantities.setdefault(kind, []).append(quantity)
        self.rows = {"fast": 0, "slow": 0}
        self._valued: dict[str, Mask] = {
            quantity.name: np.zeros(len(self._reach(quantity)), dtype=bool)
            for held in self.quantities.values()
            for quantity in held
        }
        self._partly_valued = {*self._valued}
        """Quantities of which an entry has had no value yet."""
        self._fired: dict[str, Mask] = {}
        self._silent_rows: dict[str, npt.NDArray[np.intp]] = {}
        """Rows without anything since it last fired, up to one more than make it silent."""
        self._settled: tuple[Sequence[Mapping[str, Array]], frozenset[str]] | None = None
        """A row that changed nothing, as it was given: the very same one again changes nothing either."""
        self._withdrawn: dict[Place, str] = {}
        self._lost: list[Place] = []
        self.changed = True
        """Something fired for the first time, fell silent or was withdrawn since the report was last written."""

    # --- what comes in ----------------------------------------------------------------------------------

    def saw(self, streams: Iterable[str], tokens: Sequence[Mapping[str, Array]]) -> None:
        """Note the tokens of one row, for each probe by the probes' kinds. Arrays given are not to change any more."""
        due = frozenset(streams)
        for stream in due & self.rows.keys():
            self.rows[stream] += 1
        if self._settled is not None and self._settled[0] is tokens and self._settled[1] == due:
            return
        together: dict[str, Array] = {}
        for held in tokens:
            for kind, counts in held.items():
                together[kind] = np.maximum(together[kind], counts) if kind in together else counts
        settled = True
        for kind, theirs in _KINDS.items():
            if theirs in together and kind in self.quantities and self.stream_of(kind) in due:
                settled &= not self._saw_kind(kind, together[theirs] > 0)
        self.changed |= bool(self._lost)
        self._settled = (tokens, due) if settled else None

    def _saw_kind(self, kind: str, fired: Mask) -> bool:
        """Note where a kind fired in one row; return whether this changed what is known."""
        before = self._fired.get(kind, np.zeros_like(fired))
        were_silent = self._silent_rows.get(kind, np.zeros(len(fired), dtype=np.intp))
        silent = np.where(fired, 0, np.minimum(were_silent + 1, SILENT_AFTER + 1))
        new = bool((fired & ~before).any())
        self.changed |= new
        self._fired[kind], self._silent_rows[kind] = before | fired, silent
        if kind != "read":  # a read whose gradient is missing in a row was there all the same
            fell = np.flatnonzero((silent == SILENT_AFTER) & before)
            places = [(kind, int(position)) for position in fell]
            self._lost += [place for place in places if place not in self._withdrawn]
        return new or bool((silent != were_silent).any())

    def wrote(self, row: Mapping[str, Any]) -> None:
        """Note which entries of a row have a value."""
        for name in row.keys() & self._partly_valued:
            known = self._valued[name]
            there = ~np.isnan(np.asarray(row[name], dtype=np.float64)).reshape(len(known), -1).all(axis=1)
            self.changed |= bool((there & ~known).any())
            known |= there
            if known.all():
                self._partly_valued.remove(name)

    def withdraw(self, axis: str, position: int, reason: str) -> None:
        """Note that nothing of a layer, or of a target, is recorded any more."""
        for kind, held in self.quantities.items():
            if held[0].dims[:1] == (axis,) and not kind.endswith("parameters"):
                self._withdrawn[kind, position] = f"withdrawn: {reason}"
        self.changed = True

    def take_lost(self) -> list[Place]:
        """Return the places that have fallen silent since the last call."""
        lost, self._lost = self._lost, []
        return lost

    # --- what is known ----------------------------------------------------------------------------------

    def fired(self, kind: str, position: int) -> bool:
        """Whether anything came from a place."""
        if kind in self._fired and self._fired[kind][position]:
            return True
        return any(
            self._valued[each.name][position]
            for each in self.quantities.get(kind, ())
            if _tells(kind, each.name)
        )

    def any(self, kind: str) -> bool:
        """Whether anything came from any place of a kind."""
        return kind in self.quantities and any(map(partial(self.fired, kind), range(self._size(kind))))

    @property
    def blind(self) -> bool:
        """Whether writes are looked at, and nothing came from any write, mixer or outer block."""
        return "write" in self.quantities and not any(map(self.any, _WITHIN))

    def called(self, place: Place) -> str:
        """Return the words for a place: ``write of layer 3 (layers.2)``."""
        kind, position = place
        return " of ".join(filter(None, (kind, where(self._axis(kind), [position], self._names(kind)))))

    @property
    def graded(self) -> bool:
        """Whether any parameter's gradient was seen."""
        kinds = [kind for kind in self.quantities if kind.endswith("parameters")]
        return any(self._valued[each.name].any() for kind in kinds for each in self.quantities[kind])

    def stream_of(self, kind: str) -> str:
        return self.quantities[kind][0].stream

    def silences(self, streams: Iterable[str]) -> list[Silence]:
        """Return every site of the streams, parameters apart, that was due for `SILENT_AFTER` rows and never fired."""
        return [
            Silence(place=(kind, position), cause=self._cause((kind, position), self))
            for kind in self.quantities
            if kind in _KINDS and self.stream_of(kind) in streams
            if self.rows[self.stream_of(kind)] >= SILENT_AFTER
            for position in range(self._size(kind))
            if any(self._reach(quantity)[position] for quantity in self.quantities[kind])
            and not self.fired(kind, position)
        ]

    def lines(self, *, final: bool = False) -> list[SiteLine]:
        """Return the report: places with the same outcome in one line. `final`: no row will come any more."""
        lines = []
        for kind in self.quantities:
            outcomes = [self._outcome(kind, position, final) for position in range(self._size(kind))]
            lines += grouped(kind, self._axis(kind), self._names(kind), outcomes)
        return lines

    # --- inside -----------------------------------------------------------------------------------------

    def _outcome(
        self, kind: str, position: int, final: bool
    ) -> tuple[tuple[str, ...], tuple[tuple[str, str], ...]]:
        """Return what a place gave, and of the rest each name with the reason."""
        there: list[str] = []
        lacking: dict[str, str] = {}
        withdrawn = self._withdrawn.get((kind, position))
        for quantity in self.quantities[kind]:
            if withdrawn is not None:
                lacking[quantity.name] = withdrawn
            elif self._valued[quantity.name][position]:
                there.append(quantity.name)
            elif not self._reach(quantity)[position]:
                lacking[quantity.name] = _PARTLY.get(quantity.reach, absence(quantity))
            else:
                lacking[quantity.name] = self._why(quantity, kind, position, final)
        silent = self._silent_rows.get(kind)
        quiet = silent is not None and kind != "read" and silent[position] >= SILENT_AFTER
        if quiet and self.fired(kind, position):
            lacking["all of it by now"] = STOPPED
        return tuple(there), tuple(lacking.items())

    def _why(self, quantity: Quantity, kind: str, position: int, final: bool) -> str:
        rows = self.rows[quantity.stream]
        if not rows:
            return f"no step of the {quantity.stream} stream was due (every {self._every[quantity.stream]})"
        if not (final or rows >= SILENT_AFTER):
            return f"not seen in {rows} due step{'s' if rows > 1 else ''} so far"
        if not self.fired(kind, position):
            return self._cause((kind, position), self)
        if kind == "read" and not quantity.name.startswith("grad_") and not self.fired("write", position):
            return "it is looked at together with the write, which never fired"
        if quantity.name.startswith("grad_"):
            return "no gradient came back: all in front of it is frozen, or it does not reach the loss"
        if quantity.name.startswith("gain_"):
            return NO_PRODUCT
        return "every value was NaN"

    def _reach(self, quantity: Quantity) -> list[bool]:
        mask = reachable(quantity, self.layout)
        if isinstance(mask, bool):
            return [mask]
        return [entry if isinstance(entry, bool) else bool(np.any(np.array(entry))) for entry in mask]

    def _size(self, kind: str) -> int:
        return len(self._reach(self.quantities[kind][0]))

    def _axis(self, kind: str) -> str:
        dims = self.quantities[kind][0].dims
        return dims[0] if dims else ""

    def _names(self, kind: str) -> tuple[str, ...]:
        axes = {"layer": self.layout.layer_names, "target": self.layout.target_names}
        return axes.get(self._axis(kind), ())


def _tells(kind: str, name: str) -> bool:
    """Whether a value of a quantity says that its site fired: parameters have values anyway, and the gradient of a
    write is often seen as that of the next read."""
    return name not in ("query_norm", "interface_gate", "write_read_coupling") and (
        kind == "read" or not name.startswith("grad_w")
    )


def kind_of(quantity: Quantity) -> str:
    """Return the kind of site at which a stored quantity is seen; empty where it belongs to the step as a whole."""
    name, axis = quantity.name, quantity.dims[0] if quantity.dims else ""
    if name.endswith("_grad_norm"):
        part = name.removesuffix("_grad_norm").replace("_", " ")
        return f"{'sublayer' if part == 'param' else part} parameters"
    if axis == "layer":
        if "read" in name.split("_"):
            return "read"
        return _OF_LAYERS.get(quantity.reach, "write")
    if axis == "target":
        # What a replay gives passes no site.
        return "" if quantity.reach.startswith("mixing") else "mixer"
    if axis == "block" or quantity.reach == "has_outer":
        return "outer state" if axis == "block" else ""
    return {"embedding": "embedding", "final_read": "final read"}.get(quantity.reach, "")
