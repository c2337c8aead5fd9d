"""Attention Residuals (arXiv 2603.15031): each sublayer attends over depth to what was written before it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

from torch import Tensor, nn

from depthscope.marks import Mixer, Port
from depthscope.models.blocks import ResidualBlocks
from depthscope.models.config import DecoderConfig
from depthscope.models.mixer import DepthMixer, MixerOptions
from depthscope.models.option import joined, typed
from depthscope.models.residual import Residual, State, tensors


class BlockAttnRes(Residual):
    """Block AttnRes (Eqs. 5-6): sums inside a block, softmax attention over the sums.

    With b_0 = v_0 the embedding and b_n the sum of block n's outputs, the first sublayer of block n
    reads from [b_0 ... b_{n-1}]; later ones also from the unfinished sum of their own block. The final read
    attends over [b_0 ... b_N]. The state is the tuple of those tensors.

    The paper's text leaves points open; taken here: the embedding is a source of its own and part of no
    block, so it is never counted twice; the last block may be shorter; the final aggregation has a query of
    its own and sees the embedding. `mixer` and `window` are the variants of the paper's ablations. The
    input-dependent query is projected from the newest source, and added to the learned one.
    """

    name: ClassVar[str] = "block-attnres"
    label: ClassVar[str] = "AttnRes block"

    def __init__(
        self,
        config: DecoderConfig,
        *,
        block_size: int | None = None,
        boundaries: Sequence[int] | None = None,
        window: int | None = None,
        mixer: MixerOptions | None = None,
    ) -> None:
        """Give S, sublayers (not transformer blocks) a block, or `boundaries`, the sublayers before each end.

        `window` keeps the embedding and the last so many sources.
        """
        super().__init__(config)
        if window is not None and window < 1:
            raise ValueError(f"window={window}: expected 1 or more sources beside the embedding")
        self.block_size = block_size
        self.blocks = blocks_of(config.layers, block_size, boundaries)
        self.window = window
        self.mixer = mixer or MixerOptions()
        self.mixer.check(config.width)
        self.mix = nn.ModuleList(self.new_mixer(target) for target in range(config.layers + 1))

    def new_mixer(self, target: int) -> nn.Module:
        """Return a new mixer for a target, from 0; the last is the final read's."""
        count = len(self._columns(target))
        return DepthMixer(self.config.width, self.config.norm_eps, count, self.mixer)

    @property
    def design(self) -> str:
        listed = None if self.block_size else self.blocks.ends
        return typed(self.name, S=self.block_size, boundaries=listed, **self._variants())

    def _variants(self) -> dict[str, object]:
        """Return what differs from the plain design, as it is typed."""
        mixer, usual = self.mixer, MixerOptions()
        return {
            "query": None if mixer.query == usual.query else mixer.query,
            "score": None if mixer.score == usual.score else mixer.score,
            "keynorm": None if mixer.key_norm else False,
            "heads": None if mixer.heads == usual.heads else mixer.heads,
            "window": self.window,
        }

    def begin(self, embedding: Tensor) -> State:
        return (embedding,)

    def read(self, state: State, layer: int) -> Tensor:
        read: Tensor = self.mix[layer](state)
        return read

    def write(self, state: State, layer: int, output: Tensor) -> State:
        sources = tensors(state)
        # Under autocast the output is bfloat16; the sums stay in the embedding's dtype.
        output = output.to(sources[0].dtype)
        if not self.blocks.starts(layer):
            return (*sources[:-1], sources[-1] + output)
        embedding, *written = (*sources, output)
        return (embedding, *(written if self.window is None else written[-self.window :]))

    def end(self, state: State) -> Tensor:
        read: Tensor = self.mix[self.layers](state)
        return read

    def residual_block(self, layer: int) -> int:
        return self.blocks.of(layer) + 1

    def additive(self, layer: int) -> bool:
        return False

    def fresh(self, layer: int) -> Literal["state", "mixer"] | None:
        return "mixer" if self.mixer.heads == 1 else None

    def state_port(self, layer: int) -> Port | None:
        return Port(module=f"layers.{layer}.write", side="output", path=(-1,))

    def made_port(self, layer: int) -> Port | None:
        return None  # the recorder knows the mixer that makes it

    def source_names(self) -> Sequence[str]:
        return ("embedding", *(f"block {block + 1}" for block in range(len(self.blocks))))

    def mixers(self) -> Sequence[Mixer]:
        return tuple(self._describe_mixer(target) for target in range(self.layers + 1))

    def _partial(self, target: int) -> bool:
        return target < self.layers and not self.blocks.starts(target)

    def _columns(self, target: int) -> tuple[int, ...]:
        """Return the sources of a target (from 0), as columns: the embedding, then blocks."""
        finished = len(self.blocks) if target == self.layers else self.blocks.of(target)
        written = range(1, finished + 1 + self._partial(target))
        return (0, *(written if self.window is None else written[-self.window :]))

    def _describe_mixer(self, target: int) -> Mixer:
        path = f"residual.mix.{target}"
        with_query = self.mixer.query != "none"
        return Mixer(
            target=target + 1,
            module=path,
            weights=Port(module=f"{path}.weights", side="output"),
            sources=self._columns(target),
            partial=self._partial(target),
            query=f"{path}.query" if with_query else None,
            key_norm=f"{path}.key_norm.weight" if with_query and self.mixer.key_norm else None,
            parameters=(path,),
            normalised=self.mixer.score == "softmax",
            heads=self.mixer.heads,
        )


class FullAttnRes(BlockAttnRes):
    """Full AttnRes (Eqs. 2-4): every sublayer attends to the embedding and to each output before it.

    h_l = sum_{i<l} alpha_{i->l} v_i, with alpha = softmax_i(w_l . RMSNorm(v_i)). It is Block AttnRes with
    blocks of one sublayer, but its sources are called by their sublayers and it has no residual blocks.
    """

    name: ClassVar[str] = "full-attnres"
    label: ClassVar[str] = "AttnRes full"

    def __init__(
        self, config: DecoderConfig, *, window: int | None = None, mixer: MixerOptions | None = None
    ) -> None:
        super().__init__(config, block_size=1, window=window, mixer=mixer)

    @property
    def design(self) -> str:
        return typed(self.name, **self._variants())

    def residual_block(self, layer: int) -> int:
        return 0

    def source_names(self) -> Sequence[str]:
        return ("embedding", *(f"sublayer {layer + 1}" for layer in range(self.layers)))


def blocks_of(layers: int, block_size: int | None, boundaries: Sequence[int] | None) -> ResidualBlocks:
    """Return blocks of S sublayers, or those between the given boundaries."""
    if block_size is not None and boundaries is None:
        return ResidualBlocks.of_size(layers, block_size)
    if boundaries is not None and block_size is None:
        return ResidualBlocks.at(layers, boundaries)
    found = "neither" if boundaries is None else f"S={block_size} and boundaries={joined(boundaries)}"
    raise ValueError(f"{found}: give exactly one of S (block_size) and boundaries, e.g. S=6")
