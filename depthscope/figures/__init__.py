"""Figures: one function each from runs to labelled arrays, and renderers that draw those numbers."""

from depthscope.figures.attention_marks import drawn_kinds
from depthscope.figures.attention_marks import marks_of as attention_marks
from depthscope.figures.bands import bands_note, runs_words
from depthscope.figures.block_boundaries import BoundaryOptions, Show, block_boundaries_data, has_blocks
from depthscope.figures.block_boundaries_axes import (
    boundary_map_limits,
    drawn_as_map,
    left_out_words,
)
from depthscope.figures.block_boundaries_plotly import MOST_RUNS as MOST_BOUNDARY_RUNS
from depthscope.figures.block_boundaries_plotly import block_boundaries_plotly
from depthscope.figures.cell_series import CellSeriesOptions, cell_series_data
from depthscope.figures.cell_series_plotly import cell_series_plotly
from depthscope.figures.depth_attention import (
    PARTS,
    TARGETS,
    VIEWS,
    DepthAttentionOptions,
    Targets,
    View,
    attention_limits,
    depth_attention_data,
    is_difference,
)
from depthscope.figures.depth_attention_plotly import depth_attention_plotly
from depthscope.figures.depth_map import MapOptions, columns_for, depth_map_data, map_log
from depthscope.figures.depth_map_plotly import MOST_MAPS, depth_map_plotly
from depthscope.figures.depth_profile import GRADIENT, ProfileOptions, depth_profile_data, profile_panels
from depthscope.figures.depth_profile_plotly import MOST_LINES, depth_profile_plotly
from depthscope.figures.distant_sources import DistantSource, distant_sources
from depthscope.figures.effect_pairs import EffectPairs, effect_pairs
from depthscope.figures.effect_scatter_plotly import effect_scatter_plotly
from depthscope.figures.effects import (
    AGAINST,
    CUTS,
    NO_EFFECTS,
    Against,
    Cut,
    EffectsOptions,
    effect_limits,
    effects_data,
    paired_words,
    pairs_words,
    sweep_words,
)
from depthscope.figures.effects_plotly import effects_plotly
from depthscope.figures.figure import FIGURES, Figure, drawn_figure, figure, figure_data, list_figures
from depthscope.figures.labelled import Labelled
from depthscope.figures.lens import (
    LENS_SHOWS,
    LENS_VIEWS,
    NO_LENS,
    LensOptions,
    LensShow,
    lens_data,
    lens_words,
)
from depthscope.figures.lens_plotly import MOST_LENS_MAPS, lens_plotly
from depthscope.figures.lens_tokens import LensTokensOptions, lens_tokens_data
from depthscope.figures.lens_tokens_plotly import lens_tokens_plotly, token_limits
from depthscope.figures.limits import RANGES, Limits, Range, limits_of
from depthscope.figures.look import Look
from depthscope.figures.loss import LossOptions, loss_data
from depthscope.figures.loss_plotly import loss_plotly
from depthscope.figures.mixing import (
    SHARE_QUANTITY,
    SHARES,
    MixingMode,
    MixingOptions,
    Share,
    cancellation_top,
    mixing_data,
    mixing_limits,
)
from depthscope.figures.mixing_lines_plotly import mixing_row_plotly, mixing_series_plotly
from depthscope.figures.mixing_plotly import mixing_plotly
from depthscope.figures.mixing_row import MixingRowOptions, mixing_row_data
from depthscope.figures.mixing_series import MixingSeriesOptions, mixing_series_data
from depthscope.figures.names import plotly_text, shortened, told_apart, unambiguous
from depthscope.figures.outer_history import OuterHistoryOptions, outer_history_data
from depthscope.figures.outer_history_plotly import MOST_MAPS as MOST_OUTER_MAPS
from depthscope.figures.outer_history_plotly import outer_line_plotly, outer_map_plotly
from depthscope.figures.outer_marks import MARKS as OUTER_MARKS
from depthscope.figures.outer_state import OuterStateOptions, outer_state_data
from depthscope.figures.outer_state_plotly import outer_state_plotly
from depthscope.figures.paper_figure import (
    PAPER_FIGURES,
    NothingToDraw,
    Panel,
    PaperFigure,
    draw_paper,
    look_up_paper,
    paper_panels,
)
from depthscope.figures.paper_file import PAPER_FORMATS, PaperFormat, paper_bytes
from depthscope.figures.profile_marks import has_design_gaps, profile_marks
from depthscope.figures.readable import ReadableRun
from depthscope.figures.recorded import ALIGNMENTS, Alignment, aligned_step, recorded_steps, shared_losses
from depthscope.figures.sampled import sampled_words
from depthscope.figures.shown import (
    MODES,
    Mode,
    comparison,
    heading,
    is_log_stored,
    is_signed,
    quantity_shown,
)
from depthscope.figures.skip_paths import SkipPathOptions, skip_paths_data
from depthscope.figures.skip_paths_plotly import kinds_drawn as skip_kinds
from depthscope.figures.skip_paths_plotly import skip_paths_plotly
from depthscope.figures.theme import TOKENS, Theme, ThemeName, run_dash, theme
from depthscope.figures.ticks import significant
from depthscope.figures.value_axis import NO_LOGARITHM

__all__ = [
    "AGAINST",
    "ALIGNMENTS",
    "CUTS",
    "FIGURES",
    "GRADIENT",
    "LENS_SHOWS",
    "LENS_VIEWS",
    "MODES",
    "MOST_BOUNDARY_RUNS",
    "MOST_LENS_MAPS",
    "MOST_LINES",
    "MOST_MAPS",
    "MOST_OUTER_MAPS",
    "NO_EFFECTS",
    "NO_LENS",
    "NO_LOGARITHM",
    "OUTER_MARKS",
    "PAPER_FIGURES",
    "PAPER_FORMATS",
    "PARTS",
    "RANGES",
    "SHARES",
    "SHARE_QUANTITY",
    "TARGETS",
    "TOKENS",
    "VIEWS",
    "Against",
    "Alignment",
    "BoundaryOptions",
    "CellSeriesOptions",
    "Cut",
    "DepthAttentionOptions",
    "DistantSource",
    "EffectPairs",
    "EffectsOptions",
    "Figure",
    "Labelled",
    "LensOptions",
    "LensShow",
    "LensTokensOptions",
    "Limits",
    "Look",
    "LossOptions",
    "MapOptions",
    "MixingMode",
    "MixingOptions",
    "MixingRowOptions",
    "MixingSeriesOptions",
    "Mode",
    "NothingToDraw",
    "OuterHistoryOptions",
    "OuterStateOptions",
    "Panel",
    "PaperFigure",
    "PaperFormat",
    "ProfileOptions",
    "Range",
    "ReadableRun",
    "Share",
    "Show",
    "SkipPathOptions",
    "Targets",
    "Theme",
    "ThemeName",
    "View",
    "aligned_step",
    "attention_limits",
    "attention_marks",
    "bands_note",
    "block_boundaries_data",
    "block_boundaries_plotly",
    "boundary_map_limits",
    "cancellation_top",
    "cell_series_data",
    "cell_series_plotly",
    "columns_for",
    "comparison",
    "depth_attention_data",
    "depth_attention_plotly",
    "depth_map_data",
    "depth_map_plotly",
    "depth_profile_data",
    "depth_profile_plotly",
    "distant_sources",
    "draw_paper",
    "drawn_as_map",
    "drawn_figure",
    "drawn_kinds",
    "effect_limits",
    "effect_pairs",
    "effect_scatter_plotly",
    "effects_data",
    "effects_plotly",
    "figure",
    "figure_data",
    "has_blocks",
    "has_design_gaps",
    "heading",
    "is_difference",
    "is_log_stored",
    "is_signed",
    "left_out_words",
    "lens_data",
    "lens_plotly",
    "lens_tokens_data",
    "lens_tokens_plotly",
    "lens_words",
    "limits_of",
    "list_figures",
    "look_up_paper",
    "loss_data",
    "loss_plotly",
    "map_log",
    "mixing_data",
    "mixing_limits",
    "mixing_plotly",
    "mixing_row_data",
    "mixing_row_plotly",
    "mixing_series_data",
    "mixing_series_plotly",
    "outer_history_data",
    "outer_line_plotly",
    "outer_map_plotly",
    "outer_state_data",
    "outer_state_plotly",
    "paired_words",
    "pairs_words",
    "paper_bytes",
    "paper_panels",
    "plotly_text",
    "profile_marks",
    "profile_panels",
    "quantity_shown",
    "recorded_steps",
    "run_dash",
    "runs_words",
    "sampled_words",
    "shared_losses",
    "shortened",
    "significant",
    "skip_kinds",
    "skip_paths_data",
    "skip_paths_plotly",
    "sweep_words",
    "theme",
    "token_limits",
    "told_apart",
    "unambiguous",
]
