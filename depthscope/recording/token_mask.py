"""`TokenMask`: which positions the loop lets count, on the way from `Recorder.tokens` into forwards."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from depthscope.recording.arming import Arming
from depthscope.recording.positions import NOTHING_FITS, checked_mask
from depthscope.recording.strict import strict


class TokenMask:
    """The mask of the forwards to come; a forward that has begun has it in `Arming.mask`, its backward too."""

    def __init__(self, arming: Arming) -> None:
        self._arming = arming
        self.coming: Tensor | None = None
        self.given = False
        """Some positions of this optimizer step were left out, or could have been."""
        self._taken = False
        """A forward has begun with it."""

    def set_aside(self) -> Tensor | None:
        """Return the mask of the context around, which does not count inside of a new one."""
        earlier, self.coming = self.coming, None
        return earlier

    def enter(self, mask: Any) -> None:
        """Let only positions count that are True in `mask`; none where it is no mask (under strict: TypeError)."""
        device = self._arming.gate.device
        try:
            checked = checked_mask(mask, device)
        except TypeError as error:
            if strict():
                raise
            checked, self._arming.no_mask = NOTHING_FITS.to(device), str(error)
        self.coming = self._arming.mask = checked
        self._taken, self.given = False, True

    def leave(self, earlier: Tensor | None) -> None:
        """End the context: from now on it is `earlier` again."""
        self.coming = earlier
        if not self._taken:
            # Compiled code has. In eager code the backward may recompute this very forward.
            self._arming.mask = earlier

    def begin_forward(self) -> None:
        self._arming.mask, self._taken = self.coming, True

    def end_step(self) -> None:
        self.given, self._arming.mask = self.coming is not None, self.coming
        self._arming.no_mask = ""
