"""Optimise: less communication for the same result. The list of passes is data; each lives in a file of its own.

A pass is one walk. Some work on the program of one device and run after partition. Whatever it does is checked against the cost model: a module that moves more bytes than before is dropped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from meshgen.ir.definitions import require_defined
from meshgen.ir.graph import Module
from meshgen.sharding.optimizations.cancel_pairs import cancel_pairs
from meshgen.sharding.optimizations.combine import combine
from meshgen.sharding.optimizations.decompose_reductions import decompose_reductions
from meshgen.sharding.optimizations.drop_trivial import drop_trivial
from meshgen.sharding.optimizations.exchange_dims import exchange_dims
from meshgen.sharding.optimizations.fold_reductions import fold_reductions
from meshgen.sharding.optimizations.hoist_invariants import hoist_invariants
from meshgen.sharding.optimizations.hoist_sums import hoist_sums
from meshgen.sharding.optimizations.join_fetches import join_fetches
from meshgen.sharding.optimizations.join_moves import join_moves
from meshgen.sharding.optimizations.merge_duplicates import merge_duplicates
from meshgen.sharding.optimizations.merge_statistics import merge_statistics
from meshgen.sharding.optimizations.narrow_moves import narrow_moves
from meshgen.sharding.optimizations.raise_slices import raise_slices
from meshgen.sharding.optimizations.reassociate import reassociate
from meshgen.sharding.optimizations.replan import replan
from meshgen.sharding.optimizations.rewrite import Pass, total_bytes, without_dead
from meshgen.sharding.optimizations.sink_moves import sink_moves
from meshgen.sharding.optimizations.sink_reductions import sink_reductions
from meshgen.sharding.optimizations.untie_reductions import untie_reductions
from meshgen.sharding.unknown import at_nominal_sizes

_FIRST: tuple[Pass, ...] = (
    drop_trivial,
    merge_duplicates,
    hoist_invariants,
    raise_slices,
    fold_reductions,
    cancel_pairs,
    exchange_dims,
    join_moves,
)
PASSES: tuple[Pass, ...] = (
    *_FIRST,
    replan,
    reassociate,
    sink_moves,
    narrow_moves,
    fold_reductions,
    replan,
    merge_duplicates,
)
LOCAL_PASSES: tuple[Pass, ...] = (
    *_FIRST,
    sink_reductions,
    reassociate,
    hoist_sums,
    sink_moves,
    narrow_moves,
    fold_reductions,
    cancel_pairs,
    decompose_reductions,
    merge_duplicates,
    untie_reductions,
    merge_statistics,
    join_fetches,
    combine,
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
