"""What the coming forward records, as compiled code sees it."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from depthscope.probes import Activation
from depthscope.recording.positions import fits, over_tokens

_keys = itertools.count()
_masks: dict[int, Tensor] = {}
"""Not in `Arming`: of a tensor that it meets in a module's hook the compiler takes the size for a constant."""


class Arming:
    """Flags that a trace takes as constants, and the tensors that stand for what changes from call to call.

    The flags change with the number of the step only, so a model compiles once for each of their values. Whether a
    forward counts (training, gradients enabled, no recomputation) changes within a step: that is `gate`.
    """

    def __init__(self, root: nn.Module) -> None:
        self.root = root
        self.fast = False
        self.slow = False
        self._held_by = next((module for module in root.modules() if _parameter_of(module) is not None), root)
        self.device = self._place()
        self.gate = torch.zeros((), device=self.device)
        """1 inside a forward that counts."""
        self.counted = torch.zeros(2, device=self.device)
        """Forwards that compiled code began, and their token positions; eager forwards are counted on the host."""
        self._key = next(_keys)
        self.misfit = False
        """Compiled code passed a tensor whose positions are not those of the mask."""
        self.no_mask = ""
        """What was given as a mask in this step and is none, in words."""
        self.traced = False
        """Compiled code with our hooks in it has run since `forget`."""
        self.traced_root = False
        """The module that the loop calls is itself compiled code."""
        self.low_precision = False
        """Compiled code passed an fp16 or bf16 tensor at some port."""
        self.spoiled = False
        """A forward failed after others of the same step had been added up in compiled code."""
        keep_address(self.gate, self.counted)

    def _place(self) -> torch.device:
        # Of one module: to go through all of them for the first parameter takes longer than everything else in a step.
        parameter = _parameter_of(self._held_by)
        return torch.device("cpu") if parameter is None else parameter.device

    def follow(self) -> bool:
        """Go where the model went since; True when it did."""
        device = self._place()
        if device == self.device:
            return False
        self.device = device
        self.gate, self.counted = torch.zeros((), device=device), torch.zeros(2, device=device)
        keep_address(self.gate, self.counted)
        return True

    def set(self, streams: frozenset[str]) -> None:
        self.fast, self.slow = "fast" in streams, "slow" in streams

    @property
    def mask(self) -> Tensor | None:
        """Which positions of the forward count, bool [batch, time]; None: all of them."""
        return _masks.get(self._key)

    @mask.setter
    def mask(self, mask: Tensor | None) -> None:
        if mask is None:
            _masks.pop(self._key, None)
        else:
            _masks[self._key] = mask

    def fits(self, tensor: Tensor) -> bool:
        """Whether the positions of `tensor` are those of the mask."""
        return fits(self.mask, tensor)

    def see(self, tensor: Tensor) -> Activation:
        """Return a tensor [..., d] with the positions that count."""
        return Activation(tensor, counted=over_tokens(self.mask, tensor))

    def enter(self, module: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """Begin a forward of a compiled root; traced into its graph."""
        if not in_region():
            self.traced_root = True
        # The mode first: in evaluation nothing else is asked, and so there is one graph of it.
        if not module.training or not (self.fast or self.slow):
            return
        self.gate.zero_()  # also after a forward that never ended
        if torch.is_grad_enabled():
            self.gate.fill_(1.0)
            first = next((value for value in (*args, *kwargs.values()) if isinstance(value, Tensor)), None)
            if first is not None:
                # On our device: the model may bring its input to its own by itself.
                entries = (
                    self.mask.float()
                    if self.mask is not None
                    else torch.ones_like(
                        first if not first.is_floating_point() else first[..., 0],
                        dtype=torch.float32,
                        device=self.device,
                    )
                )
                self.counted.add_(torch.stack([torch.ones_like(entries.sum()), entries.sum()]))

    def leave(self, module: nn.Module) -> None:
        """End a forward of a compiled root, whether it returned or raised."""
        if module.training and (self.fast or self.slow):
            self.gate.zero_()

    def forget(self) -> None:
        """Start the next step."""
        self.traced = self.traced_root = self.misfit = False
        self.gate.zero_()
        self.counted.zero_()


def _parameter_of(module: nn.Module) -> nn.Parameter | None:
    return next((each for each in module._parameters.values() if each is not None), None)


def keep_address(*tensors: Tensor) -> None:
    """Promise CUDA graphs that these tensors stay where they are: they are written in place inside of one.

    Without the promise, inductor makes no CUDA graph of code that writes into its inputs.
    """
    for tensor in tensors:
        torch._dynamo.mark_static_address(tensor)


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def in_region() -> bool:
    """Whether the trace is inside a checkpointed region: no field of a Python object may change there.

    A tensor made inside may still carry an attribute. Where torch does not tell, the answer is the cautious one.
    """
    try:
        from torch._dynamo.symbolic_convert import InstructionTranslator

        tracer = InstructionTranslator.current_tx().output.current_tracer
        return tracer.parent is not None
    except Exception:  # noqa: BLE001 - torch's own, and it moves between versions
        return True
