"""Reference decoder with every residual design, one file a design."""

from depthscope.models.altup import AltUp
from depthscope.models.attnres import BlockAttnRes, FullAttnRes
from depthscope.models.config import DecoderConfig
from depthscope.models.decoder import Decoder
from depthscope.models.deepnorm import DeepNorm
from depthscope.models.delta_attnres import DeltaAttnRes
from depthscope.models.denseformer import DenseFormer
from depthscope.models.designs import DESIGNS, DesignError, residual_from_string
from depthscope.models.highway import Highway
from depthscope.models.hires import HiRes
from depthscope.models.hyper_connections import HyperConnections
from depthscope.models.interface import Interface
from depthscope.models.layerscale import LayerScale
from depthscope.models.lns import LNS
from depthscope.models.mhc import MHC
from depthscope.models.mixer import DepthMixer, MixerOptions
from depthscope.models.moe import MixtureOfExperts
from depthscope.models.norm import RMSNorm
from depthscope.models.option import Design
from depthscope.models.periln import PeriLN
from depthscope.models.postnorm import PostNorm
from depthscope.models.prenorm import PreNorm
from depthscope.models.residual import Residual, State
from depthscope.models.rezero import ReZero
from depthscope.models.streams import Connection, StreamResidual
from depthscope.models.two_phase import TwoPhaseAttnRes
from depthscope.models.vwn import VWN

__all__ = [
    "DESIGNS",
    "LNS",
    "MHC",
    "VWN",
    "AltUp",
    "BlockAttnRes",
    "Connection",
    "Decoder",
    "DecoderConfig",
    "DeepNorm",
    "DeltaAttnRes",
    "DenseFormer",
    "DepthMixer",
    "Design",
    "DesignError",
    "FullAttnRes",
    "HiRes",
    "Highway",
    "HyperConnections",
    "Interface",
    "LayerScale",
    "MixerOptions",
    "MixtureOfExperts",
    "PeriLN",
    "PostNorm",
    "PreNorm",
    "RMSNorm",
    "ReZero",
    "Residual",
    "State",
    "StreamResidual",
    "TwoPhaseAttnRes",
    "residual_from_string",
]
