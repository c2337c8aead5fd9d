"""What `depthscope demo` can be told, and the sizes it chooses by itself."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from depthscope.models import DecoderConfig
from depthscope.training.optimizers import OptimizerName
from depthscope.training.trainer import TrainingOptions

DESIGNS = ("prenorm", "full-attnres", "block-attnres", "hires")
PORT = 8050


@dataclass(frozen=True, kw_only=True)
class DemoSize:
    """A model and a length of training that suit a kind of machine."""

    width: int
    layers: int
    heads: int
    context: int
    batch: int
    steps: int
    learning_rate: float


# Four designs end within five minutes on two CPU cores, recording included.
CPU_SIZE = DemoSize(width=64, layers=24, heads=4, context=128, batch=8, steps=300, learning_rate=3e-3)
CUDA_SIZE = DemoSize(width=512, layers=32, heads=8, context=512, batch=32, steps=1000, learning_rate=1e-3)


@dataclass(frozen=True, kw_only=True)
class DemoOptions:
    """What to train, for how long, and where to. None: chosen by the device."""

    designs: tuple[str, ...] = DESIGNS
    """Names or design strings, e.g. ``block-attnres:S=4``."""
    steps: int | None = None
    out: Path | None = None
    """Folder for the runs, one folder a design below it; None: a new dated one in ``demo-runs``."""
    seed: int = 0
    serve: bool = True
    """Show the runs in a page that stays until Ctrl-C."""
    port: int = PORT
    """The next free one is taken where something listens already."""
    record: bool = True
    """False trains only: no run is written and no page served."""
    optimizer: OptimizerName = "adamw"
    device: str | None = None
    """``cpu`` or ``cuda``; None: CUDA where there is one."""
    width: int | None = None
    layers: int | None = None
    context: int | None = None
    batch: int | None = None
    experts: int = 1
    """MLPs of every MLP sublayer, of which two compute a token; 1: a plain MLP."""
    every_fast: int = 1
    """Steps between rows of sizes and gradients."""
    every_slow: int = 10
    """Steps between rows of depth attention and outer states."""
    checkpoint_every: int | None = None
    """Steps between checkpoints in the runs' folders, the last step always among them; None: no checkpoints."""

    def decoder(self, size: DemoSize) -> DecoderConfig:
        """Return the decoder's configuration."""
        width = self.width or size.width
        return DecoderConfig(
            width=width,
            layers=self.layers or size.layers,
            heads=next(heads for heads in range(size.heads, 0, -1) if width % heads == 0),
            context=self.context or size.context,
            experts=self.experts,
            # An embedding of unit size, which the writes have to outgrow: state growth shows within 300 steps.
            init_std=0.4 / width**0.5,
            embedding_std=1.0,
        )

    def training(self, size: DemoSize) -> TrainingOptions:
        """Return how each design is trained."""
        return TrainingOptions(
            steps=size.steps if self.steps is None else self.steps,
            batch=self.batch or size.batch,
            context=self.context or size.context,
            seed=self.seed,
            optimizer=self.optimizer,
            learning_rate=size.learning_rate,
        )
