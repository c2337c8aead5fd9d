"""What one rank alone saw, as a run of its own beside the merged one: ``PATH.rank00001`` of rank 1."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from depthscope.probes import Array, ParameterGradient
from depthscope.recording.assemble import Assembler
from depthscope.recording.packet import Packet
from depthscope.recording.rank_rows import MergedRow
from depthscope.recording.run_description import RunDescription
from depthscope.store import ArraySpec, RunWriter, StreamSpec

_SEEN = "this rank's own tokens; gradients are those of this rank's own mean loss, before any reduction"
_REDUCED = "the gradients after their reduction over all ranks, as this rank's optimizer uses them"
_SHARD = "the shard that this rank holds, after the reduction over all ranks"


@dataclass(frozen=True, kw_only=True)
class RankLabel:
    """Which rank of how many a run is of."""

    rank: int
    world: int
    sharded: bool
    """Parameters are sharded: this rank has the norms of its part only."""

    def path(self, merged: Path) -> Path:
        return merged.with_name(f"{merged.name}.rank{self.rank:05d}")

    def labelled(self, streams: Sequence[StreamSpec]) -> list[StreamSpec]:
        """Return the merged run's streams with arrays that say whose values they hold."""
        return [
            replace(stream, arrays=tuple(self._labelled(array) for array in stream.arrays))
            for stream in streams
        ]

    def _labelled(self, array: ArraySpec) -> ArraySpec:
        attributes = {
            name: value for name, value in array.attributes.items() if name not in ("ranks", "rank_factor")
        }
        of_parameters = array.name in ParameterGradient.quantities
        held = _SEEN if not of_parameters else _SHARD if self.sharded else _REDUCED
        return replace(
            array, attributes={**attributes, "rank": self.rank, "of_ranks": self.world, "held": held}
        )

    def described(self, merged: RunDescription) -> RunDescription:
        """Return what this rank's ``run.json`` says."""
        return replace(
            merged,
            path=self.path(merged.path),
            name=f"{merged.name} (rank {self.rank})",
            config={**merged.config, "depthscope_rank": {"rank": self.rank, "of_ranks": self.world}},
        )


class RankRun:
    """Writes this rank's rows on its drain thread; no other rank is asked or waited for."""

    def __init__(self, writer: RunWriter, assembler: Callable[..., Assembler]) -> None:
        """`assembler` makes one of a sink, of what is told of withdrawals, and of what becomes of a row."""
        self.writer = writer
        self.resumes = writer.recovered is not None
        self._assemble = assembler(writer, self._withdraw, self._own)

    def __call__(self, packet: Packet, flat: Array) -> None:
        if packet.stream_rows & {"fast", "slow"}:
            if self.resumes:
                self.writer.rewind(packet.step)
                self.resumes = False
            self._assemble(packet, flat)

    def close(self, missing: Mapping[str, str], notes: Sequence[str]) -> None:
        self.writer.annotate("missing", dict(missing))
        self.writer.annotate("notes", list(notes))
        self.writer.close()

    def _withdraw(self, where: str, reason: str) -> None:
        self.writer.annotate("missing", {where: f"withdrawn: {reason}"})

    def _own(self, row: MergedRow) -> MergedRow:
        """Leave out the global norm where this rank knows a share of it only."""
        if "norm_shares" not in row.known:
            return row
        left_out = ("grad_norm_before_clip", "max_norm")
        return replace(row, known={name: value for name, value in row.known.items() if name not in left_out})
