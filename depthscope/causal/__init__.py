"""Interventions on a trained model: what a source, a sublayer or an outer state does to the loss, and lenses into depth.

A routing weight describes; only an intervention shows an effect. Everything here acts on a deep copy in evaluation
mode; nnsight, which carries the interventions, is loaded by the first of them.

    from depthscope import causal
    from depthscope.store import sweep_path

    effects = causal.ablate_sources(model, batches, path=sweep_path(run.path, "sources"), about={"step": 5000})
    effects["effect"].sel(target=7)             # nats a token, positive where the cut hurts

    subject = causal.Subject.of(model, (tokens,))
    lens = causal.logit_lens(subject, causal.batch_of(tokens))

A mean over few batches is uncertain: read ``effect`` together with ``effect_interval``.
"""

from depthscope.causal.attribution import Attribution, attribute_logits
from depthscope.causal.batch import Batch, batch_of, batches_of, iterate
from depthscope.causal.block_reset import boundaries, carry_across
from depthscope.causal.choose_sources import depth_sources
from depthscope.causal.depth_sources import DepthSources
from depthscope.causal.error import BatchError, CausalError
from depthscope.causal.intervention import NOTHING, Edit, Intervention, Skip
from depthscope.causal.lenses import measure_lenses
from depthscope.causal.logit_lens import LogitLens, logit_lens
from depthscope.causal.measure import ablate_sources, knock_out, measure_effects, plan_of
from depthscope.causal.outer_state import cut_outer_extra, cut_outer_read, cut_outer_write
from depthscope.causal.patch import patch_state, state_ports
from depthscope.causal.plan import Kind, Plan
from depthscope.causal.replacing import MODES, Mode, default_mode
from depthscope.causal.rows import losses_under
from depthscope.causal.similarity import block_influence, linear_cka
from depthscope.causal.subject import Subject
from depthscope.causal.sublayers import replace_write, skip_sublayer
from depthscope.causal.sweep import sweep
from depthscope.causal.values import Values

__all__ = [
    "MODES",
    "NOTHING",
    "Attribution",
    "Batch",
    "BatchError",
    "CausalError",
    "DepthSources",
    "Edit",
    "Intervention",
    "Kind",
    "LogitLens",
    "Mode",
    "Plan",
    "Skip",
    "Subject",
    "Values",
    "ablate_sources",
    "attribute_logits",
    "batch_of",
    "batches_of",
    "block_influence",
    "boundaries",
    "carry_across",
    "cut_outer_extra",
    "cut_outer_read",
    "cut_outer_write",
    "default_mode",
    "depth_sources",
    "iterate",
    "knock_out",
    "linear_cka",
    "logit_lens",
    "losses_under",
    "measure_effects",
    "measure_lenses",
    "patch_state",
    "plan_of",
    "replace_write",
    "skip_sublayer",
    "state_ports",
    "sweep",
]
