"""Optimise: less communication for the same result. The list of passes is data; each lives in a file of its own.

A pass is one walk. Some work on the program of one device and run after partition. Whatever it does is checked against the cost model: a module that moves more bytes than before is dropped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from meshgen.ir.definitions import require_defined
from meshgen.ir.graph import Module
from meshgen.sharding.optimizations.all_gather_sink import all_gather_sink
from meshgen.sharding.optimizations.all_reduce_decompose import all_reduce_decompose
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
from meshgen.sharding.optimizations.mean_variance_merge import mean_variance_merge
from meshgen.sharding.optimizations.reshard_replan import reshard_replan
from meshgen.sharding.optimizations.rewrite import Pass, total_bytes, without_dead
from meshgen.sharding.optimizations.slice_hoist import slice_hoist
from meshgen.sharding.unknown import at_nominal_sizes

_FIRST: tuple[Pass, ...] = (
    canonicalize_collectives,
    collective_cse,
    collective_licm,
    slice_hoist,
    all_reduce_fold,
    cancel_inverse_collectives,
    gather_slice_to_all_to_all,
    collective_chain_fold,
)
PASSES: tuple[Pass, ...] = (
    *_FIRST,
    reshard_replan,
    all_reduce_reassociate,
    all_gather_sink,
    convert_sink,
    all_reduce_fold,
    reshard_replan,
    collective_cse,
)
LOCAL_PASSES: tuple[Pass, ...] = (
    *_FIRST,
    all_reduce_sink,
    all_reduce_reassociate,
    loop_reduce_hoist,
    all_gather_sink,
    convert_sink,
    all_reduce_fold,
    cancel_inverse_collectives,
    all_reduce_decompose,
    collective_cse,
    all_reduce_untie,
    mean_variance_merge,
    fetch_combine,
    collective_combine,
)  # on local values, after partition: what is written per device (manual computations too) meets all of these


@at_nominal_sizes
def optimize(module: Module) -> Module:
    """The module with less and better placed communication, never more.

    Args:
        module: at stage materialize; a program with local types (stage partition) gets the rules that need no sharding.
    """
    module = replace(module, graph=without_dead(module.graph))
    module = _improved(module, LOCAL_PASSES if module.stage == "partition" else PASSES)
    return replace(module, stage="optimize" if module.stage == "materialize" else module.stage)


def optimize_local(module: Module) -> Module:
    """The program that `partition` wrote with what is seen best on local values: fewer, larger messages."""
    return _improved(module, LOCAL_PASSES)


def _improved(module: Module, passes: Sequence[Pass]) -> Module:
    """The module after those of the passes that do not move more."""
    moved = total_bytes(module.graph, module.mesh)
    for optimization in passes:
        found = optimization(module)
        if found is module:
            continue
        require_defined(found, optimization.__name__)
        after = total_bytes(found.graph, module.mesh)
        if after <= moved:
            module, moved = found, after
    return module
