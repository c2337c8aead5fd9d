"""The words that `depthscope.marks` allows for a sublayer's kind and a port's side."""

from __future__ import annotations

from typing import Literal, TypeAlias

Kind: TypeAlias = Literal["attention", "mlp", "other"]
Side: TypeAlias = Literal["input", "output"]
