"""Reference decoder with every residual design, one file a design."""

from depthscope.models.attnres import BlockAttnRes, FullAttnRes
from depthscope.models.config import DecoderConfig
from depthscope.models.decoder import Decoder
from depthscope.models.designs import DESIGNS, Design, DesignError, residual_from_string
from depthscope.models.hires import HiRes
from depthscope.models.interface import Interface
from depthscope.models.mixer import DepthMixer
from depthscope.models.norm import RMSNorm
from depthscope.models.prenorm import PreNorm
from depthscope.models.residual import Residual, State

__all__ = [
    "DESIGNS",
    "BlockAttnRes",
    "Decoder",
    "DecoderConfig",
    "DepthMixer",
    "Design",
    "DesignError",
    "FullAttnRes",
    "HiRes",
    "Interface",
    "PreNorm",
    "RMSNorm",
    "Residual",
    "State",
    "residual_from_string",
]
