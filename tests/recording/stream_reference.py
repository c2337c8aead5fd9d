"""Streams a second time, in fp64 by other means: states from the model's four calls, matrices from its parameters."""

from __future__ import annotations

import copy
from itertools import permutations
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tests.recording.reference import rms


class Walked:
    """One forward of a model in double: H of every layer as [tokens, n, k], before and after the sublayer."""

    def __init__(self, model: Any, inputs: Tensor, counted: np.ndarray | None = None) -> None:
        model = copy.deepcopy(model).double()
        self.residual = residual = model.residual
        self.before, self.after, self.outputs = [], [], []
        with torch.no_grad():
            state = residual.begin(model.embedding(inputs))
            for index, layer in enumerate(model.layers):
                output = layer.sublayer(layer.norm(residual.read(state, index)))
                self.before.append(self._cut(state, counted))
                self.outputs.append(output)
                state = residual.write(state, index, output)
                self.after.append(self._cut(state, counted))

    def _cut(self, state: Tensor, counted: np.ndarray | None) -> np.ndarray:
        tokens = state.reshape(-1, state.shape[-1]).numpy()
        chosen = tokens if counted is None else tokens[counted.reshape(-1)]
        return chosen.reshape(len(chosen), self.residual.streams, -1)


def quantities(walked: Walked) -> dict[str, np.ndarray]:
    """Return every quantity of streams, each mean over tokens written out."""
    mixing = [_matrices(walked, layer) for layer in range(len(walked.after))]
    tokens = range(len(walked.after[0]))
    found: dict[str, list[Any]] = {
        name: [] for name in ("stream_energy", "stream_mixing", "sinkhorn_residue")
    }
    for state, matrices in zip(walked.after, mixing, strict=True):
        found["stream_energy"].append(np.mean([(state[t] ** 2).mean(axis=1) for t in tokens], axis=0))
        found["stream_mixing"].append(np.mean(matrices, axis=0))
        residues = [max(*abs(H.sum(axis=0) - 1), *abs(H.sum(axis=1) - 1)) for H in matrices]
        found["sinkhorn_residue"].append(np.mean(residues))
    for layer in range(len(mixing)):
        products = []
        for t in tokens:
            product = mixing[layer][t]
            for later in mixing[layer + 1 :]:
                product = later[t] @ product
            products.append(product)
        for name, axis in (("forward", 1), ("backward", 0)):
            sums = [abs(P.sum(axis=axis)) for P in products]
            found.setdefault(f"gain_{name}", []).append(np.mean([s.max() for s in sums]))
            found.setdefault(f"gain_{name}_min", []).append(np.mean([s.min() for s in sums]))
            sizes = [abs(P).sum(axis=axis).max() for P in products]
            found.setdefault(f"gain_{name}_abs", []).append(np.mean(sizes))
    found["output_rms"] = [rms(output) for output in walked.outputs]
    return {name: np.array(values) for name, values in found.items()}


def _matrices(walked: Walked, layer: int) -> np.ndarray:
    """Return P of every token, [tokens, n, n], such that H becomes P H: a paper's formula, token by token."""
    residual = walked.residual
    c = residual.connections[layer]
    w = {name: p.detach().numpy() for name, p in c.named_parameters()}
    eps = residual.config.norm_eps
    return np.array([_BY_DESIGN[residual.name](residual, c, w, H, eps) for H in walked.before[layer]])


def _hc(residual: Any, c: Any, w: dict[str, np.ndarray], H: np.ndarray, eps: float) -> np.ndarray:
    A_r = w["mix"]
    if residual.dynamic:
        A_r = A_r + w["width_scale"] * np.tanh(_normed(H, w["norm.weight"], eps) @ w["mix_map"])
    return A_r.T


def _vwn(residual: Any, c: Any, w: dict[str, np.ndarray], H: np.ndarray, eps: float) -> np.ndarray:
    A = w["read_and_mix"]
    if residual.dynamic:
        learned = np.tanh(_normed(H, w["norm.weight"], eps) @ w["read_and_mix_map"])
        A = A + w["read_and_mix_scale"] * learned
    return A[:, residual.segments :].T


def _mhc(residual: Any, c: Any, w: dict[str, np.ndarray], H: np.ndarray, eps: float) -> np.ndarray:
    n = residual.streams
    logits = w["alpha"][2] * (_normed(H.reshape(-1), w["norm.weight"], eps) @ w["mix_map"]) + w["mix_bias"]
    if residual.lite:
        weights = np.exp(logits) / np.exp(logits).sum()
        return sum(
            share * np.eye(n)[list(order)]
            for share, order in zip(weights, permutations(range(n)), strict=True)
        )
    M = np.exp(logits.reshape(n, n))
    for _ in range(20):
        M = M / M.sum(axis=0, keepdims=True)
        M = M / M.sum(axis=1, keepdims=True)
    return M


def _altup(residual: Any, c: Any, w: dict[str, np.ndarray], H: np.ndarray, eps: float) -> np.ndarray:
    """Predict, then correct with the sublayer's output left out: x_c alone stands for what was computed."""
    p, g, computed = w["prediction"], w["gain"], c.computed
    return np.array([p[i] + g[i] * (np.eye(len(g))[computed] - p[computed]) for i in range(len(g))])


def _normed(x: np.ndarray, gain: np.ndarray, eps: float) -> np.ndarray:
    return x / np.sqrt((x**2).mean(axis=-1, keepdims=True) + eps) * gain


_BY_DESIGN = {"hc": _hc, "vwn": _vwn, "mhc": _mhc, "altup": _altup}
