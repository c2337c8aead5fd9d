"""Labels of arcs on paper: beside their arcs, the heaviest first, and never across another arc or label."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.patches import PathPatch
from matplotlib.path import Path
from matplotlib.text import Text

from depthscope.figures.paper import Sheet

_ALONG = (0.5, 0.42, 0.58, 0.34, 0.66, 0.27, 0.73, 0.2, 0.8)
"""Places along an arc that are tried in turn, 0 its source and 1 its target."""
_CLEAR = 0.8
"""Points that stay free around a label."""
_DOWN = (0.75, 0.6, 0.45, 0.3)
"""Heights under an arc that are tried then, as shares of its own."""
_APART = 3.0
"""Points to the other arcs, so that a label belongs to one."""
_GRID = 3.0
"""Points between the places of a label that needs a line to its arc."""
_POINTS = 240
_ROUND = 0.5523
"""How far the control points of a quarter of an ellipse lie out."""
Box = tuple[float, float, float, float]
"""Left, bottom, right, top in pixels of the drawing."""


@dataclass(frozen=True, kw_only=True)
class Arc:
    """One arc in data units, and what is written beside it."""

    left: float
    right: float
    height: float
    """Below the axis where negative."""
    width: float
    """Points."""
    text: str

    def path(self) -> Path:
        """Return half an ellipse from `left` to `right` on the axis."""
        middle, half = (self.left + self.right) / 2, (self.right - self.left) / 2
        points = [
            (self.left, 0.0),
            (self.left, self.height * _ROUND),
            (middle - half * _ROUND, self.height),
            (middle, self.height),
            (middle + half * _ROUND, self.height),
            (self.right, self.height * _ROUND),
            (self.right, 0.0),
        ]
        return Path(points, [Path.MOVETO, *[Path.CURVE4] * 6])

    def patch(self, colour: str, *, dashed: bool, gid: str) -> PathPatch:
        return PathPatch(
            self.path(),
            facecolor="none",
            edgecolor=colour,
            linewidth=self.width,
            alpha=0.75,
            linestyle=(0, (2, 1)) if dashed else "solid",
            capstyle="butt",
            gid=gid,
        )

    def at(self, share: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Return points [shares, 2] of the arc in data units."""
        angle = np.pi * (1 - share)
        middle, half = (self.left + self.right) / 2, (self.right - self.left) / 2
        return np.stack([middle + half * np.cos(angle), self.height * np.sin(angle)], axis=-1)


def label_arcs(axes: Axes, arcs: Sequence[Arc], taken: Sequence[Text], sheet: Sheet) -> list[Text]:
    """Write the texts of `arcs`, heaviest first, where there is room; return those written.

    Call it when the figure has its final size and layout. Tried in turn: outside of the arc and within it, then
    the same with the first word alone. An arc without a free place gets no label, but the first always has one:
    at the nearest free place, with a thin line to its arc.
    """
    lines = [(axes.transData.transform(arc.at(np.linspace(0, 1, _POINTS))), arc.width) for arc in arcs]
    room = _Room(lines=lines, boxes=[_extent(text) for text in taken], frame=_frame(axes), dot=_dot(axes))
    written: list[Text] = []
    for place, arc in enumerate(arcs):
        text = axes.text(0, 0, arc.text, color=sheet["text-secondary"], ha="center", va="center", zorder=5)
        text.set_in_layout(False)
        box = _near(text, axes, arc, place, room)
        if box is None and place == 0:
            box = _anywhere(text, axes, arc, room, sheet)
        if box is None:
            text.remove()
            continue
        x, y = axes.transData.inverted().transform(((box[0] + box[2]) / 2, (box[1] + box[3]) / 2))
        text.set_position((float(x), float(y)))
        room.boxes.append(box)
        written.append(text)
    return written


@dataclass(frozen=True, kw_only=True)
class _Room:
    """What labels must stay clear of, in pixels."""

    lines: Sequence[tuple[npt.NDArray[np.float64], float]]
    boxes: list[Box]
    frame: Box
    dot: float
    """Pixels of a point."""

    def free(self, box: Box, own: int | None) -> bool:
        """Return whether `box` lies in the frame, on no label, and nearer to arc `own` than to any other."""
        left, bottom, right, top = box
        frame = self.frame
        if left < frame[0] or right > frame[2] or bottom < frame[1] or top > frame[3]:
            return False
        if any(left < b[2] and right > b[0] and bottom < b[3] and top > b[1] for b in self.boxes):
            return False
        for place, (points, width) in enumerate(self.lines):
            clear = (width / 2 + (0 if place == own else _APART)) * self.dot
            x, y = points[:, 0], points[:, 1]
            if ((x > left - clear) & (x < right + clear) & (y > bottom - clear) & (y < top + clear)).any():
                return False
        return True


def _near(text: Text, axes: Axes, arc: Arc, place: int, room: _Room) -> Box | None:
    for words in dict.fromkeys((arc.text, arc.text.partition(" ")[0])):
        text.set_text(words)
        boxes = [_beside(text, axes, arc, share) for share in _ALONG]
        boxes += [_within(text, axes, arc, share) for share in _DOWN]
        found = next((box for box in boxes if room.free(box, place)), None)
        if found is not None:
            return found
    text.set_text(arc.text)
    return None


def _anywhere(text: Text, axes: Axes, arc: Arc, room: _Room, sheet: Sheet) -> Box | None:
    """Return the free box on the arc's side that is nearest to its top, and draw a line from there to it."""
    top = axes.transData.transform(((arc.left + arc.right) / 2, arc.height))
    ground = float(axes.transData.transform((0, 0))[1])
    left, bottom, right, high = _extent(text)
    across, up = (right - left) / 2, (high - bottom) / 2
    grid = [
        (float(np.hypot(x - top[0], y - top[1])), (x - across, y - up, x + across, y + up))
        for x in np.arange(room.frame[0] + across, room.frame[2] - across, _GRID * room.dot)
        for y in np.arange(room.frame[1] + up, room.frame[3] - up, _GRID * room.dot)
        if (y - ground) * arc.height > 0
    ]
    box = next((box for _, box in sorted(grid) if room.free(box, None)), None)
    if box is None:
        return None
    end = (box[0] + box[2]) / 2, box[1] if arc.height > 0 else box[3]
    xs, ys = axes.transData.inverted().transform(np.array([end, top])).T
    axes.plot(
        xs, ys, color=sheet["text-muted"], linewidth=0.5, zorder=4.5, gid="leader", scalex=False, scaley=False
    )
    return box


def _within(text: Text, axes: Axes, arc: Arc, share: float) -> Box:
    """Return where a label lies in the middle under its arc, at `share` of the arc's height."""
    left, bottom, right, top = _extent(text)
    across, up = (right - left) / 2, (top - bottom) / 2
    x, y = axes.transData.transform(((arc.left + arc.right) / 2, share * arc.height))
    return (x - across, y - up, x + across, y + up)


def _frame(axes: Axes) -> Box:
    box = axes.get_window_extent()
    return (box.x0, box.y0, box.x1, box.y1)


def _dot(axes: Axes) -> float:
    figure = axes.get_figure(root=True)
    assert figure is not None
    return float(figure.dpi) / 72


def _beside(text: Text, axes: Axes, arc: Arc, share: float) -> Box:
    """Return where a label lies that touches the outside of its arc at `share`."""
    left, bottom, right, top = _extent(text)
    across, up = (right - left) / 2, (top - bottom) / 2
    before, here, after = axes.transData.transform(arc.at(np.array([share - 0.01, share, share + 0.01])))
    along = (after - before) / np.hypot(*(after - before))
    outward = np.array([-along[1], along[0]]) * np.sign(arc.height)
    # Far enough out that no corner of the box comes back over the line.
    away = across * abs(outward[0]) + up * abs(outward[1]) + (arc.width / 2 + _CLEAR) * _dot(axes)
    x, y = here + away * outward
    return (x - across, y - up, x + across, y + up)


def _extent(text: Text) -> Box:
    box = text.get_window_extent()
    return (box.x0, box.y0, box.x1, box.y1)
