"""DeepNorm: PostNorm for a thousand layers."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor, nn

from depthscope.models.attention import CausalAttention
from depthscope.models.config import DecoderConfig
from depthscope.models.option import Design
from depthscope.models.postnorm import PostNorm
from depthscope.models.residual import State, tensor


class DeepNorm(PostNorm):
    """h = s, s <- Norm(alpha s + F(h)) (Wang et al., "DeepNet", arXiv 2203.00555; Figure 2, decoder-only).

    With M transformer blocks alpha = (2M)^(1/4); value and output projections and the matrices of the MLP start
    smaller by beta = (8M)^(-1/4). The paper draws Xavier normal numbers with gain beta; taken here: the
    decoder's own start times beta.
    """

    name: ClassVar[str] = "deepnorm"
    label: ClassVar[str] = "DeepNorm"

    def __init__(self, config: DecoderConfig) -> None:
        super().__init__(config)
        transformer_blocks = config.layers // 2
        self.alpha = (2 * transformer_blocks) ** 0.25
        self.beta = (8 * transformer_blocks) ** -0.25

    def write(self, state: State, layer: int, output: Tensor) -> State:
        normed: Tensor = self.norms[layer](self.alpha * tensor(state) + output)
        return normed

    def init_sublayer(self, sublayer: nn.Module, layer: int) -> None:
        if isinstance(sublayer, CausalAttention):
            sublayer.qkv.weight.chunk(3)[2].mul_(self.beta)
            sublayer.out.weight.mul_(self.beta)
            return
        for name, matrix in sublayer.named_parameters():
            if name != "router.weight":
                matrix.mul_(self.beta)


DEEPNORM = Design(name=DeepNorm.name, label=DeepNorm.label, build=DeepNorm, example="deepnorm")
