"""Every trace of the project, in one place: a forward of a copied model with plain functions run inside it.

What importing nnsight 0.8 does to a process, each seen here: it replaces `torch.Tensor.backward` by one under which
``with context: loss.backward()`` written on one line never runs backward; it gives every object a ``save``, which
hides a child module of that name; and a wrapped module's forward stays wrapped, and fails in another thread while it
is traced. So the first two are undone right after the import, models are copied before they are wrapped, and one
trace runs at a time. Where another thread trains, let the first trace end before its first step: while the import
runs, nothing protects its one-line backward passes.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import nn

from depthscope.causal.error import CausalError

_ONE_AT_A_TIME = threading.RLock()


def wrap(model: nn.Module) -> tuple[Any, dict[str, Any]]:
    """Return nnsight's handle of `model` and, by module path, those of its modules. Wraps the forwards for good.

    Handles are found by the module that they hold, since a child called ``output`` or ``input`` has another label.
    """
    with _ONE_AT_A_TIME:
        root = _nnsight().NNsight(model)
        handles = {id(handle._module): handle for handle in root.modules()}
    found = {path: handles.get(id(module)) for path, module in model.named_modules()}
    lost = [path for path, handle in found.items() if handle is None]
    if lost:
        raise CausalError(
            f"nnsight gives no handle for {', '.join(lost)}; is a module of the model built anew?"
        )
    return root, found


def trace(root: Any, args: Sequence[Any], kwargs: Mapping[str, Any], work: Callable[[], None]) -> None:
    """Run one forward without gradients; `work` reads and changes what passes its handles, in forward order."""
    with _ONE_AT_A_TIME, torch.no_grad():
        _traced(root, args, kwargs, work)


def _traced(root: Any, args: Sequence[Any], kwargs: Mapping[str, Any], work: Callable[[], None]) -> None:
    with root.trace(*args, **kwargs):
        work()


def _nnsight() -> Any:
    """Import nnsight, and put back what it changes for the whole process."""
    backward = torch.Tensor.backward
    try:
        import nnsight
        from nnsight import _c
    except ImportError as error:
        raise CausalError(
            f"interventions need nnsight, which cannot be imported ({error}); type: pip install 'depthscope[causal]'"
        ) from None
    if torch.Tensor.backward is not backward:
        torch.Tensor.backward = backward  # type: ignore[method-assign]
        if _c.unmount is not None and hasattr(object, "save"):
            _c.unmount("save")
    return nnsight
