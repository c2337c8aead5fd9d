"""Probes of others: what a probe must be to be recorded, and those that installed packages bring."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import EntryPoint, entry_points
from typing import Any, get_args

from depthscope.probes.probe import Merge, Probe, SiteKind
from depthscope.quantities import QUANTITIES, Quantity

GROUP = "depthscope.probes"
"""Entry points that name a probe, a list of probes, or a function that returns either."""
_PARTS = ("name", "stream", "sites", "quantities", "merges", "moments", "finish")
_DIMS = ("layer", "target", "source", "origin", "block", "side", "interface", "channel")


def registered_probes() -> tuple[Probe, ...]:
    """Return the probes of all installed packages.

    Raises:
        ValueError: one cannot be loaded or is not a probe; names its package, and how to go on without it.
    """
    found: list[Probe] = []
    for entry in sorted(entry_points(group=GROUP), key=lambda entry: entry.name):
        try:
            probes = _loaded(entry)
            checked_probes([*found, *probes])
        except Exception as error:
            package = entry.dist.name if entry.dist is not None else "an installed package"
            raise ValueError(
                f"the probe {entry.name!r} of {package} ({entry.value}) can't be recorded: "
                f"{type(error).__name__}: {error}; uninstall it, or choose probes= yourself"
            ) from error
        found += probes
    return tuple(found)


def checked_probes(probes: Iterable[Any]) -> tuple[Probe, ...]:
    """Return `probes` when each is one and no two give the same quantity; ValueError says what is wrong."""
    owners: dict[str, str] = {}
    checked = tuple(probes)
    for probe in checked:
        if wrong := faults_of(probe):
            raise ValueError(f"probe {getattr(probe, 'name', probe)!r}: {wrong[0]}")
        for name in probe.quantities:
            if name in owners:
                raise ValueError(f"the probes {owners[name]!r} and {probe.name!r} both give {name!r}")
            owners[name] = probe.name
    return checked


def definitions_of(probes: Iterable[Probe]) -> Mapping[str, Quantity]:
    """Return every quantity by name: the catalogue's, and those that probes bring in `definitions`."""
    own = {each.name: each for probe in probes for each in getattr(probe, "definitions", ())}
    return {**QUANTITIES, **own}


def faults_of(probe: Any) -> list[str]:
    """Return what keeps an object from being a probe; empty for a probe."""
    if isinstance(probe, type):
        return [f"a class was given: give an instance, {probe.__name__}()"]
    if lacking := [part for part in _PARTS if not hasattr(probe, part)]:
        return [f"it has no {lacking[0]!r}; a probe has {', '.join(_PARTS)}"]
    faults = []
    if probe.stream not in ("fast", "slow"):
        faults.append(f"stream is {probe.stream!r}: expected 'fast' or 'slow'")
    faults += [
        f"sites names {site!r}: expected some of {', '.join(get_args(SiteKind))}"
        for site in probe.sites
        if site not in get_args(SiteKind)
    ]
    faults += [
        f"merges says {rule!r} of {moment!r}: expected one of {', '.join(get_args(Merge))}"
        for moment, rule in probe.merges.items()
        if rule not in get_args(Merge)
    ]
    return [*faults, *_faults_of_quantities(probe)]


def _faults_of_quantities(probe: Any) -> list[str]:
    faults = []
    own = {each.name: each for each in getattr(probe, "definitions", ())}
    for name, definition in own.items():
        if name in QUANTITIES:
            faults.append(f"it defines {name!r}, which the catalogue has: choose another name")
        if unknown := [dim for dim in definition.dims if dim not in _DIMS]:
            faults.append(f"{name!r} has dim {unknown[0]!r}: expected some of {', '.join(_DIMS)}")
    known = {**QUANTITIES, **own}
    for name in probe.quantities:
        if name not in known:
            faults.append(f"nothing says what {name!r} is: give a Quantity of that name in `definitions`")
        elif known[name].stream != probe.stream:
            faults.append(
                f"{name!r} is of the {known[name].stream} stream, the probe of the {probe.stream} one"
            )
    return faults


def _loaded(entry: EntryPoint) -> Sequence[Probe]:
    found = entry.load()
    if (callable(found) and not hasattr(found, "moments")) or isinstance(found, type):
        found = found()
    return list(found) if isinstance(found, list | tuple) else [found]
