"""Why a group of parameters has no gradient norm of its own: it is frozen, or its weights are tied to another's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torch import nn

from depthscope.anatomy import REST, parameter_groups, tied_names, tied_parameters
from depthscope.marks import DepthAxis

_FROZEN = "frozen: none of its parameters requires a gradient"
_WAS_FROZEN = "was frozen in earlier rows: none of its parameters required a gradient"
_NONE = "no parameter belongs to it"


class GroupReasons:
    """Looks again with every row, since a loop may freeze and unfreeze as it goes."""

    def __init__(self, axis: DepthAxis, model: nn.Module) -> None:
        groups = parameter_groups(axis, model)
        parameters = dict(model.named_parameters())
        self._groups: dict[str, Sequence[nn.Parameter]] = {
            group: [parameters[name] for name in members] for group, members in groups.items() if members
        }
        self._frozen: frozenset[str] = frozenset()
        owner = {name: group for group, members in groups.items() for name in members}
        tied = tied_parameters(model)
        self.notes = tuple(
            f"{further} is {name}: tied weights are recorded once, with the {_words(owner[name])}"
            for further, name in tied.items()
        )
        """One for each further name of a tied parameter."""
        reasons = tied_groups(axis, model)
        self.empty = {
            _quantity(group): reasons.get(group, _NONE)
            for group, members in groups.items()
            if not members and group != REST
        }
        """Reasons for the groups without a parameter."""

    def news(self) -> dict[str, str]:
        """Return a reason for every group that was frozen or unfrozen since the last call."""
        frozen = frozenset(
            group
            for group, parameters in self._groups.items()
            if not any(parameter.requires_grad for parameter in parameters)
        )
        changed, self._frozen = frozen ^ self._frozen, frozen
        return {_quantity(group): _FROZEN if group in frozen else _WAS_FROZEN for group in sorted(changed)}


def tied_groups(axis: DepthAxis, model: nn.Module) -> dict[str, str]:
    """Return, for each group whose parameters are all another's too, what they are tied to and where they count."""
    groups, tied = parameter_groups(axis, model), tied_names(axis, model)
    owner = {name: group for group, members in groups.items() for name in members}
    reasons = {}
    for group, members in groups.items():
        for further, name in tied.get(group, {}).items():
            if not members:
                reasons[group] = (
                    f"tied to the {_words(owner[name])}: {further} is {name}, which is recorded once, there"
                )
    return reasons


def known(reasons: Mapping[str, str], recorded: Sequence[str]) -> dict[str, str]:
    """Return those reasons that speak of a recorded quantity."""
    return {what: reason for what, reason in reasons.items() if what.split(" of ")[0] in recorded}


def _quantity(group: str) -> str:
    """Return the quantity, and the entry of it, that a group of parameters fills."""
    kind, *place = group.split("/")
    if kind == "layer":
        return f"param_grad_norm of layer {place[0]}"
    if kind == "mixer":
        return f"mixer_grad_norm of target {place[0]}"
    if kind == "interface":
        return f"interface_grad_norm of block {place[0]}, {place[1]}"
    return f"{kind}_grad_norm"


def _words(group: str) -> str:
    return group.replace("/", " ").replace("_", " ")
