"""What model code may say about itself: two calls and a description of its depth axis.

`coefficient` marks a weight that depends on the state, `tap` shows a tensor that no module carries, and the
frozen records in `description` let a model name its own reads, writes and states. Models and anatomy
share these words, so neither needs to know the other.
"""

from depthscope.marks.coefficient import Tape, coefficient
from depthscope.marks.description import (
    DepthAxis,
    Mixer,
    OuterBlock,
    Port,
    Sublayer,
)
from depthscope.marks.tap import tap

__all__ = ["DepthAxis", "Mixer", "OuterBlock", "Port", "Sublayer", "Tape", "coefficient", "tap"]
