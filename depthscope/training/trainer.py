"""One model in training: a step, a validation, and nothing else to know."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from depthscope.models import Decoder, DecoderConfig, residual_from_string
from depthscope.training.batches import training_batch, validation_batches
from depthscope.training.corpus import Corpus
from depthscope.training.null_recorder import NullRecorder, TrainingRecorder
from depthscope.training.optimizers import OptimizerName, build_optimizers
from depthscope.training.schedule import WarmupStableDecay


@dataclass(frozen=True, kw_only=True)
class TrainingOptions:
    """How a model is trained; the model itself is given apart from it."""

    steps: int = 300
    batch: int = 8
    """Sequences a step."""
    context: int = 128
    """Tokens a sequence."""
    seed: int = 0
    optimizer: OptimizerName = "adamw"
    learning_rate: float = 3e-3
    weight_decay: float = 0.1
    max_norm: float = 1.0
    """The gradient is scaled down to this L2 norm where it is larger."""
    validation_every: int = 20
    """Steps between two validation losses; the first is that of the untrained model."""
    validation_count: int = 2
    """Batches of a validation."""

    def __post_init__(self) -> None:
        for name in ("steps", "batch", "context", "validation_every", "validation_count"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)}: expected 1 or more")
        if self.optimizer not in ("adamw", "muon"):
            raise ValueError(f"optimizer={self.optimizer!r}: expected 'adamw' or 'muon'")

    @property
    def schedule(self) -> WarmupStableDecay:
        return WarmupStableDecay.over(self.steps)

    @property
    def tokens_per_step(self) -> int:
        return self.batch * self.context


def build_decoder(design: str, config: DecoderConfig, *, seed: int) -> Decoder:
    """Return a decoder of the named design, its sublayers drawn the same for every design of one seed."""
    torch.manual_seed(seed)
    residual = residual_from_string(design, config)
    # The design drew as many numbers as it needed; start again, or its size would shift all later draws.
    torch.manual_seed(seed)
    return Decoder(config, residual)


class Trainer:
    """Train a language model on a corpus, one `step` at a time.

    Loss is the mean over tokens of -log p(next byte), in nats. On CUDA the forward runs under bfloat16 autocast.
    Data depend on seed and step only, so trainers that take turns do not disturb each other.
    """

    def __init__(self, model: nn.Module, corpus: Corpus, options: TrainingOptions) -> None:
        self.model = model
        self.options = options
        self.device = next(model.parameters()).device
        self.completed = 0
        """Optimizer steps completed."""
        self.optimizers = build_optimizers(
            model, options.optimizer, learning_rate=options.learning_rate, weight_decay=options.weight_decay
        )
        self.recorder: TrainingRecorder = NullRecorder()
        self._text = corpus.train
        self._schedule = options.schedule
        self._held_out = validation_batches(
            corpus.validation, count=options.validation_count, batch=options.batch, context=options.context
        )

    def step(self) -> Tensor:
        """Do one optimizer step and return its loss, a scalar left on the device."""
        options = self.options
        rate = options.learning_rate * self._schedule.factor(self.completed)
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = rate
        self.model.train()
        tokens = training_batch(
            self._text, self.completed, seed=options.seed, batch=options.batch, context=options.context
        )
        loss = self._loss(tokens)
        loss.backward()  # type: ignore[no-untyped-call]
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), options.max_norm)
        for optimizer in self.optimizers:
            optimizer.step()
        self.recorder.step(
            loss=loss.detach(), tokens=options.tokens_per_step, grad_norm=norm, max_norm=options.max_norm
        )
        for optimizer in self.optimizers:
            optimizer.zero_grad(set_to_none=True)
        self.completed += 1
        return loss.detach()

    @torch.no_grad()
    def validate(self) -> float:
        """Return the loss on the held-out windows, the same at every call, and record it."""
        self.model.eval()
        losses = [self._loss(tokens) for tokens in self._held_out]
        self.model.train()
        loss = torch.stack(losses).mean().item()
        self.recorder.evaluation(validation=loss)
        return loss

    def validation_is_due(self) -> bool:
        """Return whether a validation belongs after the steps completed so far."""
        return self.completed % self.options.validation_every == 0 or self.completed == self.options.steps

    def _loss(self, tokens: Tensor) -> Tensor:
        tokens = tokens.to(self.device)
        with torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=self.device.type == "cuda"):
            logits = self.model(tokens[:, :-1])
        return F.cross_entropy(logits.float().flatten(0, 1), tokens[:, 1:].flatten())


def train(trainer: Trainer) -> float:
    """Train to the end, with validations in between, and return the last validation loss."""
    validation = trainer.validate()
    while trainer.completed < trainer.options.steps:
        trainer.step()
        if trainer.validation_is_due():
            validation = trainer.validate()
    return validation
