"""Attention Residuals (arXiv 2603.15031): each sublayer attends over depth to what was written before it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

from torch import Tensor, nn

from depthscope.marks import Mixer, Port
from depthscope.models.blocks import ResidualBlocks
from depthscope.models.config import DecoderConfig
from depthscope.models.mixer import DepthMixer
from depthscope.models.residual import Residual, State, tensors


class BlockAttnRes(Residual):
    """Block AttnRes: sums inside a block, softmax attention over the sums.

    With b_0 = v_0 the embedding and b_n the sum of block n's outputs, the first sublayer of block n
    reads from [b_0 ... b_{n-1}]; later ones also from the unfinished sum of their own block. The final read
    attends over [b_0 ... b_N]. The state is the tuple of those tensors.

    The paper's text leaves three points open; taken here: the embedding is a source of its own and part of no
    block, so it is never counted twice; the last block may be shorter; the final aggregation has a query of
    its own and sees the embedding.
    """

    name: ClassVar[str] = "block-attnres"
    label: ClassVar[str] = "AttnRes block"

    def __init__(
        self,
        config: DecoderConfig,
        *,
        block_size: int | None = None,
        boundaries: Sequence[int] | None = None,
    ) -> None:
        """Give S, sublayers (not transformer blocks) a block, or `boundaries`, the sublayers before each end."""
        super().__init__(config)
        if (block_size is None) == (boundaries is None):
            raise ValueError(
                f"block_size={block_size} and boundaries={boundaries}: give exactly one of them, "
                "e.g. BlockAttnRes(config, block_size=6)"
            )
        self.block_size = block_size
        if block_size is not None:
            self.blocks = ResidualBlocks.of_size(config.layers, block_size)
        elif boundaries is not None:
            self.blocks = ResidualBlocks.at(config.layers, boundaries)
        self.mix = nn.ModuleList(DepthMixer(config.width, config.norm_eps) for _ in range(config.layers + 1))

    @property
    def design(self) -> str:
        if self.block_size is not None:
            return f"{self.name}:S={self.block_size}"
        return f"{self.name}:boundaries={'+'.join(map(str, self.blocks.ends))}"

    def begin(self, embedding: Tensor) -> State:
        return (embedding,)

    def read(self, state: State, layer: int) -> Tensor:
        read: Tensor = self.mix[layer](state)
        return read

    def write(self, state: State, layer: int, output: Tensor) -> State:
        sources = tensors(state)
        # Under autocast the output is bfloat16; the sums stay in the embedding's dtype.
        output = output.to(sources[0].dtype)
        if self.blocks.starts(layer):
            return (*sources, output)
        return (*sources[:-1], sources[-1] + output)

    def end(self, state: State) -> Tensor:
        read: Tensor = self.mix[self.layers](state)
        return read

    def residual_block(self, layer: int) -> int:
        return self.blocks.of(layer) + 1

    def additive(self, layer: int) -> bool:
        return False

    def fresh(self, layer: int) -> Literal["state", "mixer"] | None:
        return "mixer"

    def state_port(self, layer: int) -> Port | None:
        return Port(module=f"layers.{layer}.write", side="output", path=(-1,))

    def source_names(self) -> Sequence[str]:
        return ("embedding", *(f"block {block + 1}" for block in range(len(self.blocks))))

    def mixers(self) -> Sequence[Mixer]:
        return tuple(self._describe_mixer(target) for target in range(self.layers + 1))

    def _describe_mixer(self, target: int) -> Mixer:
        last = target == self.layers
        partial = not last and not self.blocks.starts(target)
        finished = len(self.blocks) if last else self.blocks.of(target)
        path = f"residual.mix.{target}"
        return Mixer(
            target=target + 1,
            module=path,
            weights=Port(module=f"{path}.weights", side="output"),
            sources=tuple(range(finished + 1 + partial)),
            partial=partial,
            query=f"{path}.query",
            key_norm=f"{path}.key_norm.weight",
            parameters=(path,),
        )


class FullAttnRes(BlockAttnRes):
    """Full AttnRes: every sublayer attends to the embedding and to each output before it.

    h_l = sum_{i<l} alpha_{i->l} v_i, with alpha = softmax_i(w_l . RMSNorm(v_i)). It is Block AttnRes with
    blocks of one sublayer, but its sources are called by their sublayers and it has no residual blocks.
    """

    name: ClassVar[str] = "full-attnres"
    label: ClassVar[str] = "AttnRes full"

    def __init__(self, config: DecoderConfig) -> None:
        super().__init__(config, block_size=1)

    @property
    def design(self) -> str:
        return self.name

    def residual_block(self, layer: int) -> int:
        return 0

    def source_names(self) -> Sequence[str]:
        return ("embedding", *(f"sublayer {layer + 1}" for layer in range(self.layers)))
