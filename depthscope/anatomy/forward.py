"""The one forward of a settling: each block is looked into as it is called."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import nn
from torch.utils.hooks import RemovableHandle

from depthscope.anatomy.finding import BlockFinding
from depthscope.anatomy.outside import Surroundings, outer_parts
from depthscope.anatomy.ports import floating_arguments, port_value
from depthscope.anatomy.probe import Told, probe_block
from depthscope.anatomy.sample import Sampler, close, tolerance_of
from depthscope.anatomy.shaken import shaken
from depthscope.anatomy.trace import ParameterUse, protected
from depthscope.marks import Port


@dataclass(eq=False)
class Observation:
    """What one forward of the model showed."""

    findings: list[BlockFinding] = field(default_factory=list)
    """One for each block that was called, in the order of the calls."""
    surroundings: Surroundings = field(default_factory=Surroundings)
    calls: Counter[nn.Module] = field(default_factory=Counter)
    """How often each module was called, under whatever name."""
    final_read: Port | None = None
    """Where the last block's output goes in behind the blocks."""
    tolerance: float = 0.0
    """For comparing the stream at different places."""


def observe(
    model: nn.Module,
    blocks: Sequence[str],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    *,
    flags: Mapping[nn.Module, bool],
    told: Told,
) -> Observation:
    """Run the model once and look into every block on the way.

    Scalars and gains that lie around the blocks are shaken, so that a scale between two blocks that happens
    to be one now is not mistaken for none.
    """
    forward = _Forward(model, blocks, flags, told)
    parts, around = outer_parts(model, blocks)
    with shaken((model.get_submodule(path) for path in around), seed=2):
        names: dict[int, str] = {}

        def name_parameters(*_: Any) -> None:
            """Behind the hook in which a sharded model gathers its parameters: others take their places there."""
            for path in around:
                for name, parameter in model.get_submodule(path).named_parameters(recurse=False):
                    names[id(parameter)] = f"{path}.{name}".lstrip(".")
            # A part may be used without being called: position.weight[:time] is common.
            for path, module in parts.items():
                names.update((id(parameter), path) for parameter in module.parameters())

        try:
            forward.attach(parts, name_parameters)
            with ParameterUse(names, forward.note):
                model(*args, **kwargs)
        finally:
            forward.detach()
    return forward.seen


class _Forward:
    def __init__(
        self, model: nn.Module, blocks: Sequence[str], flags: Mapping[nn.Module, bool], told: Told
    ) -> None:
        self.model, self.blocks, self.flags, self.told = model, tuple(blocks), flags, told
        self.seen = Observation()
        self._handles: list[RemovableHandle] = []
        self._open: list[tuple[Any, Any]] = []
        self._sampler: Sampler | None = None
        self._probing = False

    def attach(self, parts: Mapping[str, nn.Module], begin: Callable[..., None]) -> None:
        self._hook_before(self.model, begin)
        for module in self.model.modules():
            self._hook_before(module, self._count)
        for path, module in parts.items():
            self._hook_before(module, self._noter(path))
        for path, module in self.model.named_modules():
            inside = any(path == block or path.startswith(f"{block}.") for block in self.blocks)
            if path and not inside:
                self._hook_before(module, self._reader(path))
        for path in self.blocks:
            block = self.model.get_submodule(path)
            self._hook_before(block, self._enter)
            # First of all hooks: a sharded block gives its parameters away in a hook of its own.
            handle = block.register_forward_hook(self._leaver(path), with_kwargs=True, prepend=True)
            self._handles.append(handle)

    def detach(self) -> None:
        for handle in self._handles:
            handle.remove()

    def _hook_before(self, module: nn.Module, hook: Callable[..., None]) -> None:
        self._handles.append(module.register_forward_pre_hook(hook, with_kwargs=True))

    def _count(self, module: nn.Module, args: Any, kwargs: Any) -> None:
        if not self._probing:
            self.seen.calls[module] += 1

    def _noter(self, path: str) -> Callable[..., None]:
        def note(module: nn.Module, args: Any, kwargs: Any) -> None:
            self.note(path)

        return note

    def note(self, name: str) -> None:
        """Note that a part around the blocks, or a parameter of a module around them, is used now."""
        phase = self._phase()
        if self._probing or phase is None:
            return
        names = self.seen.surroundings.before if phase == "before" else self.seen.surroundings.after
        if name not in names:
            names.append(name)

    def _phase(self) -> str | None:
        if self._open:
            return None
        return "after" if self.seen.findings else "before"

    def _reader(self, path: str) -> Callable[..., None]:
        """Find the module behind the blocks that takes the last block's output as it is."""

        def read(module: nn.Module, args: Any, kwargs: Any) -> None:
            if self._probing or self.seen.final_read is not None or self._phase() != "after":
                return
            last, sampler = self.seen.findings[-1], self._sampler
            if sampler is None or last.leaving is None:
                return
            for where, tensor in floating_arguments(args, kwargs):
                if sampler.fits(tensor) and last.continues(sampler(tensor), tolerance_of(sampler.dtypes)):
                    self.seen.final_read = Port(module=path, side="input", path=where)
                    return

        return read

    def _enter(self, module: nn.Module, args: Any, kwargs: Any) -> None:
        if not self._probing:
            # What was used since the block before lies between two blocks, not behind the last.
            self.seen.surroundings.after.clear()
            self.seen.final_read = None
            self._open.append((protected(tuple(args)), protected(dict(kwargs))))

    def _leaver(self, path: str) -> Callable[..., None]:
        def leave(module: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
            if self._probing:
                return
            kept_args, kept_kwargs = self._open.pop()
            self._probing = True
            try:
                finding = probe_block(
                    module, path, kept_args, kept_kwargs, output, flags=self.flags, told=self.told
                )
            finally:
                self._probing = False
            self._sample(finding, args, kwargs, kept_args, kept_kwargs, output)
            self.seen.findings.append(finding)

        return leave

    def _sample(
        self, finding: BlockFinding, args: Any, kwargs: Any, kept_args: Any, kept_kwargs: Any, output: Any
    ) -> None:
        if finding.entry is None or finding.leave is None:
            return
        entering = port_value(finding.entry, kept_args, kept_kwargs, None)
        leaving = port_value(finding.leave, (), {}, output)
        now = port_value(finding.entry, args, kwargs, None)
        if entering is None or leaving is None or now is None:
            return
        if self._sampler is None or not self._sampler.fits(leaving):
            self._sampler = Sampler(leaving)
        finding.entering, finding.leaving = self._sampler(entering), self._sampler(leaving)
        self.seen.tolerance = tolerance_of(self._sampler.dtypes)
        if not close(self._sampler(now), finding.entering, self.seen.tolerance):
            finding.notes.append("the block changes its input in place")
