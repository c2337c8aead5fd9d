"""The runs below the root, known to the browser by opaque ids and slots, never by paths."""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from depthscope.app.reading import CachedRun
from depthscope.figures import run_dash, unambiguous
from depthscope.store import Run, RunError, open_run, run_folders, sweep_folder

_RESCAN_SECONDS = 1.0


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One folder that holds a run, readable or not."""

    id: str
    slot: int
    folder: Path
    run: CachedRun | None
    name: str = ""
    """What it is called everywhere: of several runs with one name, each has a part of its folder beside it."""
    problem: str = ""
    """Why it cannot be read, in words and without the path of the root."""


class Registry:
    """Finds runs, keeps them open, and numbers them; safe from any thread.

    Slots are given in order of creation and stay: a run found later never changes another run's colour.
    """

    def __init__(self, root: Path, lacks: Mapping[str, Callable[[CachedRun], str]] | None = None) -> None:
        """`lacks` says for each page why a run has nothing to show there: the drawer shows it muted."""
        self._lacks = lacks or {}
        self.root = root.absolute()
        self._real = root.resolve()
        self._lock = threading.Lock()
        self._entries: dict[Path, Entry] = {}
        self._scanned = 0.0
        self._slots = 0
        self._times: dict[str, tuple[Any, float]] = {}
        run_folders(self.root)

    def entries(self) -> list[Entry]:
        """Return all runs in slot order, looking for new ones about once a second."""
        with self._lock:
            if time.monotonic() - self._scanned >= _RESCAN_SECONDS:
                self._scan()
                self._scanned = time.monotonic()
            return sorted(self._entries.values(), key=lambda entry: entry.slot)

    def runs(self, ids: Iterable[str]) -> list[CachedRun]:
        """Return the readable runs of `ids`, in slot order; ids that are not there are left out.

        Their names tell these runs apart, no others: where no other run of a name is shown, it needs no folder.
        """
        wanted = set(ids)
        found = [entry.run for entry in self.entries() if entry.id in wanted and entry.run is not None]
        whole = [run for run in found if _is_whole(run)]
        names = unambiguous([(run.recorded_name, self._place(run.run.path)) for run in whole])
        return [
            run if run.name == name else CachedRun(run.run.renamed(name), run.id, place=run.place)
            for run, name in zip(whole, names, strict=True)
        ]

    def slots(self) -> dict[str, int]:
        return {entry.id: entry.slot for entry in self.entries()}

    def catalogue(self) -> dict[str, Any]:
        """Return what the drawer shows of every run, and the age in seconds of the newest data."""
        entries = self.entries()
        newest = max((self._newest(entry.run) for entry in entries if entry.run is not None), default=0.0)
        return {
            "runs": [self._describe(entry) for entry in entries],
            "root": self.root.name or str(self.root),
            "age": round(max(time.time() - newest, 0.0), 1) if newest else None,
        }

    def _scan(self) -> None:
        try:
            folders = run_folders(self.root)
        except RunError:
            folders = []
        for gone in set(self._entries) - set(folders):
            del self._entries[gone]
        opened = []
        for folder in folders:
            known = self._entries.get(folder)
            if known is None or known.run is None:
                opened.append((folder, *self._open(folder)))
        taken = {entry.id for entry in self._entries.values()}
        for folder, run, problem in sorted(opened, key=lambda found: _age_order(found[1], found[0])):
            known = self._entries.get(folder)
            if known is not None:
                identifier, slot = known.id, known.slot
            else:
                identifier, slot = self._identify(folder, run, taken), self._slots + 1
                self._slots = slot
            taken.add(identifier)
            typed = "/".join(self._place(folder))
            cached = None if run is None else CachedRun(run, identifier, place=typed)
            self._entries[folder] = Entry(
                id=identifier, slot=slot, folder=folder, run=cached, problem=problem
            )
        self._name()

    def _name(self) -> None:
        """Tell runs of one name apart, by parts of their folders below the root."""
        entries = list(self._entries.values())
        own = [entry.folder.name if entry.run is None else entry.run.recorded_name for entry in entries]
        places = [self._place(entry.folder) for entry in entries]
        for entry, name in zip(entries, unambiguous(list(zip(own, places, strict=True))), strict=True):
            if entry.name != name:
                own_run = entry.run
                run = (
                    None
                    if own_run is None
                    else CachedRun(own_run.run.renamed(name), entry.id, place=own_run.place)
                )
                self._entries[entry.folder] = replace(entry, name=name, run=run)

    def _place(self, folder: Path) -> tuple[str, ...]:
        return (self.root.name, *folder.relative_to(self.root).parts)

    def _open(self, folder: Path) -> tuple[Run | None, str]:
        outside = next((part for part in _parts(folder) if not self._is_inside(part)), None)
        if outside is not None:
            return None, f"{outside.relative_to(self.root)} is a link that leaves the folder served"
        try:
            return open_run(folder), ""
        except RunError as error:
            return None, self.without_root(str(error))

    def without_root(self, text: str) -> str:
        """Return `text` without the absolute path of the root: the browser never sees it."""
        return text.replace(f"{self.root}/", "").replace(str(self.root), self.root.name)

    def _is_inside(self, path: Path) -> bool:
        return path.resolve().is_relative_to(self._real)

    def _identify(self, folder: Path, run: Run | None, taken: set[str]) -> str:
        """A run's own id, so that links outlive a restart; for copies and broken runs one of the place."""
        if run is not None:
            own = hashlib.sha256(run.id.encode()).hexdigest()[:10]
            if own not in taken:
                return own
        return hashlib.sha256(str(folder.relative_to(self.root)).encode()).hexdigest()[:10]

    def _describe(self, entry: Entry) -> dict[str, Any]:
        about: dict[str, Any] = {
            "id": entry.id,
            "slot": entry.slot,
            "dash": "" if run_dash(entry.slot) == "solid" else run_dash(entry.slot),
            "name": entry.name,
            "kind": "",
            "status": "unreadable",
            "last_step": None,
            "total": None,
            "version": "",
            "sources": 0,
            "layers": 0,
            "measured": {},
            "lacks": {},
            "problem": entry.problem or None,
        }
        run = entry.run
        if run is None:
            return about
        try:
            return {
                **about,
                "kind": kind_of(run.config, run.layout.design),
                "status": run.status,
                "last_step": run.last_step,
                "total": total_steps(run.config),
                "version": run.version_mark(),
                "sources": len(run.layout.source_names),
                "layers": run.layout.layers,
                "measured": measured_steps(run),
                "lacks": {page: why for page, lacks in self._lacks.items() if (why := lacks(run))},
            }
        except (RunError, OSError) as error:
            return {**about, "problem": self.without_root(str(error))}

    def _newest(self, run: CachedRun) -> float:
        """Return when the run's newest row was recorded, reading it only when there are new ones."""
        try:
            version = run.version()
            seen = self._times.get(run.id)
            if seen is None or seen[0] != version:
                seen = (version, run.newest_row_time() or 0.0)
                self._times[run.id] = seen
        except (RunError, OSError, KeyError):
            return 0.0
        return seen[1]


def measured_steps(run: CachedRun) -> dict[str, list[int]]:
    """Return, by kind of sweep, the steps that a run was measured at: between them what is shown of it stands still."""
    found: dict[str, set[int]] = {}
    for sweep in run.sweeps():
        if sweep.step is not None:
            found.setdefault(sweep.kind, set()).add(sweep.step)
    return {kind: sorted(steps) for kind, steps in found.items()}


def kind_of(config: Mapping[str, Any], design: str) -> str:
    """Return the badge of a run: its configuration's `kind`, else its design without options."""
    kind = config.get("kind")
    return kind if isinstance(kind, str) and kind else design.partition(":")[0]


def total_steps(config: Mapping[str, Any]) -> int | None:
    """Return the planned number of steps, where the configuration holds it."""
    schedule = config.get("schedule")
    for value in (schedule.get("total") if isinstance(schedule, Mapping) else None, config.get("steps")):
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return value
    return None


def _is_whole(run: CachedRun) -> bool:
    """Whether the run's commit can be read; when not, the catalogue says why."""
    try:
        run.version()
    except (RunError, OSError):
        return False
    return True


def _parts(folder: Path) -> tuple[Path, ...]:
    record = folder / "rank00000"
    return (folder, folder / "run.json", record, record / "data.zarr", sweep_folder(folder))


def _age_order(run: Run | None, folder: Path) -> tuple[str, str]:
    return ("9" if run is None else run.created, str(folder))
