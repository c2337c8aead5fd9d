"""The replay of a token sample in a due step of the slow stream: what every read is made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from depthscope.anatomy import Anatomy
from depthscope.mixing import Measured, MixingError, measure, no_replay_because, places_of
from depthscope.probes import Probe
from depthscope.recording.shards import reshard
from depthscope.recording.values import token_positions

COMPILED_WHOLE = (
    "the module that the loop calls is compiled whole, so no batch is seen to take tokens from: give the recorder "
    "probe_batch=, whose mixing is probe/mixing_contribution"
)

TALKING = (
    "among several ranks only models under DistributedDataParallel are replayed: another one may wait for other ranks "
    "in its forward"
)


@dataclass(frozen=True, kw_only=True)
class Replayed:
    """What a replay showed, with the positions of its sample that count."""

    measured: Measured
    mask: Tensor | None
    """[sequences, positions] of the sample; None: all."""


class Replay:
    """Replays the residual network of one model; gives up, with the reason, once that fails."""

    def __init__(
        self,
        anatomy: Anatomy,
        model: nn.Module,
        probes: Sequence[Probe],
        missing: Callable[[str], None],
        *,
        alone: bool,
    ) -> None:
        """`model` is unwrapped: what a wrapper exchanges between ranks is none of a replay's.

        `missing` is told why there will be no replays any more. `alone` says that the model talks to no other rank.
        """
        self._model, self._missing = model, missing
        self.refused = no_replay_because(anatomy, model)
        """Why there are none; empty while there are."""
        if not any("replay" in probe.sites for probe in probes):
            self.refused = "no probe looks at a replay"
        elif not self.refused and not alone:
            self.refused = TALKING
        self._places = None if self.refused or anatomy.axis is None else places_of(anatomy.axis)

    @property
    def targets(self) -> tuple[bool, ...]:
        """For each target, whether its read is seen; empty where nothing is replayed."""
        return () if self._places is None else tuple(port is not None for port in self._places.targets)

    def take(self, args: Sequence[Any], kwargs: Mapping[str, Any], mask: Tensor | None) -> Replayed | None:
        """Replay the first tokens of a forward's arguments, which leaves no trace; `mask` is over all of them.

        Nothing of it waits for the device.
        """
        if self._places is None:
            return None
        try:
            measured = measure(self._model, self._places, args, kwargs)
        except MixingError as error:
            self.refuse(str(error))
            return None
        finally:
            reshard(self._model)
        if mask is None:
            return Replayed(measured=measured, mask=None)
        sampled = (measured.sequences, measured.positions)
        part = mask[: sampled[0], : sampled[1]] if mask.dim() == 2 else mask
        # One that does not fit is named where the forward itself passes.
        fitting = part.shape == sampled and mask.numel() == token_positions(tuple(args), kwargs)
        return Replayed(measured=measured, mask=part) if fitting else None

    def refuse(self, reason: str) -> None:
        """Replay no more, for this reason."""
        if not self.refused:
            self.refused, self._places = reason, None
            self._missing(reason)
