"""What the caption of a depth profile says of what its lines cannot show: marked values, and gaps by design."""

from __future__ import annotations

from collections.abc import Mapping

from depthscope.figures import Panel, has_design_gaps, profile_marks


def unseen_sentences(panels: Mapping[str, Panel], *, log: bool) -> list[str]:
    """Return what marks at the edges stand for, and why a line has a gap; empty where there are none."""
    profiles = [panel.data for panel in panels.values() if panel.figure == "depth-profile"]
    marks = list(dict.fromkeys(words for data in profiles for words in profile_marks(data, log=log)))
    told = "; ".join(marks)
    gaps = any(has_design_gaps(data) for data in profiles)
    return [
        f"{told[:1].upper()}{told[1:]}." if told else "",
        "A line has a gap where the design of its run has no such value." if gaps else "",
    ]
