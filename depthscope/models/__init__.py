"""Reference decoder with every residual design, one file a design."""

from depthscope.models.attnres import BlockAttnRes, FullAttnRes
from depthscope.models.config import DecoderConfig
from depthscope.models.decoder import Decoder
from depthscope.models.deepnorm import DeepNorm
from depthscope.models.denseformer import DenseFormer
from depthscope.models.designs import DESIGNS, DesignError, residual_from_string
from depthscope.models.highway import Highway
from depthscope.models.hires import HiRes
from depthscope.models.interface import Interface
from depthscope.models.layerscale import LayerScale
from depthscope.models.lns import LNS
from depthscope.models.mixer import DepthMixer, MixerOptions
from depthscope.models.norm import RMSNorm
from depthscope.models.option import Design
from depthscope.models.periln import PeriLN
from depthscope.models.postnorm import PostNorm
from depthscope.models.prenorm import PreNorm
from depthscope.models.residual import Residual, State
from depthscope.models.rezero import ReZero
from depthscope.models.two_phase import TwoPhaseAttnRes

__all__ = [
    "DESIGNS",
    "LNS",
    "BlockAttnRes",
    "Decoder",
    "DecoderConfig",
    "DeepNorm",
    "DenseFormer",
    "DepthMixer",
    "Design",
    "DesignError",
    "FullAttnRes",
    "HiRes",
    "Highway",
    "Interface",
    "LayerScale",
    "MixerOptions",
    "PeriLN",
    "PostNorm",
    "PreNorm",
    "RMSNorm",
    "ReZero",
    "Residual",
    "State",
    "TwoPhaseAttnRes",
    "residual_from_string",
]
