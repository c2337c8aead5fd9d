"""What passes the ports of a training forward, turned into moments at once."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice, pairwise

import torch
from torch import Tensor, nn

from depthscope.marks import DepthAxis, Mixer, Port, StreamMixing
from depthscope.probes import SCALE, Activation, Probe, Site, SiteKind, Totals
from depthscope.recording.arming import Arming
from depthscope.recording.graph_places import Place, place_of
from depthscope.recording.heads import by_head
from depthscope.recording.interface_matrices import InterfaceMatrices
from depthscope.recording.merge import Visit
from depthscope.recording.packet import Looks
from depthscope.recording.positions import fits, over_tokens
from depthscope.recording.precision import full_precision
from depthscope.recording.replaying import Replayed


class Generation:
    """The moments of one training forward and of the backward that follows it."""

    __slots__ = (
        "_counts",
        "expected",
        "fired",
        "first_read",
        "hooked",
        "looks",
        "low_precision",
        "mask",
        "positions",
        "postponed",
        "scalars",
        "vectors",
    )

    def __init__(self, mask: Tensor | None = None) -> None:
        self.mask = mask
        """Which positions of the forward count; None: all."""
        self._counts: dict[torch.Size, tuple[Tensor, Tensor]] = {}
        self.looks = Looks()
        self.scalars: list[Tensor] = []
        """In vectors of one or more."""
        self.vectors: list[Tensor] = []
        self.positions: int | Tensor = 0
        """Token positions that the model was called with."""
        self.first_read = False
        """Layer 1's read was seen itself."""
        self.low_precision = False
        """Of a forward that was looked at aside: some port showed an fp16 or bf16 tensor."""
        self.expected = 0
        self.fired = 0
        self.postponed = 0
        """Gradients that a reentrant checkpoint's recomputation will ask for."""
        self.hooked: dict[tuple[int, Site], weakref.ref[Tensor]] = {}

    def put_together(self) -> None:
        """Make one vector of what a forward left, so that the end of the step has less to do."""
        if len(self.scalars) > 1:
            self.scalars = [torch.cat(self.scalars)]

    @property
    def missing(self) -> int:
        """Gradients that were asked for and never came."""
        return max(self.expected - self.fired, 0 if self.fired else self.postponed)

    def see(self, tensor: Tensor, mask: Tensor | None = None) -> Activation:
        """Return a tensor [..., d] of this forward with the positions that count; `mask` where it is of a part only."""
        mask = self.mask if mask is None else mask
        if mask is None:
            return Activation(tensor)
        if tensor.shape not in self._counts:
            counted = over_tokens(mask, tensor)
            assert counted is not None
            self._counts[tensor.shape] = counted, counted.sum()
        return Activation(tensor, counted=self._counts[tensor.shape][0])

    @property
    def counts(self) -> list[Tensor]:
        """Those of the tokens looked at that are on the device, each once."""
        return [count for _, count in self._counts.values()]

    def count(self, seen: Activation) -> int | Tensor:
        """Return how many of its positions count."""
        return seen.tokens if seen.counted is None else self._counts[seen.tensor.shape][1]


class Observer:
    """Visits every probe at every site, while `live` is set; keeps nothing of a forward once it ends."""

    def __init__(
        self,
        axis: DepthAxis,
        probes: Sequence[Probe],
        parameters: Mapping[str, nn.Parameter],
        arming: Arming,
        interfaces: InterfaceMatrices,
    ) -> None:
        self.axis = axis
        self.probes = tuple(probes)
        self.parameters = parameters
        self._interfaces = interfaces
        self.arming = arming
        self.live = False
        self.low_precision = False
        """Some port showed an fp16 or bf16 tensor."""
        self.streams: frozenset[str] = frozenset()
        self.checking = True
        """Compare h + f with s: on the first recorded step only, since it needs one more pass over each state."""
        self.misfits: dict[str, str] = {}
        """Ports whose tensor has other positions than the mask, with the shapes."""
        self.generations: list[Generation] = []
        self.whole_step = Generation()
        """What belongs to the optimizer step and to no forward: the gradients of the parameters."""
        self._sites: dict[tuple[SiteKind, int], Site] = {}
        self._visits: dict[tuple[int, SiteKind, int, tuple[str, ...]], Visit] = {}
        self._mixers: dict[int, Mixer] = {mixer.target: mixer for mixer in axis.mixers}
        self._streams = axis.streams[0].streams if axis.streams else 0
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
        self._without_positions = axis.without_positions
        self._read_after: dict[int, int] = {}
        """By layer, whose write its read holds newest: layers in between may have been skipped. For the backward too."""
        self._aside = False
        self._marked: tuple[Generation, ...] = ()
        self.forget()

    @property
    def in_step(self) -> bool:
        """A recorded forward of the step is under way, or was when it was interrupted."""
        return self.live and not self._aside

    @property
    def watching(self) -> bool:
        """A recorded forward is under way, or a checkpoint's recomputation of one."""
        recomputing = self.streams and self.generations and torch._C._current_graph_task_id() != -1
        return self.live or bool(recomputing)

    # --- the life of a step -----------------------------------------------------------------------------

    def begin_forward(self, positions: int | Tensor) -> None:
        """Open a generation; one whose gradients were zeroed since belongs to no optimizer step and is dropped."""
        if any(each.fired for each in self.generations) and not self._any_gradient():
            self.generations.clear()
        generation = Generation(self.arming.mask)
        generation.positions = positions
        self.generations.append(generation)
        self.live = True

    def end_forward(self, *, completed: bool) -> None:
        """Close the forward; one that raised leaves nothing behind."""
        if self.live and completed:
            for layer, write in self._unshared.items():
                self._hook_place(write, self._site("write_gradient", layer - 1))
        if self.live and not completed:
            self.generations.pop()
        elif self.live and "slow" in self.streams and len(self.generations) == 1:
            self.see_parameters(self.generations[-1])
        if self.live and completed:
            self.generations[-1].put_together()
        self.live = False
        self.forget()

    def forget(self) -> None:
        """Drop every tensor of the forward: an alias kept longer could be changed in place under us."""
        self._reads: dict[int, tuple[Activation, int]] = {}
        self._writes: dict[int, tuple[Activation, int]] = {}
        self._weights: dict[int, Tensor] = {}
        self._outer: dict[int, dict[str, Activation]] = {}
        self._stream_weights: dict[int, Activation] = {}
        self._unshared: dict[int, Place] = {}
        """Writes whose gradient is still to be found at the next read."""
        self._ran: list[int] = []
        """Layers whose writes were seen, in their order."""

    def mark(self) -> None:
        """Remember the forwards so far."""
        self._marked = tuple(self.generations)

    def back(self) -> None:
        """Forget the forwards since `mark`."""
        self.generations = [each for each in self.generations if each in self._marked]

    def take(self) -> list[Generation]:
        """Hand out this step's generations and start the next step; half a backward is left out."""
        complete = self.generations
        if complete:
            least = min(generation.missing for generation in complete)
            complete = [generation for generation in complete if generation.missing == least]
        complete.append(self.whole_step)
        self.generations, self.whole_step = [], Generation()
        return complete

    @contextmanager
    def aside(self, streams: frozenset[str]) -> Iterator[Generation]:
        """Look at a forward that belongs to no step, for these streams; the step under way goes on as it was."""
        kept = self.generations, self.streams, self.live, self.checking, self.low_precision
        generation = Generation()
        self.generations, self.streams, self.live, self.checking = [generation], streams, True, False
        self.low_precision, self._aside = False, True
        try:
            yield generation
        finally:
            self._aside = False
            generation.low_precision = self.low_precision
            self.generations, self.streams, self.live, self.checking, self.low_precision = kept
            self.forget()

    # --- what the ports show ----------------------------------------------------------------------------

    def fits(self, port: Port, tensor: Tensor) -> bool:
        """Whether the tensor's positions are those of the mask; if not, nothing is recorded of it."""
        return port in self._without_positions or self._fits(self.generations[-1], str(port), tensor)

    def _fits(self, generation: Generation, where: str, tensor: Tensor) -> bool:
        mask = generation.mask
        if fits(mask, tensor):
            return True
        assert mask is not None
        self.misfits[where] = f"mask {tuple(mask.shape)}, tensor {tuple(tensor.shape)}"
        return False

    def see(self, tensor: Tensor) -> Activation:
        """Return a tensor of the forward under way with the positions that count."""
        return self.generations[-1].see(tensor)

    def see_embedding(self, seen: Activation, tensor: Tensor) -> None:
        self._hook_first_read(tensor)
        self._visit(self._site("embedding", 0), {"embedding": seen})

    def see_read(self, layer: int, seen: Activation, tensor: Tensor) -> None:
        if self.live:
            follows = self.arming.traced or (self._ran[-1] if self._ran else 0) == layer - 1
            self._read_after[layer] = self._passed_on(tensor) or (layer - 1 if follows else 0)
        self._hook_read(layer, tensor)
        if not self.live:
            return
        _ = seen.norm  # now: the sublayer may change its input in place
        sublayer = self.axis.sublayers[layer - 1]
        kept = (
            Activation(seen.tensor.clone(), counted=seen.counted)
            if self.checking and sublayer.additive
            else seen
        )
        self._reads[layer] = (kept, kept.tensor._version)
        self._see_mixed_write(layer - 1, seen)

    def see_final_read(self, seen: Activation, tensor: Tensor) -> None:
        self._visit(self._site("final_read", 0), {"final_read": seen})
        self._see_mixed_write(len(self.axis.sublayers), seen)

    def see_write(self, layer: int, seen: Activation, tensor: Tensor) -> None:
        place = place_of(tensor) if torch.is_grad_enabled() else None
        if place is not None and layer in self._state_is_next_read:
            self._unshared[layer] = place
        else:
            self._hook_gradient(tensor, self._site("write_gradient", layer - 1))
        if not self.live:
            return
        self._ran.append(layer)
        sublayer = self.axis.sublayers[layer - 1]
        parts = {"write": seen}
        if layer in self._reads:
            read, version = self._reads[layer] if self.checking else self._reads.pop(layer)
            if read.tensor._version == version:
                parts["read"] = read
        self._visit(self._site("write", layer - 1), parts)
        if self.checking and sublayer.additive:
            kept = Activation(seen.tensor.clone(), counted=seen.counted)
            self._writes[layer] = kept, kept.tensor._version
        elif sublayer.fresh == "mixer":
            self._writes[layer] = seen, seen.tensor._version

    def see_state(self, layer: int, seen: Activation, tensor: Tensor) -> None:
        if self.live and layer not in self._ran and self.axis.sublayers[layer - 1].additive:
            layer = self._passed_on(tensor) or (layer if self.arming.traced else 0)
            if not layer:
                return
        self._visit(self._site("state", layer - 1), {"state": seen})
        additive = self.axis.sublayers[layer - 1].additive
        if self.checking and additive and layer in self._reads and layer in self._writes:
            parts = {"state": seen, "read": self._reads.pop(layer)[0], "write": self._writes.pop(layer)[0]}
            self._visit(self._site("residual", layer - 1), parts, measured="state")

    def see_output(self, layer: int, seen: Activation, tensor: Tensor) -> None:
        self._visit(self._site("output", layer - 1), {"output": seen})

    def _passed_on(self, stream: Tensor) -> int:
        """Return the layer that the stream comes from where the layers after it were dropped (stochastic depth).

        0 where none was, or where that can't be seen: a layer may also have run without being seen.
        """
        write, place = self._unshared.get(self._ran[-1]) if self._ran else None, place_of(stream)
        return self._ran[-1] if write is not None and place is not None and place.adds(write) else 0

    def see_state_prenorm(self, layer: int, seen: Activation, tensor: Tensor) -> None:
        self._visit(self._site("state_prenorm", layer - 1), {"state_prenorm": seen})

    def see_stream_mixing(self, mixing: StreamMixing, seen: Activation, tensor: Tensor) -> None:
        """Look at the weights of one layer and keep them; with the last layer's, at all of them."""
        if "slow" not in self.streams or not self.live:
            return
        rows = tensor.detach().flatten(-2).clone()
        weights = self.see(rows) if mixing.by_token else Activation(rows)
        self._visit(self._site("stream_mixing", mixing.layer - 1), {"weights": weights}, measured="weights")
        self._stream_weights[mixing.layer] = weights
        if mixing.layer == len(self.axis.streams) == len(self._stream_weights):
            every = {f"weights {layer}": held for layer, held in self._stream_weights.items()}
            self._visit(self._site("stream_product", 0), every, measured=f"weights {mixing.layer}")

    def see_weights(self, target: int, seen: Activation, weights: Tensor) -> None:
        self._weights[target] = weights.detach()

    def see_mix(self, target: int, sources: Sequence[Tensor], read: Tensor) -> None:
        weights = self._weights.get(target)
        if "slow" not in self.streams or weights is None or not fits(self.generations[-1].mask, read):
            return
        heads = self._mixers[target].heads
        parts = {
            "weights": Activation(weights.reshape(len(weights), -1)),
            "read": self.see(by_head(read, heads)),
        }
        parts |= {
            f"source {place}": Activation(by_head(source, heads)) for place, source in enumerate(sources)
        }
        self._visit(self._site("mixer", target - 1), parts, measured="read")

    def see_replay(self, replayed: Replayed) -> None:
        """Look at what the reads of a replayed sample are made of."""
        measured, origins = replayed.measured, len(self.axis.sublayers) + 2
        self.low_precision |= measured.low_precision
        for row in measured.rows:
            read = self.generations[-1].see(row.read, replayed.mask)
            tolerance = torch.full((1, 1), measured.tolerance, device=row.gap.device)
            parts = {
                "read": read,
                "gap": Activation(row.gap),
                "share": Activation(row.share),
                "coefficient": Activation(row.coefficient),
                "parallel": Activation(row.parallel),
                "tolerance": Activation(tolerance),
            }
            columns = (*range(row.target + 1), origins - 1)
            self._visit(self._site("replay", row.target, columns), parts, measured="read")

    def see_outer(self, block: int, role: str, seen: Activation, tensor: Tensor) -> None:
        """Collect what belongs to one boundary; the boundary comes after its carry, read and write."""
        if "slow" not in self.streams:
            return
        parts = self._outer.setdefault(block, {})
        parts[role] = seen
        if role == "outer_read" and "carry" in parts:
            self._see_outer_read(block, parts["carry"])
        if role == "boundary" and {"carry", "write", "outer_read"} <= set(parts):
            self._visit(self._site("outer_block", block - 1), parts, measured="boundary")
        if role == "state" and block == len(self.axis.outer) and len(self._outer) == block:
            direct = {f"boundary {index}": held["boundary"] for index, held in self._outer.items()}
            direct |= {"embedding": self._outer[1]["carry"], "state": seen}
            self._visit(self._site("outer_direct", 0), direct, measured="state")

    def _see_outer_read(self, block: int, carry: Activation) -> None:
        matrix = self._interfaces.read(block, carry.tensor) if "outer_read" in self._looking else None
        if matrix is not None:
            parts = {"carry": carry, "matrix": Activation(matrix)}
            self._visit(self._site("outer_read", block - 1), parts, measured="carry")

    def see_parameters(self, generation: Generation) -> None:
        """Reduce what the slow stream records of parameters themselves: queries, gates and interfaces."""
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
        if "interfaces" in self._looking and (matrices := self._interfaces.all()):
            seen = {name: Activation(matrix) for name, matrix in matrices.items()}
            with full_precision(next(iter(matrices.values()))):
                self._visit(self._site("interfaces", 0), seen, generation=generation)

    def see_parameter_gradients(self, gradients: Mapping[str, Tensor], scale: Tensor | None) -> None:
        """Reduce the gradients, which are still multiplied by `scale`; they belong to the step as a whole."""
        if self.arming.traced_root and "slow" in self.streams and not self.whole_step.looks.visits:
            self.see_parameters(
                self.whole_step
            )  # no end of a forward was seen, and this is before the update
        if "fast" in self.streams and gradients:
            seen = {name: Activation(gradient) for name, gradient in gradients.items()}
            if scale is not None:
                seen[SCALE] = Activation(scale)
            self._visit(self._site("parameters", 0), seen, generation=self.whole_step)

    def _any_gradient(self) -> bool:
        return any(parameter.grad is not None for parameter in self.parameters.values())

    # --- inside -----------------------------------------------------------------------------------------

    def _see_mixed_write(self, layer: int, read: Activation) -> None:
        kept = self._writes.pop(layer, None) if layer and self._fresh(layer) == "mixer" else None
        weights = self._weights.get(layer + 1)
        if kept is None or weights is None:
            return
        write, version = kept
        if write.tensor._version == version:
            parts = {"write": write, "next_read": read, "weight": Activation(weights[-1])}
            self._visit(self._site("mixed_write", layer - 1), parts, measured="next_read")

    def _fresh(self, layer: int) -> str | None:
        return self.axis.sublayers[layer - 1].fresh

    def _site(self, kind: SiteKind, position: int, columns: tuple[int, ...] = ()) -> Site:
        key = (kind, position)
        if key not in self._sites:
            fresh = kind == "write" and self._fresh(position + 1) == "state"
            if kind == "mixer":
                columns = self._mixers[position + 1].sources
            streams = self._streams if kind in ("state", "stream_mixing", "stream_product") else 0
            self._sites[key] = Site(
                kind=kind,
                position=position,
                fresh=fresh,
                columns=columns,
                heads=self._mixers[position + 1].heads if kind == "mixer" else 1,
                streams=streams,
            )
        return self._sites[key]

    def _hook_read(self, layer: int, tensor: Tensor) -> None:
        """Where the read is the sum that the write before it made, both have one gradient, which is reduced once."""
        if layer == 1:
            self.generations[-1].first_read = True
        sites = [self._site("read_gradient", layer - 1)]
        writer = self._read_after.get(layer, layer - 1)
        if writer in self._state_is_next_read:
            write, read = self._unshared.pop(writer, None), place_of(tensor)
            site = self._site("write_gradient", writer - 1)
            # A leaf is what a reentrant checkpoint took, and the write lies in front of it.
            if write is None or read is None or read.adds(write):
                sites.append(site)
            else:
                self._hook_place(write, site)
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
                seen = {"gradient": generation.see(gradient)}
                self._visit(site, seen, generation=generation, measured="gradient")

        embedding.register_hook(reduce)  # type: ignore[no-untyped-call]

    def _hook_gradient(self, tensor: Tensor, *sites: Site) -> None:
        """Reduce the tensor's gradient when it comes.

        Reentrant checkpointing runs forward without gradients, so the tensor that gets one is the recomputed
        one. The recomputed tensors of the other kind get none, but what went into the checkpoint comes by again.
        """
        if "fast" not in self.streams:
            return
        generation = self.generations[-1]
        if not torch.is_grad_enabled():
            generation.postponed += self.live
            return
        if not tensor.requires_grad:
            return
        key = id(tensor), sites[0]
        known = generation.hooked.get(key)
        if not self.live and known is not None and known() is tensor:
            return
        generation.hooked[key] = weakref.ref(tensor)
        place = place_of(tensor)
        if place is not None:
            self._hook_place(place, *sites)
            return
        generation.expected += self.live
        tensor.register_hook(self._reduction(generation, sites))  # type: ignore[no-untyped-call]

    def _hook_place(self, place: Place, *sites: Site) -> None:
        """Look where the numbers were made.

        A hook on a tensor is lost when the tensor is a view that the model changes in place; and where the read is
        a copy of the stream, the gradient of the copy is only a part of the stream's.
        """
        if "fast" not in self.streams:
            return
        generation, source = self.generations[-1], place.source
        mask = generation.mask
        if mask is not None and not fits(mask, torch.empty(source.shape, device="meta")):
            # A product with the streams of all tokens in one matrix, in which no position is left.
            source = place
        generation.expected += self.live
        reduce = self._reduction(generation, sites)

        def see(gradients: tuple[Tensor | None, ...]) -> None:
            gradient = gradients[source.output]
            if gradient is not None:
                reduce(gradient)

        source.node.register_prehook(see)

    def _reduction(self, generation: Generation, sites: Sequence[Site]) -> Callable[[Tensor], None]:
        def reduce(gradient: Tensor) -> None:
            generation.fired += 1
            if not self._fits(
                generation, f"the gradient of {sites[0].kind} {sites[0].position + 1}", gradient
            ):
                return
            seen = {"gradient": generation.see(gradient)}
            for site in sites:
                self._visit(site, seen, generation=generation, measured="gradient")

        return reduce

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
            key = (index, site.kind, site.position, tuple(moments))
            visit = self._visits.get(key)
            if visit is None:
                sizes = tuple(
                    (moment, value.numel() if value.dim() else 0) for moment, value in moments.items()
                )
                visit = self._visits[key] = Visit(probe=index, site=site, moments=sizes)
            held.looks.visits.append(visit)
            alone = 0
            if isinstance(moments, Totals):
                held.scalars.append(moments.together)
                alone = moments.count
            if len(moments) > alone:
                for value in islice(moments.values(), alone, None):
                    (held.vectors if value.dim() else held.scalars).append(value.reshape(-1))
            held.looks.tokens.append(held.count(counted) if counted is not None else 1)
            held.looks.widths.append(counted.width if counted is not None else 1)
