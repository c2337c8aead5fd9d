"""What a recorded number is: the record type that store attributes, hover text and docs are made from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from depthscope.quantities.words import SAMPLE, SAMPLE_TOKENS, TOKEN_MASK, TOKENS

Stream = Literal["fast", "slow"]
Reach = Literal[
    "step",
    "layer",
    "read",
    "state",
    "fresh",
    "output",
    "state_prenorm",
    "mixed_layer",
    "target",
    "target_of_two",
    "source",
    "source_head",
    "mixing",
    "mixing_origin",
    "block",
    "block_side",
    "block_interface",
    "block_channel",
    "later_block",
    "stream",
    "stream_pair",
    "stream_layer",
    "doubly_stochastic",
    "given",
    "embedding",
    "final_read",
    "has_mixer",
    "has_outer",
]


@dataclass(frozen=True, kw_only=True)
class Quantity:
    """One recorded or derived quantity.

    `dims` are the dims after ``step``. `reach` names the rule that says which entries a design can have
    (`depthscope.quantities.reachable`). `derived` is empty for a recorded quantity; otherwise it names the
    recorded quantities that the value is computed from on reading. `held_by` names the recorded quantity that has it
    among its entries: it is read from there in runs that do not record it itself.
    """

    name: str
    label: str
    """A few words for a menu or a panel title: ``State, typical token``."""
    long_name: str
    dims: tuple[str, ...]
    units: str
    formula: str
    reduction: str
    """What the value is averaged or summed over."""
    source: str
    """Where the definition comes from."""
    stream: Stream
    reach: Reach
    derived: tuple[str, ...] = ()
    held_by: str = ""
    positive: bool = True
    """True where values are never negative, so that a log scale makes sense."""
    when: str = ""
    """Before or after clipping, where that matters."""
    note: str = ""

    def attributes(self) -> dict[str, str]:
        """Return the CF-style attributes written beside the array."""
        texts = {
            "long_name": self.long_name,
            "units": self.units,
            "formula": self.formula,
            "reduction": self.reduction,
            "source": self.source,
            "when": self.when,
            "comment": self.note,
            "token_mask": TOKEN_MASK if TOKENS in self.reduction or self.derived else "",
            "sample_tokens": SAMPLE_TOKENS if SAMPLE in self.reduction else "",
        }
        return {key: text for key, text in texts.items() if text}
