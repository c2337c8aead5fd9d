"""The pages, one file each, in the order of their tabs; a page that does not exist yet has no tab."""

from depthscope.app.page import Page
from depthscope.app.pages.block_boundaries import BLOCK_BOUNDARIES
from depthscope.app.pages.depth_attention import DEPTH_ATTENTION
from depthscope.app.pages.depth_profile import DEPTH_PROFILE
from depthscope.app.pages.lens import LENS_PAGE
from depthscope.app.pages.mixing import MIXING
from depthscope.app.pages.outer_state import OUTER_STATE
from depthscope.app.pages.overview import OVERVIEW
from depthscope.app.pages.run_detail import RUN_DETAIL
from depthscope.app.pages.skip_paths import SKIP_PATHS

PAGES: tuple[Page, ...] = (
    OVERVIEW,
    DEPTH_PROFILE,
    BLOCK_BOUNDARIES,
    DEPTH_ATTENTION,
    SKIP_PATHS,
    MIXING,
    OUTER_STATE,
    LENS_PAGE,
    RUN_DETAIL,
)

__all__ = ["PAGES"]
