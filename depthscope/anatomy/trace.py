"""One run of a block alone, with what each module in it took and gave."""

from __future__ import annotations

import copy
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from depthscope.anatomy.ports import Path, floating, floating_arguments, replaced
from depthscope.anatomy.sample import Sampler


@dataclass(eq=False)
class Call:
    """One call of a module inside the block."""

    module: str
    """Path relative to the block."""
    enter: int
    """When it began, counted over the beginnings and ends of all calls of the run."""
    parent: Call | None
    inputs: list[tuple[Path, Tensor]] = field(default_factory=list)
    """Samples of what is shaped like the stream."""
    output_path: Path = ()
    raw: Tensor | None = None
    """Sample of what the module gave; None where that is not shaped like the stream."""
    out: Tensor | None = None
    """Sample of what the block got: `raw` plus the noise that marks this call."""
    exit: int = -1


@dataclass(frozen=True, kw_only=True)
class Trace:
    """What a run showed."""

    calls: tuple[Call, ...]
    """In the order they began."""
    entering: Tensor
    """Sample of the stream as the block took it."""
    leaving: Tensor
    used: Mapping[str, int]
    """When each of the block's parameters was used first, on the clock of the calls."""

    def children(self, parent: Call | None) -> list[Call]:
        return [call for call in self.calls if call.parent is parent]

    def repeated(self) -> frozenset[str]:
        """Paths of the modules called more than once: hooks on them can't tell the calls apart."""
        counts = Counter(call.module for call in self.calls)
        return frozenset(module for module, count in counts.items() if count > 1)


def trace(
    block: nn.Module,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    *,
    entry: Path,
    leave: Path,
    sampler: Sampler,
    marked: Callable[[str], bool],
    seed: int,
) -> Trace:
    """Run ``block.forward`` on copies of the arguments.

    `entry` and `leave` lead to the stream among the arguments and in the output. To each output for which
    `marked(path)` holds noise of the stream's size is added, another for each call: it makes every output
    distinct, also one that is zero at the start of training, so that only what is truly added to the stream
    sums up to it.
    """
    args, kwargs = protected(tuple(args)), protected(dict(kwargs))
    stream = dict(floating_arguments(args, kwargs))[entry]
    size = float(stream.detach().float().square().mean().sqrt()) or 1.0
    recorder = _Recorder(sampler, marked, size if math.isfinite(size) else 1.0, seed)
    entering = sampler(stream)
    handles = []
    names = {id(parameter): name for name, parameter in block.named_parameters(remove_duplicate=False)}
    torch.manual_seed(seed)
    try:
        for path, module in block.named_modules():
            if path:
                handles.append(module.register_forward_pre_hook(recorder.before(path), with_kwargs=True))
                handles.append(module.register_forward_hook(recorder.after))
        with ParameterUse(names, recorder.note_use):
            output = block.forward(*args, **kwargs)
    finally:
        for handle in handles:
            handle.remove()
    leaving = dict(floating(output)).get(leave)
    if leaving is None or not sampler.fits(leaving):
        raise RuntimeError("the block gave another output when it ran alone")
    return Trace(calls=tuple(recorder.calls), entering=entering, leaving=sampler(leaving), used=recorder.used)


def protected(value: Any) -> Any:
    """Copy what a call takes, so that running it twice changes nothing: tensors, containers, caches."""
    if isinstance(value, Tensor):
        return value.detach().clone()
    if type(value) in (tuple, list):
        return type(value)(protected(item) for item in value)
    if type(value) is dict:
        return {key: protected(item) for key, item in value.items()}
    if isinstance(value, nn.Module | FunctionType | type | str | int | float | None):
        return value
    try:
        return copy.deepcopy(value)
    except Exception:  # noqa: BLE001 - whatever it is, it goes in as it came
        return value


class _Recorder:
    """The hooks' side of a trace."""

    def __init__(self, sampler: Sampler, marked: Callable[[str], bool], size: float, seed: int) -> None:
        self.sampler, self.marked, self.size = sampler, marked, size
        self.calls: list[Call] = []
        self.used: dict[str, int] = {}
        self._open: list[Call] = []
        self._clock = 0
        self._generator = torch.Generator().manual_seed(seed)

    def tick(self) -> int:
        self._clock += 1
        return self._clock

    def note_use(self, name: str) -> None:
        if name not in self.used:
            self.used[name] = self.tick()

    def before(self, path: str) -> Callable[..., None]:
        def enter(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            call = Call(path, self.tick(), self._open[-1] if self._open else None)
            for where, tensor in floating_arguments(args, kwargs):
                if self.sampler.fits(tensor):
                    call.inputs.append((where, self.sampler(tensor)))
            self.calls.append(call)
            self._open.append(call)

        return enter

    def after(self, module: nn.Module, args: tuple[Any, ...], output: Any) -> Any:
        call = self._open.pop()
        call.exit = self.tick()
        for where, tensor in floating(output):
            if self.sampler.fits(tensor):
                call.output_path, call.raw = where, self.sampler(tensor)
                if not self.marked(call.module):
                    call.out = call.raw
                    return None
                noisy = tensor + self._noise(tensor)
                call.out = self.sampler(noisy)
                return replaced(output, where, noisy)
        return None

    def _noise(self, tensor: Tensor) -> Tensor:
        """Return noise that is cheap to draw: one vector over the features times one over the positions."""
        positions = torch.randn(*tensor.shape[:-1], 1, generator=self._generator)
        features = torch.randn(tensor.shape[-1], generator=self._generator)
        device, dtype = tensor.device, tensor.dtype
        return (self.size * positions).to(device, dtype) * features.to(device, dtype)


class ParameterUse(TorchFunctionMode):
    """Tells whenever one of some tensors (by id) goes into a torch function."""

    def __init__(self, names: Mapping[int, str], tell: Callable[[str], None]) -> None:
        super().__init__()
        self._names, self._tell = names, tell

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        if self._names:
            for value in (*args, *(kwargs or {}).values()):
                for item in value if isinstance(value, list | tuple) else (value,):
                    name = self._names.get(id(item))
                    if name is not None:
                        self._tell(name)
        return func(*args, **(kwargs or {}))
