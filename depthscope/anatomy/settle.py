"""Settling the anatomy of a model on one forward of it."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from depthscope.anatomy.assemble import Settled, assemble
from depthscope.anatomy.error import AnatomyError
from depthscope.anatomy.forward import observe
from depthscope.anatomy.plan import Plan
from depthscope.anatomy.untouched import untouched


def settle(plan: Plan, model: nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Settled:
    """Run `model` (unwrapped) once on the arguments and return its depth axis; leave no trace.

    Of nested tensors the first sequence is taken, as a batch of one.

    Raises:
        AnatomyError: the model has parameters that no forward has made yet, or its forward raised.
    """
    lazy = [name for name, p in model.named_parameters() if is_lazy(p)]
    if lazy:
        raise AnatomyError(
            f"{lazy[0]} and {len(lazy) - 1} more parameters are not made yet (lazy modules): run one "
            "forward, then inspect or attach"
        )
    args = [_first_sequence(value) for value in args]
    kwargs = {name: _first_sequence(value) for name, value in kwargs.items()}
    try:
        with untouched(model) as flags, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what it says of a forward without gradients is nobody's concern
            seen = observe(model, plan.blocks, args, kwargs, flags=flags, told=plan.told)
    except Exception as error:
        raise AnatomyError(
            f"the forward of {type(model).__name__} raised {type(error).__name__} while its depth axis was "
            f"looked for: {error}; example= takes the arguments of the forward: a tensor, a tuple of "
            "positional arguments or a dict of keywords, on the model's device"
        ) from error
    return assemble(model, plan, seen)


def _first_sequence(value: Any) -> Any:
    return value.unbind()[0].unsqueeze(0) if isinstance(value, Tensor) and value.is_nested else value
