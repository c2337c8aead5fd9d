"""The small trainer behind `depthscope demo` and the examples."""

from depthscope.training.batches import training_batch, validation_batches
from depthscope.training.checkpoint import (
    CheckpointError,
    checkpoint_path,
    is_checkpoint,
    newest_checkpoint,
    restore,
    save_checkpoint,
)
from depthscope.training.corpus import VOCABULARY, Corpus, CorpusError, read_corpus
from depthscope.training.demo import run_demo
from depthscope.training.demo_options import CPU_SIZE, CUDA_SIZE, DemoOptions, DemoSize
from depthscope.training.demo_plan import DemoError
from depthscope.training.muon import Muon, orthogonalise
from depthscope.training.null_recorder import NullRecorder, TrainingRecorder
from depthscope.training.optimizers import build_optimizers
from depthscope.training.round_robin import train_round_robin
from depthscope.training.run_config import run_config
from depthscope.training.schedule import WarmupStableDecay
from depthscope.training.trainer import Trainer, TrainingOptions, build_decoder, train

__all__ = [
    "CPU_SIZE",
    "CUDA_SIZE",
    "VOCABULARY",
    "CheckpointError",
    "Corpus",
    "CorpusError",
    "DemoError",
    "DemoOptions",
    "DemoSize",
    "Muon",
    "NullRecorder",
    "Trainer",
    "TrainingOptions",
    "TrainingRecorder",
    "WarmupStableDecay",
    "build_decoder",
    "build_optimizers",
    "checkpoint_path",
    "is_checkpoint",
    "newest_checkpoint",
    "orthogonalise",
    "read_corpus",
    "restore",
    "run_config",
    "run_demo",
    "save_checkpoint",
    "train",
    "train_round_robin",
    "training_batch",
    "validation_batches",
]
