"""Passes on the program before propagation: simplifications that always run, and alternatives that give a candidate to
compare.

Example: `cse` always runs. `slice-into-dot` gives a candidate, `dot %x, (slice %w : f32[32,96])`, next to the program
as written.
"""

from __future__ import annotations

from meshgen.codegen.attention.form_attention import form_attention
from meshgen.codegen.passes.loop_recompute import loop_recompute
from meshgen.sharding.optimizations.masked_dot_to_ragged import masked_dot_to_ragged
from meshgen.sharding.rewrites.concatenate_sink import concatenate_sink
from meshgen.sharding.rewrites.cse import cse
from meshgen.sharding.rewrites.fold_identities import fold_identities
from meshgen.sharding.rewrites.inner_product_unflatten import inner_product_unflatten
from meshgen.sharding.rewrites.iota_gather_to_batch import iota_gather_to_batch
from meshgen.sharding.rewrites.pad_sum_to_concatenate import pad_sum_to_concatenate
from meshgen.sharding.rewrites.scatter_drop_zero_indices import scatter_drop_zero_indices
from meshgen.sharding.rewrites.slice_into_dot import slice_into_dot
from meshgen.sharding.rewrites.slice_into_pad import slice_into_pad
from meshgen.sharding.rewrites.window_to_reduce import window_to_reduce

SIMPLIFICATIONS = (
    fold_identities,
    pad_sum_to_concatenate,
    iota_gather_to_batch,
    scatter_drop_zero_indices,
    window_to_reduce,
    cse,
    masked_dot_to_ragged,
    loop_recompute,
    form_attention,
)
ALTERNATIVES = (
    inner_product_unflatten,
    concatenate_sink,
    slice_into_pad,
    slice_into_dot,
)
