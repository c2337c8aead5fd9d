"""What passes the ports of a training forward, turned into moments at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from depthscope.marks import DepthAxis, Mixer
from depthscope.probes import Activation, Probe, Site, SiteKind
from depthscope.recording.arming import Arming
from depthscope.recording.merge import Visit


class Generation:
    """The moments of one training forward and of the backward that follows it."""

    __slots__ = (
        "expected",
        "fired",
        "first_read",
        "positions",
        "scalars",
        "tokens",
        "vectors",
        "visits",
        "widths",
    )

    def __init__(self) -> None:
        self.visits: list[Visit] = []
        self.scalars: list[Tensor] = []
        self.vectors: list[Tensor] = []
        self.tokens: list[int] = []
        self.widths: list[int] = []
        self.positions = 0
        """Token positions that the model was called with."""
        self.first_read = False
        """Layer 1's read was seen itself."""
        self.expected = 0
        self.fired = 0

    @property
    def missing(self) -> int:
        """Gradients that were asked for and never came."""
        return self.expected - self.fired


class Observer:
    """Visits every probe at every site, while `live` is set; keeps nothing of a forward once it ends."""

    def __init__(
        self,
        axis: DepthAxis,
        probes: Sequence[Probe],
        parameters: Mapping[str, nn.Parameter],
        arming: Arming,
    ) -> None:
        self.axis = axis
        self.probes = tuple(probes)
        self.parameters = parameters
        self.arming = arming
        self.live = False
        self.low_precision = False
        """Some port showed an fp16 or bf16 tensor."""
        self.streams: frozenset[str] = frozenset()
        self.checking = True
        """Compare h + f with s: on the first recorded step only, since it needs one more pass over each state."""
        self.generations: list[Generation] = []
        self.whole_step = Generation()
        """What belongs to the optimizer step and to no forward: the gradients of the parameters."""
        self._sites: dict[tuple[SiteKind, int], Site] = {}
        self._visits: dict[tuple[int, Site, tuple[str, ...]], Visit] = {}
        self._mixers: dict[int, Mixer] = {mixer.target: mixer for mixer in axis.mixers}
        self._looking: dict[SiteKind, list[tuple[int, Probe]]] = {}
        for index, probe in enumerate(self.probes):
            for kind in probe.sites:
                self._looking.setdefault(kind, []).append((index, probe))
        self._state_is_next_read = {
            sublayer.index
            for sublayer, following in pairwise(axis.sublayers)
            if sublayer.additive and sublayer.state is not None and sublayer.state == following.read
        }
        """Layers whose state is the very tensor that the next one reads: dL/df_l = dL/ds_l = dL/dh_{l+1}."""
        self.forget()

    @property
    def watching(self) -> bool:
        """A recorded forward is under way, or a checkpoint's recomputation of one."""
        recomputing = self.streams and self.generations and torch._C._current_graph_task_id() != -1
        return self.live or bool(recomputing)

    # --- the life of a step -----------------------------------------------------------------------------

    def begin_forward(self, positions: int) -> None:
        """Open a generation; one whose gradients were zeroed since belongs to no optimizer step and is dropped."""
        if any(each.fired for each in self.generations) and not self._any_gradient():
            self.generations.clear()
        generation = Generation()
        generation.positions = positions
        self.generations.append(generation)
        self.live = True

    def end_forward(self, *, completed: bool) -> None:
        """Close the forward; one that raised leaves nothing behind."""
        if self.live and not completed:
            self.generations.pop()
        elif self.live and "slow" in self.streams and len(self.generations) == 1:
            self.see_parameters(self.generations[-1])
        self.live = False
        self.forget()

    def forget(self) -> None:
        """Drop every tensor of the forward: an alias kept longer could be changed in place under us."""
        self._reads: dict[int, tuple[Activation, int]] = {}
        self._writes: dict[int, Activation] = {}
        self._weights: dict[int, Tensor] = {}
        self._outer: dict[int, dict[str, Activation]] = {}

    def take(self, *, last_only: bool) -> list[Generation]:
        """Hand out this step's generations and start the next step; half a backward is left out.

        `last_only` is for an optimizer that evaluates its loss several times a step.
        """
        complete = self.generations[-1:] if last_only else self.generations
        if complete:
            least = min(generation.missing for generation in complete)
            complete = [generation for generation in complete if generation.missing == least]
        complete.append(self.whole_step)
        self.generations, self.whole_step = [], Generation()
        return complete

    # --- what the ports show ----------------------------------------------------------------------------

    def see_embedding(self, seen: Activation, tensor: Tensor) -> None:
        self._hook_first_read(tensor)
        self._visit(self._site("embedding", 0), {"embedding": seen})

    def see_read(self, layer: int, seen: Activation, tensor: Tensor) -> None:
        self._hook_read(layer, tensor)
        if not self.live:
            return
        _ = seen.norm  # now: the sublayer may change its input in place
        sublayer = self.axis.sublayers[layer - 1]
        kept = Activation(seen.tensor.clone()) if self.checking and sublayer.additive else seen
        self._reads[layer] = (kept, kept.tensor._version)
        self._see_mixed_write(layer - 1, seen)

    def see_final_read(self, seen: Activation, tensor: Tensor) -> None:
        self._visit(self._site("final_read", 0), {"final_read": seen})
        self._see_mixed_write(len(self.axis.sublayers), seen)

    def see_write(self, layer: int, seen: Activation, tensor: Tensor) -> None:
        if layer not in self._state_is_next_read:
            self._hook_gradient(tensor, self._site("write_gradient", layer - 1))
        if not self.live:
            return
        sublayer = self.axis.sublayers[layer - 1]
        parts = {"write": seen}
        if layer in self._reads:
            read, version = self._reads[layer] if self.checking else self._reads.pop(layer)
            if read.tensor._version == version:
                parts["read"] = read
        self._visit(self._site("write", layer - 1), parts)
        if self.checking and sublayer.additive:
            self._writes[layer] = Activation(seen.tensor.clone())
        elif sublayer.fresh == "mixer":
            self._writes[layer] = seen

    def see_state(self, layer: int, seen: Activation, tensor: Tensor) -> None:
        self._visit(self._site("state", layer - 1), {"state": seen})
        additive = self.axis.sublayers[layer - 1].additive
        if self.checking and additive and layer in self._reads and layer in self._writes:
            parts = {"state": seen, "read": self._reads.pop(layer)[0], "write": self._writes.pop(layer)}
            self._visit(self._site("residual", layer - 1), parts, measured="state")

    def see_weights(self, target: int, seen: Activation, weights: Tensor) -> None:
        self._weights[target] = weights.detach()

    def see_mix(self, target: int, sources: Sequence[Tensor], read: Tensor) -> None:
        weights = self._weights.get(target)
        if "slow" not in self.streams or weights is None:
            return
        parts = {"weights": Activation(weights.reshape(len(weights), -1)), "read": Activation(read)}
        parts |= {f"source {place}": Activation(source) for place, source in enumerate(sources)}
        self._visit(self._site("mixer", target - 1), parts, measured="read")

    def see_outer(self, block: int, role: str, seen: Activation, tensor: Tensor) -> None:
        """Collect what belongs to one boundary; the boundary comes after its carry, read and write."""
        if "slow" not in self.streams:
            return
        parts = self._outer.setdefault(block, {})
        parts[role] = seen
        if role == "boundary" and {"carry", "write", "outer_read"} <= set(parts):
            self._visit(self._site("outer_block", block - 1), parts, measured="boundary")
        if role == "state" and block == len(self.axis.outer) and len(self._outer) == block:
            direct = {f"boundary {index}": held["boundary"] for index, held in self._outer.items()}
            direct |= {"embedding": self._outer[1]["carry"], "state": seen}
            self._visit(self._site("outer_direct", 0), direct, measured="state")

    def see_parameters(self, generation: Generation) -> None:
        """Reduce what the slow stream records of parameters themselves: queries and gates."""
        for mixer in self.axis.mixers:
            if mixer.query is not None:
                query = self.parameters[mixer.query].detach()
                if mixer.key_norm is not None:
                    query = query * self.parameters[mixer.key_norm].detach()
                site = self._site("query", mixer.target - 1)
                self._visit(site, {"query": Activation(query)}, generation=generation)
        for block in self.axis.outer:
            gates = [name for name in (block.read_gate, block.write_gate) if name is not None]
            if len(gates) == 2:
                values = torch.cat([self.parameters[name].detach().reshape(1) for name in gates])
                site = self._site("gates", block.index - 1)
                self._visit(site, {"gates": Activation(values)}, generation=generation)

    def see_parameter_gradients(self, gradients: Mapping[str, Tensor]) -> None:
        """Reduce the gradients as they stand; they belong to the step as a whole."""
        if self.arming.traced_root and "slow" in self.streams and not self.whole_step.visits:
            self.see_parameters(
                self.whole_step
            )  # no end of a forward was seen, and this is before the update
        if "fast" in self.streams and gradients:
            seen = {name: Activation(gradient) for name, gradient in gradients.items()}
            self._visit(self._site("parameters", 0), seen, generation=self.whole_step)

    def _any_gradient(self) -> bool:
        return any(parameter.grad is not None for parameter in self.parameters.values())

    # --- inside -----------------------------------------------------------------------------------------

    def _see_mixed_write(self, layer: int, read: Activation) -> None:
        write = self._writes.pop(layer, None) if layer and self._fresh(layer) == "mixer" else None
        weights = self._weights.get(layer + 1)
        if write is not None and weights is not None:
            parts = {"write": write, "next_read": read, "weight": Activation(weights[-1])}
            self._visit(self._site("mixed_write", layer - 1), parts, measured="next_read")

    def _fresh(self, layer: int) -> str | None:
        return self.axis.sublayers[layer - 1].fresh

    def _site(self, kind: SiteKind, position: int) -> Site:
        key = (kind, position)
        if key not in self._sites:
            fresh = kind == "write" and self._fresh(position + 1) == "state"
            columns = self._mixers[position + 1].sources if kind == "mixer" else ()
            self._sites[key] = Site(kind=kind, position=position, fresh=fresh, columns=columns)
        return self._sites[key]

    def _hook_read(self, layer: int, tensor: Tensor) -> None:
        if layer == 1:
            self.generations[-1].first_read = True
        sites = [self._site("read_gradient", layer - 1)]
        if layer - 1 in self._state_is_next_read:
            sites.append(self._site("write_gradient", layer - 2))
        self._hook_gradient(tensor, *sites)

    def _hook_first_read(self, embedding: Tensor) -> None:
        """Stand in for the first read of a plain stack, which is the embedding, when compiled code holds it."""
        if not self.axis.reads_the_embedding or not embedding.requires_grad or not torch.is_grad_enabled():
            return
        if "fast" not in self.streams or not self.live:
            return
        generation, site = self.generations[-1], self._site("read_gradient", 0)

        def reduce(gradient: Tensor) -> None:
            if not generation.first_read:
                seen = {"gradient": Activation(gradient)}
                self._visit(site, seen, generation=generation, measured="gradient")

        embedding.register_hook(reduce)  # type: ignore[no-untyped-call]

    def _hook_gradient(self, tensor: Tensor, *sites: Site) -> None:
        """Reduce the tensor's gradient when it comes.

        Reentrant checkpointing runs forward without gradients, so the tensor that gets one is the recomputed
        one. The recomputed tensors of the other kind get none, and so nothing counts twice.
        """
        if "fast" not in self.streams or not (tensor.requires_grad and torch.is_grad_enabled()):
            return
        generation = self.generations[-1]
        generation.expected += self.live

        def reduce(gradient: Tensor) -> None:
            generation.fired += 1
            seen = {"gradient": Activation(gradient)}
            for site in sites:
                self._visit(site, seen, generation=generation, measured="gradient")

        tensor.register_hook(reduce)  # type: ignore[no-untyped-call]

    def _visit(
        self,
        site: Site,
        seen: Mapping[str, Activation],
        *,
        generation: Generation | None = None,
        measured: str = "",
    ) -> None:
        """Let every probe of a due stream look; `measured` (or the site's own tensor) counts tokens and width."""
        if generation is None and not self.live:
            return
        held = generation if generation is not None else self.generations[-1]
        counted = seen.get(measured or site.kind)
        for index, probe in self._looking.get(site.kind, ()):
            if probe.stream not in self.streams:
                continue
            moments = probe.moments(site, seen)
            if not moments:
                continue
            key = (index, site, tuple(moments))
            visit = self._visits.get(key)
            if visit is None:
                sizes = tuple(
                    (moment, value.numel() if value.dim() else 0) for moment, value in moments.items()
                )
                visit = self._visits[key] = Visit(probe=index, site=site, moments=sizes)
            held.visits.append(visit)
            for value in moments.values():
                (held.vectors if value.dim() else held.scalars).append(value)
            held.tokens.append(counted.tokens if counted is not None else 1)
            held.widths.append(counted.width if counted is not None else 1)
