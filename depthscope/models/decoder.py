"""The reference decoder: one Transformer that carries every residual design."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from depthscope.marks import DepthAxis, Port, Sublayer
from depthscope.models.config import DecoderConfig
from depthscope.models.door import Begin, End
from depthscope.models.embedding import Embedding
from depthscope.models.layer import Layer
from depthscope.models.residual import Residual, State


class Decoder(nn.Module):
    """A causal language model over any residual design.

    Takes token ids [batch, time], time at most `config.context`, and returns logits [batch, time, vocabulary].
    Child modules are named for what they do: `embedding`, `begin`, `layers.{i}.read | norm | sublayer | write`,
    `end`, `norm`, `head`, and the design itself as `residual`.
    """

    def __init__(self, config: DecoderConfig, residual: Residual) -> None:
        super().__init__()
        if residual.config != config:
            raise ValueError(
                f"the design {residual.design} was built for {residual.config}, the decoder for {config}; build "
                "both from one config"
            )
        self.config = config
        self.embedding = Embedding(config)
        self.begin = Begin(residual)
        layers = [Layer(config, residual, layer) for layer in range(config.layers)]
        self.layers = nn.ModuleList(layers)
        self.end = End(residual)
        self.norm = residual.postnorm()
        self.head = nn.Linear(config.width, config.vocabulary, bias=False)
        if config.tied_head:
            self.head.weight = self.embedding.token.weight
        self.residual = residual
        self._initialise(layers)

    @torch.no_grad()
    def _initialise(self, layers: Sequence[Layer]) -> None:
        """Draw every matrix of embedding, sublayers and head; the design has drawn its own."""
        std = self.config.init_std
        embedding_std = self.config.embedding_std
        self.embedding.token.weight.normal_(0, std if embedding_std is None else embedding_std)
        if self.embedding.position is not None:
            self.embedding.position.normal_(0, std)
        for index, layer in enumerate(layers):
            for name, matrix in layer.sublayer.named_parameters():
                scaled = self.config.depth_scaled_init and name.endswith("out.weight")
                matrix.normal_(0, std / self.config.layers**0.5 if scaled else std)
            self.residual.init_sublayer(layer.sublayer, index)
        if not self.config.tied_head:
            self.head.weight.normal_(0, std)

    def forward(self, tokens: Tensor) -> Tensor:
        state: State = self.begin(self.embedding(tokens))
        recompute = self.config.checkpoint and torch.is_grad_enabled()
        for layer in self.layers:
            state = checkpoint(layer, state, use_reentrant=False) if recompute else layer(state)
        logits: Tensor = self.head(self.norm(self.end(state)))
        return logits

    def describe_depth(self) -> DepthAxis:
        """Return where each tensor of the depth axis passes, for a recorder."""
        residual = self.residual
        return DepthAxis(
            design=residual.design,
            embedding=Port(module="embedding", side="output"),
            final_read=residual.final_read_port(),
            sublayers=tuple(self._describe_sublayer(layer) for layer in range(self.config.layers)),
            source_names=tuple(residual.source_names()),
            mixers=tuple(residual.mixers()),
            outer=tuple(residual.outer()),
            streams=tuple(residual.stream_mixings()),
            outer_end=residual.outer_end_port(),
            embedding_parameters=("embedding",),
            head_parameters=("head",),
            final_norm_parameters=("norm",),
        )

    def _describe_sublayer(self, layer: int) -> Sublayer:
        residual = self.residual
        attention = layer % 2 == 0
        output, write = Port(module=f"layers.{layer}.sublayer", side="output"), residual.write_port(layer)
        return Sublayer(
            index=layer + 1,
            name=f"{layer + 1} {'attention' if attention else 'MLP'}",
            kind="attention" if attention else "mlp",
            transformer_block=layer // 2 + 1,
            residual_block=residual.residual_block(layer),
            read=residual.read_port(layer),
            write=write,
            output=None if write == output else output,
            state_prenorm=residual.state_prenorm_port(layer),
            state=residual.state_port(layer),
            additive=residual.additive(layer),
            summed=residual.summed(layer),
            made=residual.made_port(layer),
            fresh=residual.fresh(layer),
            carried=Port(module=f"layers.{layer}", side="output"),
            parameters=(f"layers.{layer}",),
        )
