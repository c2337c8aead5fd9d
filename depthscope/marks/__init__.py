"""What model code may say about itself: which weights depend on the state, and where its depth axis passes.

`coefficient` marks a weight that depends on the state; the frozen records in `description` let a model name its
own reads, writes and states. Models and anatomy share these words, so neither needs to know the other.
"""

from depthscope.marks.coefficient import Tape, coefficient
from depthscope.marks.description import (
    DepthAxis,
    Mixer,
    OuterBlock,
    Port,
    StreamMixing,
    Sublayer,
)

__all__ = ["DepthAxis", "Mixer", "OuterBlock", "Port", "StreamMixing", "Sublayer", "Tape", "coefficient"]
