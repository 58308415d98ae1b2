"""The order of the passes that reduce communication without changing the result. Each pass has its own file.

A pass is one walk over the program. All passes work on values with shardings (after `materialize`) or on the program of
one device (after `partition`); a few work on the latter only. A pass that increases the bytes that a device sends is
rejected, and its record says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from meshgen.compilation import Compilation, Pass
from meshgen.ir.graph import Module
from meshgen.ops.dead_code import without_dead
from meshgen.sharding.optimizations.all_gather_sink import all_gather_sink
from meshgen.sharding.optimizations.all_reduce_fold import all_reduce_fold
from meshgen.sharding.optimizations.all_reduce_reassociate import all_reduce_reassociate
from meshgen.sharding.optimizations.all_reduce_sink import all_reduce_sink
from meshgen.sharding.optimizations.all_reduce_untie import all_reduce_untie
from meshgen.sharding.optimizations.cancel_inverse_collectives import cancel_inverse_collectives
from meshgen.sharding.optimizations.canonicalize_collectives import canonicalize_collectives
from meshgen.sharding.optimizations.collective_chain_fold import collective_chain_fold
from meshgen.sharding.optimizations.collective_combine import collective_combine
from meshgen.sharding.optimizations.collective_cse import collective_cse
from meshgen.sharding.optimizations.collective_licm import collective_licm
from meshgen.sharding.optimizations.convert_sink import convert_sink
from meshgen.sharding.optimizations.fetch_combine import fetch_combine
from meshgen.sharding.optimizations.gather_slice_to_all_to_all import gather_slice_to_all_to_all
from meshgen.sharding.optimizations.loop_reduce_hoist import loop_reduce_hoist
from meshgen.sharding.optimizations.masked_dot_to_ragged import masked_dot_to_ragged
from meshgen.sharding.optimizations.ragged_drop_all_reduce import ragged_drop_all_reduce
from meshgen.sharding.optimizations.reshard_replan import reshard_replan
from meshgen.sharding.optimizations.slice_hoist import slice_hoist
from meshgen.sharding.optimizations.softmax_in_one_read import softmax_in_one_read
from meshgen.sharding.optimizations.walk import total_bytes
from meshgen.sharding.unknown_axes import at_nominal_sizes

_FIRST = (
    canonicalize_collectives,
    collective_cse,
    collective_licm,
    slice_hoist,
    all_reduce_fold,
    cancel_inverse_collectives,
    gather_slice_to_all_to_all,
    collective_chain_fold,
)
PASSES = (
    *_FIRST,
    reshard_replan,
    all_reduce_reassociate,
    all_gather_sink,
    convert_sink,
    all_reduce_fold,
    reshard_replan,
    collective_cse,
)
LOCAL_PASSES = (
    masked_dot_to_ragged,
    ragged_drop_all_reduce,
    softmax_in_one_read,
    *_FIRST,
    all_reduce_sink,
    all_reduce_reassociate,
    loop_reduce_hoist,
    all_gather_sink,
    convert_sink,
    all_reduce_fold,
    cancel_inverse_collectives,
    collective_cse,
    all_reduce_untie,
    fetch_combine,
    collective_combine,
)


@at_nominal_sizes
def optimize(module: Module, context: Compilation | None = None) -> Module:
    """Return the module after the passes that reduce communication; it never sends more bytes than before.

    Args:
        module: at stage `materialize`, or at stage `partition`, which runs the passes for local types.
    """
    module = replace(module, graph=without_dead(module.graph))
    if module.stage == "partition":
        return optimize_local(module, context)
    return replace(_improved(module, PASSES, context), stage="optimize")


def optimize_local(module: Module, context: Compilation | None = None) -> Module:
    """Return the partitioned program after the passes that work on local values."""
    return _improved(module, LOCAL_PASSES, context)


def _improved(module: Module, passes: Sequence[Pass], context: Compilation | None) -> Module:
    def bytes_sent(program: Module) -> float:
        return total_bytes(program.graph, program.mesh)

    return (context or Compilation()).apply(module, passes, bytes_sent, "B")
