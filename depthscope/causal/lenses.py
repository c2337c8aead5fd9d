"""All lenses into the depth of one model, as a store beside its run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from torch import Tensor, nn

from depthscope.anatomy import Anatomy
from depthscope.causal.attribution import attribute_logits
from depthscope.causal.batch import Batch
from depthscope.causal.choose_sources import depth_sources
from depthscope.causal.error import CausalError
from depthscope.causal.identity import data_digest, weights_digest
from depthscope.causal.logit_lens import logit_lens
from depthscope.causal.prepare import prepare
from depthscope.causal.reads import depth_names
from depthscope.causal.similarity import block_influence, linear_cka
from depthscope.causal.subject import Subject
from depthscope.causal.sweep import Advance
from depthscope.causal.sweep_store import gone_on, kept_in, tokens_kept
from depthscope.store import CellArray, CellStore, Coordinate, open_sweep

LAST = "lens_kl"
"""Written last of a batch: it says that the batch is finished."""


def measure_lenses(
    model: nn.Module,
    batches: Iterable[Any],
    *,
    k: int = 5,
    anatomy: Anatomy | None = None,
    path: Path | None = None,
    about: Mapping[str, Any] | None = None,
    advance: Advance = lambda finished, total: None,
) -> xr.Dataset:
    """Look into a model's depth with every lens; the arguments are those of `measure_effects`.

    Returns:
        Over (depth, batch), means over tokens: ``lens_loss``, ``lens_kl``, ``lens_agreement`` (see `logit_lens`); over
        (transformer_block, batch) ``block_influence``; over (part, batch) ``logit_attribution``, where the design has
        sources: else the attribute ``no_attribution`` says why. Of the first batch: ``cka`` (depth, other_depth), and
        token by token ``token_kl``, ``token_top`` (depth, sequence, position) and ``token_attribution`` (part, ...).
    """
    listed, subject = prepare(model, batches, anatomy, path)
    with kept_in(path) as folder:
        store = _store(folder, subject, listed, k, about or {})
        for number, batch in enumerate(listed):
            advance(number, len(listed))
            if not store.has(LAST, (0, number)):
                _fill(store, subject, batch, number, k)
        advance(len(listed), len(listed))
        return open_sweep(folder).read()


def _fill(store: CellStore, subject: Subject, batch: Batch, number: int, k: int) -> None:
    lens = logit_lens(subject, batch, k=k)
    store.put("block_influence", (0, number), block_influence(subject, batch).numpy(force=True)[:, None])
    if "logit_attribution" in store:
        parts = attribute_logits(subject, batch).parts
        store.put("logit_attribution", (0, number), _means(parts))
        if number == 0:
            _put_tokens(store, "token_attribution", parts)
    if number == 0:
        store.put("cka", (0, 0), linear_cka(subject, batch).numpy(force=True))
        _put_tokens(store, "token_kl", lens.kl)
        _put_tokens(store, "token_top", lens.top)
    store.put("lens_loss", (0, number), _means(lens.loss))
    store.put("lens_agreement", (0, number), _means(lens.agreement))
    store.put(LAST, (0, number), _means(lens.kl))


def _means(values: Tensor) -> np.ndarray[Any, Any]:
    return np.asarray(values.double().nanmean(dim=(1, 2)).numpy(force=True))[:, None]


def _put_tokens(store: CellStore, name: str, values: Tensor) -> None:
    _, sequences, positions = store.array(name).shape
    store.put(name, (0, 0, 0), values[:, :sequences, :positions].numpy(force=True))


def _store(
    path: Path, subject: Subject, batches: tuple[Batch, ...], k: int, about: Mapping[str, Any]
) -> CellStore:
    axis = subject.axis
    identity = {
        "kind": "lens",
        "k": k,
        "design": axis.design,
        "weights": weights_digest(subject.model),
        "data": data_digest(batches),
        "batches": len(batches),
    }
    if path.exists():
        return gone_on(path, identity)
    attributes = {**about, "kind": "lens", "k": k, "design": axis.design, "identity": identity}
    names = depth_names(axis)
    parts: tuple[str, ...] = ()
    try:
        attribute_logits(subject, batches[0])
        sources = depth_sources(subject, batches[0])
        parts = (
            *(sources.source_names[c] for c in sources.readable(len(sources.target_names) - 1)),
            "constant",
        )
    except CausalError as error:
        attributes["no_attribution"] = str(error)
    blocks = len({sublayer.transformer_block for sublayer in axis.sublayers})
    token = tokens_kept(batches[0])
    over = {"depth": len(names), "transformer_block": blocks, "part": len(parts)}

    def by_batch(name: str, dim: str, long_name: str, units: str) -> CellArray:
        size = over[dim]
        described = {"long_name": long_name, "units": units}
        return CellArray(
            name=name, dims=(dim, "batch"), shape=(size, len(batches)), chunk=(size, 1), attributes=described
        )

    def by_token(name: str, dim: str, long_name: str, units: str, dtype: str = "f4") -> CellArray:
        shape = (over[dim], *token)
        described = {"long_name": long_name, "units": units}
        return CellArray(
            name=name,
            dims=(dim, "sequence", "position"),
            shape=shape,
            chunk=shape,
            dtype=dtype,
            attributes=described,
        )

    square = (len(names), len(names))
    arrays = [
        by_batch("lens_loss", "depth", "loss if this state were the last", "nats/token"),
        by_batch("lens_kl", "depth", "KL of the output from this state", "nats/token"),
        by_batch("lens_agreement", "depth", f"share of the output's {k} likeliest tokens", "1"),
        by_batch("block_influence", "transformer_block", "1 - cosine of a block's read and the next", "1"),
        CellArray(
            name="cka",
            dims=("depth", "other_depth"),
            shape=square,
            chunk=square,
            attributes={"long_name": "linear CKA between states, first batch", "units": "1"},
        ),
        by_token("token_kl", "depth", "KL of the output from this state, first batch", "nats"),
        by_token("token_top", "depth", "likeliest token at this state, first batch", "1", "i8"),
    ]
    coordinates = [Coordinate(name="depth_name", dim="depth", values=names)]
    if parts:
        arrays += [
            by_batch("logit_attribution", "part", "share of the target's logit", "1"),
            by_token("token_attribution", "part", "share of the target's logit, first batch", "1"),
        ]
        coordinates.append(Coordinate(name="part_name", dim="part", values=parts))
    return CellStore.create(path, arrays, coordinates=coordinates, attributes=attributes)
