"""The definitions, computed a second time: by hand, slowly, in fp64, from tensors captured without any probe."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from torch import Tensor, nn

from tests.recording.loops import ForeignGPT

_STAGE = (("u", "alpha"), ("w", "beta"))
"""A stage's sublayers: the norm's name and its own."""


@dataclass
class Captured:
    """What passed during one forward and backward; lists over layers, tensors [batch, time, d]."""

    reads: list[Tensor] = field(default_factory=list)
    writes: list[Tensor] = field(default_factory=list)
    states: list[Tensor] = field(default_factory=list)
    embedding: Tensor | None = None
    final_read: Tensor | None = None
    sources: list[list[Tensor]] = field(default_factory=list)
    """For each target, the sources it could read."""
    carries: list[Tensor] = field(default_factory=list)
    outer_writes: list[Tensor] = field(default_factory=list)
    outer_reads: list[Tensor] = field(default_factory=list)
    outer_state: Tensor | None = None
    loss: Tensor | None = None

    def keep(self, tensor: Tensor) -> Tensor:
        if not tensor.is_leaf and tensor.requires_grad:
            tensor.retain_grad()
        return tensor


def capture(model: nn.Module, inputs: Tensor, targets: Tensor) -> Captured:
    """Run the model's own arithmetic step by step, keeping h, f and s; leaves gradients in the parameters."""
    seen = Captured()
    logits = _foreign(model, inputs, seen) if isinstance(model, ForeignGPT) else _decoder(model, inputs, seen)
    seen.loss = nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())
    seen.loss.backward()
    return seen


def counted_only(seen: Captured, mask: Tensor) -> Captured:
    """Return what was captured at the positions [batch, time] that count: tensors [1, counted, d]."""

    def pick(value: Any) -> Any:
        if isinstance(value, list):
            return [pick(each) for each in value]
        if not isinstance(value, Tensor) or value.dim() < 3:
            return value
        kept = value.detach()[mask][None].requires_grad_()
        if not value.is_leaf and value.grad is not None:
            kept.grad = value.grad[mask][None]
        return kept

    return Captured(**{name: pick(value) for name, value in vars(seen).items()})


def _foreign(model: ForeignGPT, inputs: Tensor, seen: Captured) -> Tensor:
    x = seen.keep(model.letters(inputs) + model.places.weight[: inputs.shape[1]])
    seen.embedding = x
    for stage in model.tower:
        for norm, sublayer in ((stage.u, stage.alpha), (stage.w, stage.beta)):
            seen.reads.append(x)
            f = seen.keep(sublayer(norm(x)))
            x = seen.keep(x + f)
            seen.writes.append(f)
            seen.states.append(x)
    seen.final_read = x
    return model.out(model.last(x))


def _decoder(model: Any, inputs: Tensor, seen: Captured) -> Tensor:
    residual = model.residual
    v = seen.keep(model.embedding(inputs))
    seen.embedding = v
    name = residual.name
    blocks: list[Tensor] = [v]
    partial: Tensor | None = None
    h = v
    if name == "hires":
        outer = seen.keep(residual.E(v))
        h = seen.keep(residual.R[0](outer))
        seen.outer_reads.append(h)
    for index, layer in enumerate(model.layers):
        if name.endswith("attnres"):
            sources = blocks if partial is None else [*blocks, partial]
            seen.sources.append(list(sources))
            h = seen.keep(residual.mix[index](tuple(sources)))
        seen.reads.append(h)
        f = seen.keep(layer.sublayer(layer.norm(h)))
        seen.writes.append(f)
        if name.endswith("attnres"):
            added = seen.keep(f.to(v.dtype))  # under autocast f is bfloat16, and sums are not
            partial = added if partial is None else seen.keep(partial + added)
            seen.states.append(partial)
            if residual.blocks.finishes(index):
                blocks, partial = [*blocks, partial], None
        else:
            h = seen.keep(h + f)
            seen.states.append(h)
        if name == "hires" and residual.blocks.finishes(index):
            block = residual.blocks.of(index)
            written = residual.W[block](h)
            seen.carries.append(outer)
            seen.outer_writes.append(written)
            outer = seen.keep(residual.norms[block](outer + written))
            if block + 1 < len(residual.blocks):
                h = seen.keep(residual.R[block + 1](outer))
                seen.outer_reads.append(h)
    if name.endswith("attnres"):
        seen.sources.append(list(blocks))
        final = residual.mix[len(model.layers)](tuple(blocks))
    elif name == "hires":
        seen.outer_state = outer
        final = residual.H(outer)
    else:
        final = h
    seen.final_read = final
    return model.head(model.norm(final))


# --- the definitions over lists of tokens, each vector a list of numbers ------------------------------------


def tokens(tensor: Tensor) -> list[np.ndarray]:
    """[batch, time, d] -> a list of d-vectors in fp64."""
    array = tensor.detach().double().cpu().numpy()
    return [array[b, t] for b in range(array.shape[0]) for t in range(array.shape[1])]


def rms(tensor: Tensor) -> float:
    vectors = tokens(tensor)
    return math.sqrt(sum(float(v @ v) for v in vectors) / sum(v.size for v in vectors))


def logrms(tensor: Tensor) -> float:
    return float(np.mean([math.log(math.sqrt(float(v @ v) / v.size)) for v in tokens(tensor)]))


def over_layers(seen: Captured) -> dict[str, np.ndarray]:
    """Return every per-layer quantity that needs activations and their gradients only."""
    count = len(tokens(seen.writes[0]))
    rows: dict[str, list[float]] = {}

    def add(name: str, value: float) -> None:
        rows.setdefault(name, []).append(value)

    for h, f, s in zip(seen.reads, seen.writes, seen.states, strict=True):
        pairs = list(zip(tokens(h), tokens(f), strict=True))
        for name, tensor in (("read", h), ("write", f), ("state", s)):
            add(f"{name}_rms", rms(tensor))
            add(f"{name}_logrms", logrms(tensor))
        add("write_ratio", float(np.mean([np.linalg.norm(b) / np.linalg.norm(a) for a, b in pairs])))
        cosine = [a @ b / (np.linalg.norm(a) * np.linalg.norm(b)) for a, b in pairs]
        add("write_cosine", float(np.mean(cosine)))
        add("write_dot", float(np.mean([a @ b / a.size for a, b in pairs])))
        add("abs_max", max(float(np.abs(v).max()) for v in tokens(s)))
        add("nonfinite", 0.0)
        add("grad_write_rms", count * rms(f.grad))
        add("grad_read_rms", count * rms(h.grad))
        add("grad_state_rms", count * rms(s.grad if s.grad is not None else f.grad))
    return {name: np.array(values) for name, values in rows.items()}


def fresh_share(seen: Captured, alphas: list[np.ndarray] | None, hires_ends: set[int]) -> np.ndarray:
    """Return mean_t <c, h'> / ||h'||^2 per layer; alphas over (target, source) per token for AttnRes."""
    following = [*seen.reads[1:], seen.final_read]
    shares = []
    for layer, (f, after) in enumerate(zip(seen.writes, following, strict=True)):
        if layer in hires_ends:
            shares.append(math.nan)
            continue
        weight = np.ones(len(tokens(f))) if alphas is None else alphas[layer + 1][-1]
        values = [a * (x @ y) / (y @ y) for a, x, y in zip(weight, tokens(f), tokens(after), strict=True)]
        shares.append(float(np.mean(values)))
    return np.array(shares)


def depth_weights(model: Any, seen: Captured) -> list[np.ndarray]:
    """Return alpha [n_sources, tokens] for each target, from softmax_i(w . RMSNorm(v_i)) by hand."""
    alphas = []
    for mixer, sources in zip(model.residual.mix, seen.sources, strict=True):
        w = mixer.query.detach().double().cpu().numpy()
        gain = mixer.key_norm.weight.detach().double().cpu().numpy()
        logits = []
        for source in sources:
            scaled = [v / math.sqrt(float(v @ v) / v.size + 1e-6) * gain for v in tokens(source)]
            logits.append([float(w @ v) for v in scaled])
        exponent = np.exp(np.array(logits))
        alphas.append(exponent / exponent.sum(axis=0))
    return alphas


def depth_attention(model: Any, seen: Captured, columns: int) -> dict[str, np.ndarray]:
    """Return every quantity over targets, NaN where a target cannot read."""
    alphas = depth_weights(model, seen)
    targets = len(alphas)
    names = ("depth_attention", "depth_contribution", "source_rms", "depth_attention_std")
    out = {name: np.full((targets, columns), np.nan) for name in names}
    out |= {
        name: np.full(targets, np.nan)
        for name in (
            "depth_attention_entropy",
            "depth_attention_max",
            "depth_distance",
            "newest_weight",
            "embedding_weight",
            "query_norm",
        )
    }
    reads = [*seen.reads, seen.final_read]
    for target, (alpha, sources) in enumerate(zip(alphas, seen.sources, strict=True)):
        n = len(sources)
        read = tokens(reads[target])
        for column, source in enumerate(sources):
            out["depth_attention"][target, column] = alpha[column].mean()
            out["depth_attention_std"][target, column] = alpha[column].std()
            out["source_rms"][target, column] = rms(source)
            shares = [
                a * (v @ h) / (h @ h) for a, v, h in zip(alpha[column], tokens(source), read, strict=True)
            ]
            out["depth_contribution"][target, column] = float(np.mean(shares))
        if n > 1:
            out["depth_attention_entropy"][target] = (-(alpha * np.log(alpha)).sum(0)).mean() / math.log(n)
        out["depth_attention_max"][target] = alpha.max(axis=0).mean()
        out["depth_distance"][target] = sum((n - i) * alpha[i].mean() for i in range(n))
        out["newest_weight"][target] = alpha[-1].mean()
        out["embedding_weight"][target] = alpha[0].mean()
        mixer = model.residual.mix[target]
        out["query_norm"][target] = float((mixer.query * mixer.key_norm.weight).detach().double().norm())
    return out


def outer_state(model: Any, seen: Captured) -> dict[str, np.ndarray]:
    """Return every quantity over the blocks of HiRes; energies before the norm."""
    rows: dict[str, list[Any]] = {}
    d = seen.writes[0].shape[-1]
    boundaries = []
    reads, writes = ([interface(module) for module in side] for side in (model.residual.R, model.residual.W))
    for carry, write, read in zip(seen.carries, seen.outer_writes, seen.outer_reads, strict=True):
        boundary = carry + write
        boundaries.append(boundary)
        pairs = list(zip(tokens(carry), tokens(write), strict=True))
        whole = tokens(boundary)
        values = {
            "outer_energy": np.mean([v @ v / v.size for v in whole]),
            "outer_write_energy": np.mean([w @ w / w.size for _, w in pairs]),
            "outer_carry_energy": np.mean([c @ c / c.size for c, _ in pairs]),
            "outer_write_ratio": np.mean([np.linalg.norm(w) / np.linalg.norm(c) for c, w in pairs]),
            "outer_write_cosine": np.mean(
                [w @ c / (np.linalg.norm(w) * np.linalg.norm(c)) for c, w in pairs]
            ),
            "outer_read_rms": rms(read),
            "outer_extra_share": np.mean([(v[d:] @ v[d:]) / (v @ v) for v in whole]),
            "outer_channel_energy": np.mean([v * v for v in whole], axis=0),
            "outer_unread_share": unread_share(reads[len(boundaries) - 1], [c for c, _ in pairs]),
        }
        for name, value in values.items():
            rows.setdefault(name, []).append(value)
    out = {name: np.array(values) for name, values in rows.items()}
    residual = model.residual
    blocks = range(len(boundaries))
    out["write_read_coupling"] = np.array(
        [[coupling(writes[b], reads[later]) if later > b else math.nan for later in blocks] for b in blocks]
    )
    gates = [[side[b].gate for side in (residual.R, residual.W)] for b in range(len(boundaries))]
    out["interface_gate"] = np.array(
        [[1 / (1 + math.exp(-float(g.detach()))) for g in pair] for pair in gates]
    )
    first, last = tokens(seen.carries[0]), tokens(seen.outer_state)
    direct = []
    for token in range(len(first)):
        product = math.prod(
            1 / math.sqrt(float(np.mean(tokens(boundary)[token] ** 2))) for boundary in boundaries
        )
        sizes = [math.sqrt(float(np.mean(v[token] ** 2))) for v in (first, last)]
        direct.append(product * sizes[0] / sizes[1])
    out["outer_direct"] = np.array(np.mean(direct))
    return out


def interface(module: Any) -> np.ndarray:
    """Return (1 - g) Pi + g M by hand, [outputs, inputs]."""
    matrix = module.weight.detach().double().numpy()
    gate = 1 / (1 + math.exp(-float(module.gate.detach())))
    return (1 - gate) * np.eye(*matrix.shape) + gate * matrix


def unread_share(matrix: np.ndarray, carries: list[np.ndarray]) -> float:
    """By the projector R^T (R R^T)^-1 R itself."""
    projector = matrix.T @ np.linalg.inv(matrix @ matrix.T) @ matrix
    return float(np.mean([1 - (p := projector @ h) @ p / (h @ h) for h in carries]))


def coupling(write: np.ndarray, read: np.ndarray) -> float:
    sizes = [math.sqrt((matrix**2).sum()) for matrix in (read @ write, read, write)]
    return sizes[0] / (sizes[1] * sizes[2])


def gradient_norms(model: nn.Module, prefix: str) -> float:
    """Return the L2 norm over every parameter whose name begins with `prefix`."""
    total = 0.0
    for name, parameter in model.named_parameters():
        if name.startswith(prefix) and parameter.grad is not None:
            total += float(parameter.grad.double().square().sum())
    return math.sqrt(total)


def layer_gradient_norms(model: nn.Module) -> np.ndarray:
    """Return the L2 norm of each sublayer's parameter gradients, its norm included."""
    if isinstance(model, ForeignGPT):
        parts = [
            (f"tower.{i}.{norm}.", f"tower.{i}.{f}.") for i in range(len(model.tower)) for norm, f in _STAGE
        ]
    else:
        parts = [(f"layers.{index}.",) for index in range(len(model.layers))]  # type: ignore[arg-type]
    return np.array(
        [math.hypot(*(gradient_norms(model, prefix) for prefix in prefixes)) for prefixes in parts]
    )
