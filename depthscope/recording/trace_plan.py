"""Which hook inside compiled code does what, for one depth axis."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

import torch

from depthscope.marks import DepthAxis, Mixer, OuterBlock, Port, Sublayer
from depthscope.probes import Activation, Probe, Site, SiteKind
from depthscope.recording.accumulator import Accumulator
from depthscope.recording.arming import Arming
from depthscope.recording.interface_matrices import InterfaceMatrices
from depthscope.recording.traced import (
    CarryRead,
    KeepOuter,
    KeepRead,
    Link,
    Pair,
    Role,
    SeeAlone,
    SeeBoundary,
    SeeDirect,
    SeeMix,
    SeeMixing,
    SeeOuterRead,
    SeeProduct,
    SeeWrite,
    TapGradient,
)


class TracePlan:
    """The roles at every port, and the accumulators that they fill."""

    def __init__(
        self,
        axis: DepthAxis,
        probes: Sequence[Probe],
        outer_width: int,
        arming: Arming,
        interfaces: InterfaceMatrices,
    ) -> None:
        self.arming = arming
        self.accumulators: list[Accumulator] = []
        self.roles: defaultdict[Port, list[Role]] = defaultdict(list)
        """By port, in the order in which they act; the one that changes a tensor comes last."""
        self._axis, self._probes, self._outer_width = axis, tuple(enumerate(probes)), outer_width
        self._writes = [Link() for _ in axis.sublayers]
        self._singles()
        for sublayer in axis.sublayers:
            self._sublayer(sublayer)
        self._mixers()
        self._outer(interfaces)
        self._mixing()
        self._gradients()

    # --- what is there to be seen -----------------------------------------------------------------------

    def _singles(self) -> None:
        axis = self._axis
        alone: list[tuple[SiteKind, int, Port | None]] = [("embedding", 0, axis.embedding)]
        alone += [("state", sublayer.index - 1, sublayer.state) for sublayer in axis.sublayers]
        for sublayer in axis.sublayers:
            alone.append(("output", sublayer.index - 1, sublayer.output))
            alone.append(("state_prenorm", sublayer.index - 1, sublayer.state_prenorm))
        alone += [("final_read", 0, axis.final_read)]
        count = axis.streams[0].streams if axis.streams else 0
        for kind, position, port in alone:
            if port is not None:
                streams = count if kind == "state" else 0
                site = Site(kind=kind, position=position, streams=streams)
                pair = self._pair(site, {kind: _token(max(1, streams))})
                self.roles[port].append(SeeAlone(self.arming, kind, pair))

    def _sublayer(self, sublayer: Sublayer) -> None:
        link = Link()
        site = Site(kind="write", position=sublayer.index - 1, fresh=sublayer.fresh == "state")
        alone = self._pair(site, {"write": _token()})
        joint = self._pair(site, {"write": _token(), "read": _token()})
        if sublayer.read is not None:
            self.roles[sublayer.read].append(KeepRead(link))
            if sublayer.read.side == "input":
                self.roles[Port(module=sublayer.read.module, side="output")].append(CarryRead(sublayer.read))
        later = self._writes[sublayer.index - 1] if sublayer.fresh == "mixer" else None
        self.roles[sublayer.write].append(SeeWrite(self.arming, alone, joint, link, later))

    def _mixers(self) -> None:
        for mixer in self._axis.mixers:
            # One token, of as many rows as it has heads.
            weights = Activation(torch.ones(len(mixer.sources), mixer.heads))
            site = Site(kind="mixer", position=mixer.target - 1, columns=mixer.sources, heads=mixer.heads)
            sources = {
                name: Activation(torch.ones(mixer.heads, 1)) for name in ("read", *_names_of_sources(mixer))
            }
            mix = self._pair(site, {"weights": weights, **sources})
            before = mixer.target - 2
            fresh = before >= 0 and self._axis.sublayers[before].fresh == "mixer"
            mixed: Pair = (None, None)
            if fresh:
                parts = {"write": _token(), "next_read": _token(), "weight": _token()}
                mixed = self._pair(Site(kind="mixed_write", position=before), parts)
            write = self._writes[before] if fresh else None
            self.roles[mixer.weights].append(SeeMix(self.arming, mix, mixed, write, mixer.heads))

    def _mixing(self) -> None:
        every = tuple(Link() for _ in self._axis.streams)
        for mixing, link in zip(self._axis.streams, every, strict=True):
            count = mixing.streams
            site = Site(kind="stream_mixing", position=mixing.layer - 1, streams=count)
            pair = self._pair(site, {"weights": _token(count * count)})
            self.roles[mixing.weights].append(SeeMixing(self.arming, pair, mixing.by_token, link))
        if every:
            last = self._axis.streams[-1]
            held = {f"weights {place + 1}": _token(last.streams**2) for place in range(len(every))}
            pair = self._pair(Site(kind="stream_product", position=0, streams=last.streams), held)
            self.roles[last.weights].append(SeeProduct(self.arming, pair, last.by_token, every))

    def _outer(self, interfaces: InterfaceMatrices) -> None:
        blocks, wide = self._axis.outer, self._outer_width
        if not blocks:
            return
        embedding, boundaries = Link(), tuple(Link() for _ in blocks)
        for block, passed in zip(blocks, boundaries, strict=True):
            carry, read, write = Link(), Link(), Link()
            first = (embedding,) if block is blocks[0] else ()
            self.roles[block.carry].append(KeepOuter(self.arming, carry, *first))
            self.roles[block.read].append(KeepOuter(self.arming, read))
            if interfaces.reads:
                site = Site(kind="outer_read", position=block.index - 1)
                pair = self._pair(site, {"carry": _token(wide), "matrix": Activation(torch.ones(wide, 1))})
                reads, module = Link(), interfaces.reads[block.index - 1]
                self.roles[block.carry].append(KeepOuter(self.arming, reads))
                self.roles[block.read].append(SeeOuterRead(self.arming, pair, reads, module))
            self.roles[block.write].append(KeepOuter(self.arming, write))
            parts = {name: _token(wide) for name in ("carry", "write", "boundary")} | {"outer_read": _token()}
            pair = self._pair(Site(kind="outer_block", position=block.index - 1), parts)
            self.roles[block.boundary].append(SeeBoundary(self.arming, pair, carry, read, write))
            self.roles[block.boundary].append(KeepOuter(self.arming, passed))
        direct = {f"boundary {block.index}": _token(wide) for block in blocks}
        direct |= {"embedding": _token(wide), "state": _token(wide)}
        pair = self._pair(Site(kind="outer_direct", position=0), direct)
        self.roles[blocks[-1].state].append(SeeDirect(self.arming, pair, embedding, boundaries))

    # --- gradients --------------------------------------------------------------------------------------

    def _gradients(self) -> None:
        """Tap where everything downstream passes: dL/dh of a stream is the gradient of the write that made it."""
        reads: dict[Port, int] = {}
        mixers = {mixer.target: mixer for mixer in self._axis.mixers}
        starts = {_first_of(block, self._axis.sublayers): block for block in self._axis.outer}
        made_by_write = set()
        for sublayer in self._axis.sublayers:
            sites = [Site(kind="write_gradient", position=sublayer.index - 1)]
            if sublayer.fresh == "state" and sublayer.index < len(self._axis.sublayers):
                made_by_write.add(sublayer.index + 1)
                sites.append(Site(kind="read_gradient", position=sublayer.index))
            self._tap(sublayer.write, *sites)
        for sublayer in self._axis.sublayers:
            layer = sublayer.index
            if layer in made_by_write or sublayer.read is None:
                continue
            if sublayer.made is not None:
                reads[sublayer.made] = layer
            elif layer in mixers:
                reads[Port(module=mixers[layer].module, side="output")] = layer
            elif layer in starts:
                reads[starts[layer].read] = layer
            elif layer == 1 and self._axis.embedding is not None and self._axis.reads_the_embedding:
                reads[self._axis.embedding] = layer
        for port, layer in reads.items():
            self._tap(port, Site(kind="read_gradient", position=layer - 1))

    def _tap(self, port: Port, *sites: Site) -> None:
        pairs = [self._pair(site, {"gradient": _token()}) for site in sites]
        accumulators = tuple(fast for fast, _ in pairs if fast is not None)
        if accumulators:
            self.roles[port].append(TapGradient(self.arming, accumulators))

    def _pair(self, site: Site, example: Mapping[str, Activation]) -> Pair:
        device = self.arming.gate.device
        made: list[Accumulator | None] = []
        for stream in ("fast", "slow"):
            looking = [
                (index, probe)
                for index, probe in self._probes
                if site.kind in probe.sites and probe.stream == stream
            ]
            accumulator = Accumulator(site, looking, example, device)
            made.append(accumulator if accumulator.visits else None)
        self.accumulators += [each for each in made if each is not None]
        return made[0], made[1]


def _token(width: int = 1) -> Activation:
    return Activation(torch.ones(1, width))


def _first_of(block: OuterBlock, sublayers: Sequence[Sublayer]) -> int:
    return min((s.index for s in sublayers if s.residual_block == block.index), default=0)


def _names_of_sources(mixer: Mixer) -> list[str]:
    return [f"source {place}" for place in range(len(mixer.sources))]
