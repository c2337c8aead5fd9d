"""Every design and every option of it, as they are typed."""

from __future__ import annotations

import pytest

EVERY = [
    "prenorm",
    "full-attnres",
    "full-attnres:window=3",
    "full-attnres:score=sigmoid",
    "full-attnres:query=none",
    "full-attnres:keynorm=no",
    "block-attnres:S=3",
    "block-attnres:boundaries=1+4",
    "block-attnres:S=3,query=input",
    "block-attnres:S=2,heads=4,window=2",
    "two-phase-attnres:S=3",
    "two-phase-attnres:boundaries=1+4",
    "hires:n=2,B=4",
    "hires:n=0.75,B=2,phi=increment,gate=none",
    "hires:n=2,B=2,outer=no,norm=no,frozen=yes",
    "hires:n=1,B=2,outer=no,identity=yes",
    "postnorm",
    "peri-ln",
    "lns",
    "rezero",
    "layerscale:start=0.1",
    "highway:bias=-1",
    "deepnorm",
    "denseformer",
    "hc:n=4,dynamic=no",
    "hc:n=2,dynamic=yes",
    "mhc:n=4",
    "mhc:n=3,lite=yes",
    "vwn:m=2,n=3,dynamic=yes",
    "vwn:m=1,n=2,dynamic=no",
    "altup:K=2",
    "delta-attnres:S=3",
    "delta-attnres:boundaries=1+4",
]

every_design = pytest.mark.parametrize("design", EVERY)
