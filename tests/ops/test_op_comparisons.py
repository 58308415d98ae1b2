"""Check that each file compares `node.op` only with the ops declared for that file; other facts come from op records."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import pytest

from meshgen.ops.registry import OPS
from tests.sources import FILES, PACKAGE, lines_of, nodes_of, refuse

FREE = ("ops", "mlir", "testing", "emulator")
"""Packages that may compare any op: they define, print or generate ops; the emulator's ops are PTX instructions."""
PSEUDO_OPS = "input output carry decision branch_argument branch_result manual_operand manual_result"
Nodes = Callable[[Any], Iterable[Any]]  # returns the AST nodes of one type in a file
NAMES = {*OPS, "call", *PSEUDO_OPS.split()}
ABOUT = {
    "benchmarks/xla.py": "all_gather all_reduce all_to_all reduce_scatter",
    "ccl/simulated.py": "recv send",
    "codegen/scheduling/collect.py": "all_gather all_reduce all_to_all broadcast reduce_scatter reduce_to",
    "codegen/emit/eval.py": "constant iota process_index to_partial",
    "codegen/emit/index_maps.py": "all_slice mask_padding pad",
    "codegen/emit/gather_concat.py": "bitcast_convert",
    "codegen/emit/concat_ranges.py": "concatenate",
    "codegen/emit/reduced_tile.py": "convert multiply",
    "codegen/emit/recurrence.py": "recurrence",
    "codegen/emit/plan.py": "broadcast_in_dim",
    "codegen/emit/dot_problem.py": "ragged_dot",
    "codegen/emit/ragged.py": "ragged_dot",
    "codegen/fuse.py": "join",
    "codegen/fusion/producer_absorption.py": "recurrence reduce_region scatter",
    "codegen/fusion/accumulators.py": "add",
    "codegen/fusion/row_passes.py": "broadcast_in_dim exponential subtract",
    "codegen/fusion/layout_indices.py": "broadcast_in_dim mask_padding reshape reverse slice transpose windows",
    "codegen/fusion/space.py": "mask_padding reshape reverse transpose",
    "codegen/missing_kernels.py": "recurrence",
    "codegen/scheduling/messages.py": "recv send",
    "codegen/roofline/nest_work.py": "recurrence reduce_region reduce_window scatter select_and_scatter sort top_k",
    "codegen/passes/scan_vectorization.py": "pad",
    "codegen/passes/canonicalize.py": "broadcast_in_dim",
    "codegen/passes/collective_outermost_dim.py": "all_gather all_to_all reduce_scatter retile",
    "codegen/passes/concatenate_in_place.py": "all_gather concatenate",
    "codegen/passes/concatenate_to_group_call.py": "broadcast_in_dim concatenate slice subview",
    "codegen/passes/copy_operands.py": "dot_general transpose",
    "codegen/passes/expand_complex.py": "add dynamic_update_slice mask_padding negate select select_and_scatter sort subtract to_partial top_k",
    "codegen/passes/fetch_drop_local_rows.py": "fetch_rows",
    "codegen/passes/loop_fission.py": "add",
    "codegen/passes/loop_unroll.py": "dynamic_update_slice",
    "codegen/passes/loop_to_scan.py": "dynamic_slice dynamic_update_slice",
    "codegen/passes/reduce_window_to_slices.py": "reduce_window",

    "codegen/passes/scatter_to_rows.py": "scatter",
    "codegen/passes/row_indexing.py": "concatenate",
    "codegen/passes/scatter_to_select.py": "scatter",
    "codegen/passes/softmax_rows.py": "broadcast_in_dim convert exponential gather reshape subtract",
    "codegen/passes/slice_to_subview.py": "slice",
    "codegen/passes/transpose_before_reduce.py": "transpose",
    "codegen/passes/transpose_into_dot.py": "dot_general transpose",
    "codegen/scheduling/storages.py": "join subview",
    "ir/group_calls.py": "all_gather all_reduce reduce_scatter",
    "frontend/opening/program.py": "bitcast_convert convert dynamic_slice",
    "ir/loops.py": "add compare constant convert",
    "ir/matchers.py": "broadcast_in_dim reshape transpose",
    "ir/predicates.py": "annotate call constant if kernel manual optimization_barrier propagation_barrier scan sharding_group transfer_recv transfer_send while",
    "reports/advice_order.py": "slice",
    "reports/fusion.py": "join",
    "runtime/in_place.py": "dynamic_update_slice mask_padding update_in_place",
    "runtime/validation/structure.py": "recv",
    "sharding/partitioners/attention.py": "convert",
    "sharding/rewrites/expand_attention.py": "attention",
    "codegen/attention/forward.py": "divide multiply",
    "codegen/attention/layouts.py": "broadcast_in_dim convert reshape transpose",
    "codegen/attention/log_sums.py": "reshape transpose",
    "codegen/attention/recognition.py": "broadcast_in_dim convert divide exponential is_finite mask_padding maximum multiply negate reshape select subtract",
    "codegen/emit/attention_functions.py": "convert divide multiply tanh",
    "codegen/emit/attention_gradient.py": "convert",
    "codegen/emit/attention_operands.py": "convert mask_padding slice",
    "codegen/fusion/attention_bounds.py": "add compare multiply process_index",
    "codegen/fusion/attention_loops.py": "convert mask_padding select",
    "codegen/fusion/specialize.py": "add and constant divide maximum minimum multiply or select subtract",
    "codegen/attention/upstream_indices.py": "convert",
    "codegen/attention/scalar_regions.py": "convert iota mask_padding multiply",
    "codegen/attention/users.py": "convert reshape transpose",
    "sharding/optimizations/all_gather_sink.py": "all_gather",
    "sharding/optimizations/all_reduce_fold.py": "all_gather all_reduce reduce_scatter",
    "sharding/optimizations/all_reduce_reassociate.py": "all_reduce broadcast_in_dim constant divide multiply negate reduce_scatter select",
    "sharding/optimizations/all_reduce_sink.py": "all_reduce",
    "sharding/optimizations/all_reduce_untie.py": "add all_reduce multiply subtract",
    "sharding/optimizations/cancel_inverse_collectives.py": "all_to_all",
    "sharding/optimizations/canonicalize_collectives.py": "shift update_halo",
    "sharding/optimizations/collective_chain_fold.py": "all_gather all_slice shift",
    "sharding/optimizations/collective_combine.py": "all_gather all_reduce",
    "sharding/optimizations/convert_sink.py": "convert",
    "sharding/optimizations/fetch_combine.py": "fetch_rows",
    "sharding/optimizations/gather_slice_to_all_to_all.py": "all_gather",
    "sharding/optimizations/loop_reduce_hoist.py": "subtract transpose",
    "sharding/optimizations/masked_dot_to_ragged.py": "add and compare concatenate convert dot_general iota pad select slice transpose",
    "sharding/optimizations/messages.py": "all_gather all_reduce",
    "sharding/optimizations/group_row_uses.py": "ragged_dot",
    "sharding/optimizations/ragged_drop_all_reduce.py": "all_gather all_reduce all_slice reduce_scatter",
    "sharding/optimizations/slice_hoist.py": "all_gather all_reduce all_slice reduce_scatter",
    "sharding/optimizations/softmax_in_one_read.py": "all_reduce broadcast_in_dim exponential mask_padding reduce reshape subtract",
    "sharding/optimizations/loops_on_tiles.py": "select slice",
    "sharding/partitioners/concatenation_rows.py": "slice",
    "sharding/partitioners/legality.py": "iota",
    "sharding/partitioners/scans.py": "broadcast_in_dim",
    "sharding/candidates/fft_pencils.py": "fft",
    "sharding/propagation/edges.py": "ragged_dot",
    "sharding/propagation/pseudo_ops.py": "carry input manual_operand manual_result output",
    "sharding/propagation/sites.py": "fft",
    "sharding/propagation/splats.py": "broadcast_in_dim",
    "sharding/rewrites/program_cost.py": "concatenate select",
    "sharding/rewrites/concatenate_sink.py": "concatenate pad reverse slice",
    "sharding/rewrites/constant_positions.py": "dynamic_update_slice scatter",
    "sharding/rewrites/cse.py": "reduce_window slice",
    "sharding/rewrites/fft_to_pencils.py": "fft",
    "sharding/rewrites/fold_identities.py": "broadcast_in_dim concatenate reshape reverse slice",
    "sharding/rewrites/frames.py": "broadcast_in_dim concatenate dot_general gather iota pad reduce reshape scatter slice transpose",
    "sharding/rewrites/inner_product_unflatten.py": "dot_general reshape",
    "sharding/rewrites/iota_gather_to_batch.py": "broadcast_in_dim compare concatenate convert gather iota reshape scatter select transpose",
    "sharding/rewrites/pad_sum_to_concatenate.py": "add concatenate pad",
    "sharding/rewrites/row_views.py": "broadcast_in_dim constant",
    "sharding/rewrites/scatter_drop_zero_indices.py": "scatter",
    "sharding/rewrites/slice_into_dot.py": "slice",
    "sharding/rewrites/slice_into_pad.py": "pad slice",
    "sharding/rewrites/slice_to_halo.py": "concatenate dynamic_update_slice gather iota pad reduce scatter",
    "sharding/rewrites/window_to_reduce.py": "reduce_window",
    "sharding/window_fetches.py": "concatenate slice",
    "sizes/program.py": "axis_size bitcast_convert broadcast_in_dim convert reshape",
    "sizes/size_ops.py": "axis_size get_dimension_size shape_assertion",
    "sizes/size_classes.py": "bitcast_convert broadcast_in_dim dynamic_update_slice transpose",
}  # fmt: skip


def _names(value: ast.AST, lists: dict[str, ast.expr]) -> set[str]:
    """Return the op names in an expression, which may refer to `lists` of names defined in the same file."""
    names: set[str] = set()
    for node in ast.walk(value):
        if isinstance(node, ast.Constant) and node.value in NAMES:
            names.add(str(node.value))
        elif isinstance(node, ast.Name) and node.id in lists:
            names |= _names(lists[node.id], {name: entries for name, entries in lists.items() if name != node.id})
    return names


def _is_op(side: ast.expr) -> bool:
    return isinstance(side, ast.Attribute) and side.attr == "op"


def compared(nodes: Nodes) -> set[str]:
    """Return the op names that a file compares with an attribute `op`, including names in its lists and in `match`."""
    lists: dict[str, ast.expr] = {}
    for node in nodes(ast.Assign):
        lists |= {target.id: node.value for target in node.targets if isinstance(target, ast.Name)}
    names: set[str] = set()
    for node in nodes(ast.Compare):
        if any(map(_is_op, [node.left, *node.comparators])):
            names |= _names(node, lists)
    for node in nodes(ast.Match):
        if _is_op(node.subject):
            names = names.union(*(_names(case.pattern, lists) for case in node.cases))
    return names


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ('node.op == "add"', {"add"}),
        ('"add" != node.op', {"add"}),
        ('node.op in ("add", *OTHERS)', {"add"}),
        ('_SUMS = ("add",)\n_MORE = {*_SUMS, "subtract"}\nnode.op in _MORE', {"add", "subtract"}),
        ('def f(node):\n    sums = ("add",)\n    return node.op in sums', {"add"}),
        ('match node.op:\n    case "add" | "subtract": ...', {"add", "subtract"}),
        ("from meshgen.ops.classes import VIEWS\nnode.op in VIEWS", set()),
        ("_READ = POINTWISE | LAYOUT\nnode.op in _READ", set()),
        ('node.attrs["kind"] == "add"', set()),
        ("first.op == second.op", set()),
    ],
)
def test_compared_collects_op_names(source: str, names: set[str]) -> None:
    nodes = list(ast.walk(ast.parse(source)))
    assert compared(lambda kind: [node for node in nodes if isinstance(node, kind)]) == names


def _found() -> dict[str, set[str]]:
    paths = {path.relative_to(PACKAGE): path for path in FILES if any(".op" in line for line in lines_of(path))}
    tables = {
        file.as_posix(): compared(partial(nodes_of, path)) for file, path in paths.items() if file.parts[0] not in FREE
    }
    return {file: names for file, names in tables.items() if names}


def test_files_compare_ops_only_with_declared_names() -> None:
    """`ABOUT` must list exactly the ops that each file compares."""
    comparisons = _found()
    allowed = {file: {*names.split()} for file, names in ABOUT.items()}
    refuse(
        [
            f"{file}: compares ops with {sorted(comparisons.get(file, set()))}, is about {sorted(allowed.get(file, set()))}"
            for file in sorted({*comparisons, *allowed})
            if comparisons.get(file, set()) != allowed.get(file, set())
        ]
    )
