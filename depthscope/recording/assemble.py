"""On the drain thread: from merged moments to rows of the store, checked on the way."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from types import MappingProxyType
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from depthscope.mixing import CHECKED
from depthscope.probes import Array, Mixing, ParameterGradient, Probe, Row, definitions_of
from depthscope.quantities import QUANTITIES, DepthLayout
from depthscope.recording.dropped import REASON, unsure
from depthscope.recording.identities import mix_gap, write_gap
from depthscope.recording.merge import MergePlan, by_probe, positions_of
from depthscope.recording.packet import Packet
from depthscope.recording.probe_batch import PROBE
from depthscope.recording.rank_rows import MergedRow
from depthscope.recording.sites import Sites
from depthscope.recording.values import joined
from depthscope.recording.wiring import Change

TOLERANCE = 1e-3
LOW_PRECISION_TOLERANCE = 2e-2


class Sink(Protocol):
    """Where rows go: the store's writer, or a list in a test."""

    def append(self, stream: str, step: int, values: Mapping[str, Any]) -> bool: ...


class Assembler:
    """Turns packets into rows. A layer or target that fails its identity is withdrawn with the reason."""

    def __init__(
        self,
        probes: Sequence[Probe],
        layout: DepthLayout,
        shapes: Mapping[str, tuple[int, ...]],
        sink: Sink,
        withdraw: Callable[[str, str], None],
        sites: Sites,
        gather: Callable[[MergedRow], MergedRow | None] = lambda row: row,
        probe_shapes: Mapping[str, tuple[int, ...]] = MappingProxyType({}),
        masked: Callable[[int], None] = lambda step: None,
        refuse_mixing: Callable[[str], None] = lambda reason: None,
        sampled: Callable[[int], None] = lambda tokens: None,
        dropped: Callable[[str], None] = lambda reason: None,
    ) -> None:
        """`shapes` holds the quantities of the store, with the shape of one row of each.

        `probe_shapes` are those of a probe batch's stream. `gather` makes of this rank's row that of all ranks; None
        on a rank that gives its row away. `masked` is told of the first step in which positions were left out,
        `refuse_mixing` why there is no mixing, `sampled` once how many tokens it was taken of,
        `dropped` once why values are left out of rows in which a layer was dropped.
        """
        self.probes, self.layout, self.shapes, self.sink = tuple(probes), layout, shapes, sink
        self._withdraw, self._sites, self._gather = withdraw, sites, gather
        self._masked: Callable[[int], None] | None = masked
        self._refuse_mixing, self._incomplete = refuse_mixing, False
        self._sampled: Callable[[int], None] | None = sampled
        self._dropped: Callable[[str], None] | None = dropped
        self.probe_shapes = probe_shapes
        self._known = definitions_of(probes)
        self._of_stream: dict[str, dict[str, tuple[int, ...]]] = {}
        for name, shape in shapes.items():
            if name in self._known:
                self._of_stream.setdefault(self._known[name].stream, {})[name] = shape
        self.present: set[str] = set()
        """Arrays that have had a value, be it an infinite one."""
        self.calls: Array = np.ones(layout.layers)
        """How often the newest row saw each sublayer called in a forward."""
        self._plans: dict[tuple[int, ...], MergePlan] = {}
        self._measured: tuple[tuple[int | str, ...], list[dict[str, Array]], list[dict[str, Array]]] = (
            (),
            [],
            [],
        )
        """What the newest packet was measured to be, behind what it was measured of."""
        self._withdrawn: dict[str, npt.NDArray[np.bool_]] = {
            "layer": np.zeros(layout.layers, dtype=bool),
            "target": np.zeros(len(layout.sources), dtype=bool),
        }
        self._layer_norms_unknown = np.zeros(layout.layers, dtype=bool)
        self._norms_unknown: set[str] = set()

    def __call__(self, packet: Packet, flat: Array) -> None:
        plan = self._plan(packet)
        moments, scalars = flat[: plan.length], flat[plan.length :]
        known = joined(
            dict(packet.host_scalars) | dict(zip(packet.device_scalars, scalars.tolist(), strict=True))
        )
        if not packet.stream_rows & {"fast", "slow", PROBE}:
            for stream in packet.stream_rows:
                self.sink.append(stream, packet.step, known)
            return
        tokens, widths = self._measure(packet, known)
        of_batch = PROBE in packet.stream_rows
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            own = MergedRow(
                step=packet.step,
                moments=plan.merge(moments),
                tokens=tokens,
                widths=widths,
                known=known,
                low_precision=packet.low_precision,
                traced=packet.traced is not None,
            )
            row = own if of_batch else self._gather(own)
            if row is None:
                return
            if not row.known["loss_tokens"] and "tokens" not in row.known:
                # Nothing that the model was called with told how many; what passed at the writes does.
                row = replace(row, known={**row.known, "loss_tokens": _positions(row.tokens)})
            if not of_batch:
                self._sites.saw(packet.stream_rows, row.tokens)
            values = self._finish(row)
        if "mixing_contribution" in values and self._sampled is not None and not of_batch:
            self._sampled(int(max(held["replay"].max() for held in row.tokens if "replay" in held)))
            self._sampled = None
        if of_batch:
            self._write_probe(packet.step, values)
            return
        if "masked" in row.known and self._masked is not None:
            self._masked(row.step)
            self._masked = None
        self._write(packet, row, values)

    def leave_out(self, change: Change) -> None:
        """Leave out, from the coming row on, what a change of the model has made unknown."""
        for layer in change.sites:
            self._withdrawn["layer"][layer - 1] = True
            self._sites.withdraw("layer", layer - 1, change.reason)
        self._norms_unknown.add("grad_norm")
        if change.norms:
            self._layer_norms_unknown[[layer - 1 for layer in change.norms]] = True
        else:
            self._norms_unknown |= {*ParameterGradient.quantities} - {"param_grad_norm"}

    def _write_probe(self, step: int, values: Mapping[str, Any]) -> None:
        shapes = self.probe_shapes
        row = {name: np.broadcast_to(value, shapes[name]) for name, value in values.items() if name in shapes}
        self.sink.append(PROBE, step, row)

    def _write(self, packet: Packet, merged: MergedRow, values: Mapping[str, Any]) -> None:
        for stream in sorted(packet.stream_rows):
            row: dict[str, Any] = {
                name: value if value.shape == shape else np.broadcast_to(value, shape)
                for name, shape in self._of_stream.get(stream, {}).items()
                if (value := values.get(name)) is not None
            }
            if stream == "fast":
                row |= _whole_model(merged.known, values)
            self._sites.wrote(row)
            self.present |= {name for name in row.keys() - self.present if not np.isnan(row[name]).all()}
            self.sink.append(stream, packet.step, row)

    def _plan(self, packet: Packet) -> MergePlan:
        key = tuple(map(id, packet.visits))  # visits live as long as their observer
        if key not in self._plans:
            self._plans[key] = MergePlan(packet.visits, self.probes, self.layout)
        return self._plans[key]

    def _finish(self, merged: MergedRow) -> dict[str, Any]:
        known, tokens = merged.known, merged.tokens
        values: dict[str, Any] = {}
        for index, moments in by_probe(merged.moments).items():
            row = Row(
                step=merged.step,
                layout=self.layout,
                loss_tokens=known["loss_tokens"] or np.nan,
                loss_scale=known.get("loss_scale", 1.0) * merged.ranks,
                tokens=tokens[index],
                width=merged.widths[index],
            )
            values |= self.probes[index].finish(moments, row)
        tolerance = LOW_PRECISION_TOLERANCE if merged.low_precision else TOLERANCE
        added, mixed = values.pop("residual_gap", None), values.pop("mix_gap", None)
        if merged.traced:
            sums = by_probe(merged.moments)
            added, mixed = write_gap(sums, self.layout), mix_gap(sums)
        dropped = unsure(tokens, traced=merged.traced)
        if dropped is not None:
            dropped.leave_out(values)
            if dropped.lost and self._dropped is not None:
                self._dropped(REASON)
                self._dropped = None
            if added is not None:
                added = np.where(dropped.state, np.nan, added)
        self._check("layer", added, tolerance, "read + write does not give the state")
        self._check("target", mixed, tolerance, "the mixed sources do not give the read")
        self._check_mixing(values)
        for held in tokens:
            if "write" in held and held.get("embedding", np.zeros(1))[0]:
                self.calls = held["write"] / held["embedding"]
        if writes := [held["write"] for held in tokens if "write" in held]:
            _leave_out(values, np.max(writes, axis=0) == 0)
        if "read_in_part" in known or ("read_in_step" in known and _zeroed(values)):
            values = {
                name: value for name, value in values.items() if name not in ParameterGradient.quantities
            }
        if "withhold_gradients" in known:
            values = {name: value for name, value in values.items() if not name.startswith("grad_")}
        if merged.traced and self.calls[0] > 1 and "grad_read_rms" in values:
            # Compiled code has the gradient of the embedding here, which only the first call reads.
            values["grad_read_rms"] = np.where(
                np.arange(len(self.calls)) == 0, np.nan, values["grad_read_rms"]
            )
        if not (self._norms_unknown or self._layer_norms_unknown.any() or self._any_withdrawn):
            return values
        return {name: self._kept(name, value) for name, value in values.items()}

    def _measure(
        self, packet: Packet, known: dict[str, float]
    ) -> tuple[list[dict[str, Array]], list[dict[str, Array]]]:
        """Sum token positions and note widths, for each probe and site kind, as each probe saw them.

        Takes what a mask counted out of `known`. Steps that are alike have the very same answer.
        """
        counted = {name: known.pop(name) for name in {*packet.tokens} if isinstance(name, str)}
        key = (*map(id, packet.visits), *packet.tokens, *packet.widths)
        if not counted and key == self._measured[0]:
            return self._measured[1:]
        tokens: list[dict[str, Array]] = []
        for probe in self.probes:
            tokens.append({kind: np.zeros(max(1, positions_of(kind, self.layout))) for kind in probe.sites})
        widths = [{kind: np.full_like(array, np.nan) for kind, array in held.items()} for held in tokens]
        for visit, count, width in zip(packet.visits, packet.tokens, packet.widths, strict=True):
            tokens[visit.probe][visit.site.kind][visit.site.position] += (
                counted[count] if isinstance(count, str) else count
            )
            widths[visit.probe][visit.site.kind][visit.site.position] = width
        for array in chain.from_iterable(held.values() for held in (*tokens, *widths)):
            array.flags.writeable = False
        self._measured = key, tokens, widths
        return tokens, widths

    def _check(self, axis: str, gap: Array | None, tolerance: float, what: str) -> None:
        if gap is None:
            return
        # A NaN gap says nothing about the identity: the run itself is NaN there.
        fresh = (gap > tolerance) & ~self._withdrawn[axis]
        for position in np.flatnonzero(fresh):
            self._withdrawn[axis][position] = True
            name = (*self.layout.layer_names, "output")[position]
            reason = f"{what}: relative gap {gap[position]:.2g}, tolerance {tolerance:g}"
            self._sites.withdraw(axis, int(position), what)
            self._withdraw(f"{axis} {position + 1} ({name})", reason)

    def _check_mixing(self, values: dict[str, Any]) -> None:
        """Take out the mixing from the first replay on that does not add up."""
        gap, tolerance = values.pop("mixing_gap", None), values.pop("mixing_tolerance", None)
        if gap is not None and tolerance is not None and (gap > tolerance).any() and not self._incomplete:
            self._incomplete = True
            worst = int(np.nanargmax(gap))
            name = self.layout.target_names[worst]
            self._refuse_mixing(
                f"{CHECKED}: relative gap {gap[worst]:.2g} at {name}, tolerance {tolerance[worst]:g}"
            )
        if self._incomplete:
            for name in Mixing.quantities:
                values.pop(name, None)

    @property
    def _any_withdrawn(self) -> bool:
        return any(positions.any() for positions in self._withdrawn.values())

    def _kept(self, name: str, value: Array) -> Array:
        if name in self._norms_unknown:
            return np.full_like(value, np.nan)
        if name == "param_grad_norm":
            return np.where(self._layer_norms_unknown, np.nan, value)
        dims = self._known[name].dims if name in self._known else ("target",)  # single tokens' maps
        axis = "" if name in Mixing.quantities else dims[0] if dims else ""
        withdrawn = self._withdrawn.get(axis)
        if withdrawn is None or not withdrawn.any() or name == "mixer_grad_norm":
            return value
        kept = np.broadcast_to(value, (len(withdrawn), *value.shape[1:])).copy()
        kept[withdrawn] = np.nan
        return kept


def _zeroed(values: Mapping[str, Any]) -> bool:
    """Whether zero_grad came before the gradients were read: activations had some, parameters are all at 0."""
    return bool(values.get("grad_norm") == 0 and np.any(values.get("grad_write_rms", 0) > 0))


def _leave_out(values: dict[str, Array], unused: npt.NDArray[np.bool_]) -> None:
    """Take out what only looks like a value of sublayers that wrote nothing in this step.

    The gradient at the state behind them is none of a write; and ``zero_grad(set_to_none=False)`` leaves zeros that no
    backward made.
    """
    if "grad_write_rms" in values:
        values["grad_write_rms"] = np.where(unused, np.nan, values["grad_write_rms"])
    if "param_grad_norm" in values:
        norms = values["param_grad_norm"]
        values["param_grad_norm"] = np.where(unused & (norms == 0), np.nan, norms)


def _whole_model(known: Mapping[str, float], values: Mapping[str, Any]) -> dict[str, float]:
    """Return the scalars of the fast row; what clipping did follows from the norms before and after."""
    row = {name: value for name, value in known.items() if name in QUANTITIES}
    before, after = known.get("grad_norm_before_clip"), values.get("grad_norm")
    if before is not None:
        if "max_norm" in known:
            # torch.nn.utils.clip_grad_norm_ multiplies by max_norm / (norm + 1e-6), never by more than 1.
            row["clip_coefficient"] = float(np.minimum(1.0, known["max_norm"] / (before + 1e-6)))
        elif after is not None and before > 0:
            row["clip_coefficient"] = float(after) / before
    return row


def _positions(tokens: Sequence[Mapping[str, Array]]) -> float:
    """Return the number of positions behind the writes."""
    return float(max((held["write"].max() for held in tokens if "write" in held), default=0))
