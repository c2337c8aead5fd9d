"""Other tools that record while a model trains, each attached as its documentation says, with what it really recorded.

They are looked for where Python looks, and in a folder of packages of their own, so that the project's environment
stays as it is:

    python3.11 -m venv peers
    peers/bin/pip install --no-deps wandb tensorboard nvdlfw-inspect torchexplorer pytorch-lightning \\
        lightning-utilities torchmetrics pygraphviz cwevals==0.0.1b1
    peers/bin/pip install absl-py grpcio markdown protobuf tensorboard-data-server werkzeug pillow numpy click \\
        opentelemetry-api opentelemetry-exporter-otlp-proto-http opentelemetry-sdk packaging platformdirs pydantic \\
        pyyaml requests xxhash typing_extensions tqdm "fsspec[http]" flask loguru

Without dependencies, since each would bring another torch.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol

from torch import Tensor, nn

STATISTICS = ("min", "max", "mean", "std", "l1_norm", "l2_norm")


class Peer(Protocol):
    """A tool attached to a model."""

    recorded: int
    """Tensors of which something was kept, counted where the tool keeps it."""

    def expected(self, steps: int) -> int:
        """Return how many that must be after so many steps."""

    def after_backward(self) -> None: ...
    def after_step(self, loss: Tensor) -> None: ...
    def close(self) -> None: ...


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A tool, and how it is attached."""

    name: str
    attach: Callable[[nn.Module, Sequence[nn.Module], Path], Peer]
    """Of the model, its sublayers and a folder; ImportError where the tool is not installed."""
    records: str
    omits: str
    activations_and_gradients: bool


class _Attached:
    """What most of them have in common: nothing to do but in hooks."""

    def __init__(self) -> None:
        self.recorded = 0

    def after_backward(self) -> None:
        pass

    def after_step(self, loss: Tensor) -> None:
        pass

    def close(self) -> None:
        pass

    def counting(self, owner: Any, name: str) -> None:
        """Count the calls of a function from now on."""
        original = getattr(owner, name)

        def counted(*args: Any, **kwargs: Any) -> Any:
            self.recorded += 1
            return original(*args, **kwargs)

        setattr(owner, name, counted)


class Wandb(_Attached):
    """`wandb.watch`, offline: the client's own service process does the writing and is not counted.

    What it watches goes to the one global run, so all models share one, each under a number of its own.
    """

    def __init__(self, model: nn.Module, folder: Path, log: str, number: int) -> None:
        super().__init__()
        os.environ["WANDB_SILENT"] = "true"
        self.client = importlib.import_module("wandb")
        run = self.client.run or self.client.init(mode="offline", dir=str(folder), project="benchmark")
        run.watch(model, log=log, log_freq=1, idx=number)
        original = run._torch.log_tensor_stats

        def counted(tensor: Tensor, name: str) -> None:
            self.recorded += (f"graph_{number}" in name) if number else ("graph_" not in name)
            original(tensor, name)

        run._torch.log_tensor_stats = counted
        self.parameters = len(list(model.parameters()))
        self.kinds = 2 if log == "all" else 1

    def expected(self, steps: int) -> int:
        return self.kinds * self.parameters * steps

    def after_step(self, loss: Tensor) -> None:
        self.client.run.log({"loss": loss.item()})

    def close(self) -> None:
        if self.client.run is not None:
            self.client.run.finish()


class TensorBoard(_Attached):
    """`SummaryWriter.add_histogram` of each sublayer's output, of its gradient, and of each parameter's gradient."""

    def __init__(self, model: nn.Module, sublayers: Sequence[nn.Module], folder: Path) -> None:
        super().__init__()
        self.writer = importlib.import_module("torch.utils.tensorboard").SummaryWriter(str(folder))
        self.counting(self.writer, "add_histogram")
        self.model, self.sublayers, self.step = model, sublayers, 0
        for place, sublayer in enumerate(sublayers):
            sublayer.register_forward_hook(self._hook(f"output/{place}"))

    def _hook(self, name: str) -> Callable[..., None]:
        def hook(module: nn.Module, args: Any, output: Tensor) -> None:
            self.writer.add_histogram(name, output.detach(), self.step)
            output.register_hook(  # type: ignore[no-untyped-call]
                lambda gradient: self.writer.add_histogram(f"gradient/{name}", gradient, self.step)
            )

        return hook

    def expected(self, steps: int) -> int:
        return (2 * len(self.sublayers) + len(list(self.model.parameters()))) * steps

    def after_backward(self) -> None:
        for name, parameter in self.model.named_parameters():
            self.writer.add_histogram(f"parameter/{name}", parameter.grad, self.step)

    def after_step(self, loss: Tensor) -> None:
        self.writer.add_scalar("loss", loss.item(), self.step)
        self.step += 1

    def close(self) -> None:
        self.writer.close()


class NvdlfwInspect(_Attached):
    """`log_tensor_stats` of each sublayer's output and its gradient, six statistics each, into its log file."""

    _config: ClassVar[str] = """
everything:
  enabled: True
  layers: {{layer_name_regex_pattern: .*}}
  LogTensorStats: {{enabled: True, tensors: [activation, gradient], stats: [{}], freq: 1}}
"""

    def __init__(self, sublayers: Sequence[nn.Module], folder: Path) -> None:
        super().__init__()
        self.api = importlib.import_module("nvdlfw_inspect.api")
        config = folder / "config.yaml"
        config.write_text(self._config.format(", ".join(STATISTICS)))
        self.api.initialize(config_file=str(config), log_dir=str(folder), default_logging_enabled=True)
        logging = importlib.import_module("nvdlfw_inspect.logging")
        self.counting(logging.MetricLogger, "log_scalar")
        self.sublayers = sublayers
        for place, sublayer in enumerate(sublayers):
            sublayer.register_forward_hook(self._hook(f"sublayer.{place}"))

    def _hook(self, name: str) -> Callable[..., None]:
        def log(tensor: Tensor, kind: str) -> None:
            self.api.log_tensor_stats(name, tensor=tensor, tensor_name=kind, skip_reduction=True)

        def hook(module: nn.Module, args: Any, output: Tensor) -> None:
            log(output.detach(), "activation")
            output.register_hook(lambda gradient: log(gradient, "gradient"))  # type: ignore[no-untyped-call]

        return hook

    def expected(self, steps: int) -> int:
        return len(STATISTICS) * 2 * len(self.sublayers) * steps

    def after_step(self, loss: Tensor) -> None:
        self.api.step()

    def close(self) -> None:
        self.api.end_debug()


class TorchExplorer(_Attached):
    """`torchexplorer.watch` at every step. Its page is not drawn, for which it would start Graphviz."""

    def __init__(self, model: nn.Module, folder: Path) -> None:
        super().__init__()
        explorer = importlib.import_module("torchexplorer")
        importlib.import_module("torchexplorer.render.layout").layout = lambda structure, cached: (None, None)  # type: ignore[attr-defined]
        histogram = importlib.import_module("torchexplorer.components.histogram")
        self.counting(histogram.IncrementalHistogram, "push_history")
        self.model = model
        self.after: list[int] = []
        explorer.watch(model, log_freq=1, backend="none", verbose=False)

    def expected(self, steps: int) -> int:
        # Which modules have a gradient at their input it finds out in the first step.
        first, second = self.after[:2]
        return first + (second - first) * (steps - 1)

    def after_step(self, loss: Tensor) -> None:
        self.after.append(self.recorded)


class GradNorm(_Attached):
    """Lightning's `grad_norm`, its values brought to the host as a logger does."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.norms = importlib.import_module("pytorch_lightning.utilities").grad_norm
        self.model = model
        self.parameters = len(list(model.parameters()))

    def expected(self, steps: int) -> int:
        return (self.parameters + 1) * steps

    def after_backward(self) -> None:
        self.recorded += len([float(norm) for norm in self.norms(self.model, 2).values()])


KINDS = (
    Kind(
        name="Lightning grad_norm",
        attach=lambda model, sublayers, folder: GradNorm(model),
        records="L2 norm of each parameter's gradient",
        omits="activations and their gradients; writes nothing",
        activations_and_gradients=False,
    ),
    Kind(
        name="wandb.watch gradients",
        attach=lambda model, sublayers, folder: Wandb(model, folder, "gradients", 0),
        records="histogram of each parameter's gradient",
        omits="activations and their gradients; its service process is not counted",
        activations_and_gradients=False,
    ),
    Kind(
        name="wandb.watch all",
        attach=lambda model, sublayers, folder: Wandb(model, folder, "all", 1),
        records="histogram of each parameter and of its gradient",
        omits="activations and their gradients; its service process is not counted",
        activations_and_gradients=False,
    ),
    Kind(
        name="nvdlfw-inspect",
        attach=lambda model, sublayers, folder: NvdlfwInspect(sublayers, folder),
        records="min, max, mean, std, L1, L2 of each sublayer's output and of its gradient",
        omits="states, reads and how they stand to writes; parameters; per-token statistics",
        activations_and_gradients=True,
    ),
    Kind(
        name="TorchExplorer",
        attach=lambda model, sublayers, folder: TorchExplorer(model, folder),
        records="histograms of 1,000 entries: inputs, outputs, gradients of each module, parameters",
        omits="all entries but the sample; the residual stream; its page is not drawn",
        activations_and_gradients=True,
    ),
    Kind(
        name="TensorBoard histograms",
        attach=lambda model, sublayers, folder: TensorBoard(model, sublayers, folder),
        records="histogram of each sublayer's output, of its gradient, and of each parameter's gradient",
        omits="states, reads and how they stand to writes; per-token statistics",
        activations_and_gradients=True,
    ),
)
