"""HiRes: a wide outer state that blocks of PreNorm sublayers read from and write to at their boundaries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

from torch import Tensor, nn

from depthscope.marks import OuterBlock, Port
from depthscope.models.blocks import ResidualBlocks
from depthscope.models.config import DecoderConfig
from depthscope.models.interface import Interface, Truncation
from depthscope.models.norm import RMSNorm
from depthscope.models.option import Design, Option, choice, joined, number_or_none, numbers, switch, typed
from depthscope.models.residual import Residual, State, tensors

MOST_WIDTHS = 1000
"""Far above any n that was ever tried; more is taken for a slip of the hand."""


class HiRes(Residual):
    """HiRes, a hierarchical residual: an outer state of width D = n d over an inner PreNorm stream.

    h_0 = E v_0. Block b starts its inner stream at x = R_b h_{b-1}, runs its PreNorm sublayers on it and gives
    Phi_b; then h_b = RMSNorm(h_{b-1} + W_b Phi_b). The last read is H h_B.

    Interpretations, where the design's description leaves room: Phi_b is the inner stream itself, its skip
    included (`block_output="increment"` takes what the block added instead); E and H carry the same
    stabilising gate as R and W. A block's end prepares the next block's inner stream, so that `read` is pure.
    The state is (outer, inner), with the inner stream's start as a third part for the increment.
    """

    name: ClassVar[str] = "hires"
    label: ClassVar[str] = "HiRes"

    def __init__(
        self,
        config: DecoderConfig,
        *,
        n: float = 2,
        blocks: int | None = None,
        boundaries: Sequence[int] | None = None,
        gate: float | None = 0.1,
        outer_residual: bool = True,
        boundary_norm: bool = True,
        frozen: bool = False,
        identity: bool = False,
        block_output: Literal["stream", "increment"] = "stream",
    ) -> None:
        """Choose the outer width n d (n may be fractional) and the residual blocks.

        `blocks` is B, equal blocks of whole transformer blocks (when nothing is given 4, or the next lower that
        fits); or give `boundaries`, the numbers of sublayers before each block's end. `gate` is sigmoid(alpha) at the start, None for plain interfaces.
        `outer_residual`, `boundary_norm` and `frozen` (random interfaces that do not learn) are the ablations.
        `identity` leaves only Pi of every interface: with n = 1 and no outer residual that is HiNorm, a PreNorm
        stream that passes one RMSNorm at the end of each residual block.
        """
        super().__init__(config)
        if identity and frozen:
            raise ValueError(
                "identity and frozen: an identity interface has nothing to freeze; give one of them"
            )
        self.n = n
        self.outer_width = outer_width(n, config.width)
        self.equal_blocks = usual_blocks(config.layers) if blocks is None and boundaries is None else blocks
        self.blocks = choose_blocks(config.layers, self.equal_blocks, boundaries)
        self.initial_gate = gate
        self.outer_residual = outer_residual
        self.boundary_norm = boundary_norm
        self.frozen = frozen
        self.identity = identity
        self.block_output = block_output

        def interface(inputs: int, outputs: int) -> nn.Module:
            if identity:
                return Truncation(outputs)
            return Interface(inputs, outputs, gate=gate, frozen=frozen)

        inner, outer, count = config.width, self.outer_width, len(self.blocks)
        self.E = interface(inner, outer)
        self.H = interface(outer, inner)
        self.R = nn.ModuleList(interface(outer, inner) for _ in range(count))
        self.W = nn.ModuleList(interface(inner, outer) for _ in range(count))
        self.norms = nn.ModuleList(
            RMSNorm(outer, config.norm_eps) if boundary_norm else nn.Identity() for _ in range(count)
        )

    @property
    def design(self) -> str:
        listed = None if self.equal_blocks else self.blocks.ends
        gate = "none" if self.initial_gate is None else self.initial_gate
        return typed(
            self.name,
            n=float(self.n),
            B=self.equal_blocks,
            boundaries=listed,
            gate=None if gate == 0.1 or self.identity else gate,
            outer=None if self.outer_residual else False,
            norm=None if self.boundary_norm else False,
            frozen=True if self.frozen else None,
            identity=True if self.identity else None,
            phi=None if self.block_output == "stream" else self.block_output,
        )

    def begin(self, embedding: Tensor) -> State:
        return self._enter(0, self.E(embedding))

    def read(self, state: State, layer: int) -> Tensor:
        return tensors(state)[1]

    def write(self, state: State, layer: int, output: Tensor) -> State:
        outer, inner, *start = tensors(state)
        inner = inner + output
        if not self.blocks.finishes(layer):
            return (outer, inner, *start)
        block = self.blocks.of(layer)
        written = self.W[block](inner - start[0] if start else inner)
        outer = self.norms[block](outer + written if self.outer_residual else written)
        return self._enter(block + 1, outer) if block + 1 < len(self.blocks) else (outer, inner, *start)

    def end(self, state: State) -> Tensor:
        read: Tensor = self.H(tensors(state)[0])
        return read

    def _enter(self, block: int, outer: Tensor) -> State:
        inner = self.R[block](outer)
        return (outer, inner, inner) if self.block_output == "increment" else (outer, inner)

    def residual_block(self, layer: int) -> int:
        return self.blocks.of(layer) + 1

    def fresh(self, layer: int) -> Literal["state", "mixer"] | None:
        # Past a block's end f_l went through W, a norm and R: no scalar weight is left.
        return None if self.blocks.finishes(layer) else "state"

    def state_port(self, layer: int) -> Port | None:
        if not self.blocks.finishes(layer):
            return Port(module=f"layers.{layer}.write", side="output", path=(1,))
        if self.block_output == "increment":
            return None  # only the difference to the block's start reaches a module
        return Port(module=f"residual.W.{self.blocks.of(layer)}", side="input")

    def outer(self) -> Sequence[OuterBlock]:
        return tuple(self._describe_block(block) for block in range(len(self.blocks)))

    def outer_end_port(self) -> Port | None:
        return Port(module="residual.H", side="input")

    def _describe_block(self, block: int) -> OuterBlock:
        read, write, norm = (f"residual.{part}.{block}" for part in ("R", "W", "norms"))
        gated = self.initial_gate is not None and not self.identity
        learned = not self.identity
        return OuterBlock(
            index=block + 1,
            carry=Port(module=read, side="input"),
            read=Port(module=read, side="output"),
            write=Port(module=write, side="output"),
            boundary=Port(module=norm, side="input"),
            state=Port(module=norm, side="output"),
            width=self.outer_width,
            linear=True,
            read_parameters=(f"{read}.weight",) if learned else (),
            write_parameters=(f"{write}.weight",) if learned else (),
            read_gate=f"{read}.gate" if gated else None,
            write_gate=f"{write}.gate" if gated else None,
        )


def outer_width(n: float, width: int) -> int:
    """Return D = n d."""
    if not 0 < n <= MOST_WIDTHS:
        raise ValueError(
            f"n={n:g}: expected a number above 0 and at most {MOST_WIDTHS}, n = 2 being twice the width"
        )
    outer = round(n * width)
    if outer < 1 or abs(outer - n * width) > 1e-9:
        raise ValueError(
            f"n={n:g}: n times the width {width} is {n * width:g}, expected a whole number of 1 or more"
        )
    return outer


def usual_blocks(layers: int) -> int:
    """Return 4, or the largest smaller number of blocks that share the transformer blocks equally."""
    return next(count for count in (4, 3, 2, 1) if layers // 2 % count == 0)


def choose_blocks(layers: int, blocks: int | None, boundaries: Sequence[int] | None) -> ResidualBlocks:
    """Return B equal blocks of whole transformer blocks, or blocks at the given boundaries."""
    if blocks is not None and boundaries is not None:
        raise ValueError(f"B={blocks} and boundaries={joined(boundaries)}: give one of them")
    if boundaries is not None:
        return ResidualBlocks.at(layers, boundaries)
    count = blocks or 0
    transformer_blocks = layers // 2
    if count < 1 or transformer_blocks % count:
        fitting = [size for size in range(1, transformer_blocks + 1) if transformer_blocks % size == 0]
        raise ValueError(
            f"{count} residual blocks do not share {transformer_blocks} transformer blocks equally; choose B "
            f"(blocks) from {', '.join(map(str, fitting))}, or give boundaries in sublayers, e.g. "
            f"boundaries=2+{layers}"
        )
    return ResidualBlocks.of_size(layers, layers // count)


HIRES = Design(
    name=HiRes.name,
    label=HiRes.label,
    build=HiRes,
    options={
        "n": Option(argument="n", parse=float, example="n=2"),
        "B": Option(argument="blocks", parse=int, example="B=4"),
        "boundaries": Option(argument="boundaries", parse=numbers, example="boundaries=4+10+16"),
        "gate": Option(argument="gate", parse=number_or_none, example="gate=0.1 or gate=none"),
        "outer": switch("outer_residual", "outer"),
        "norm": switch("boundary_norm", "norm"),
        "frozen": switch("frozen", "frozen"),
        "identity": switch("identity", "identity"),
        "phi": choice("block_output", "phi", ("stream", "increment")),
    },
    example="hires:n=2,B=4",
)
