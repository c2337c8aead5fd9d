"""A damaged run, read without the arrays that cannot be read."""

from __future__ import annotations

from functools import cached_property

from depthscope.store import Run, RunError


class Undamaged(Run):
    """A run whose damaged arrays count as not recorded; `damaged` gives the reason of each."""

    def __init__(self, run: Run) -> None:
        self.__dict__.update(run.__dict__)

    @cached_property
    def damaged(self) -> dict[str, str]:
        """What is wrong with each name that cannot be read; finding out reads everything."""
        found = {}
        for name in super().quantities:
            try:
                super().read(name)
            except RunError as error:
                found[name] = str(error)
        return found

    def __contains__(self, name: object) -> bool:
        names = {str(name), str(name).rpartition("/")[2]}
        return super().__contains__(name) and not names & self.damaged.keys()

    @property
    def quantities(self) -> tuple[str, ...]:
        return tuple(name for name in super().quantities if name not in self.damaged)

    @property
    def missing(self) -> dict[str, str]:
        return super().missing | dict.fromkeys(self.damaged, "damaged")
