"""Error rules of reductions with a region: of several tensors at once, or with a composite body (hypot, logaddexp,
argmax).

A body that folds each tensor separately with a single op is equivalent to one plain reduction, window or scatter per
tensor. For any other body, the elements are folded in a tree, with the error of each op of the body. Another order
may take as many steps as there are elements, and each step rounds. The errors that the body adds are therefore
multiplied by the number of elements.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from meshgen.ir.graph import Graph, Node, TensorType, Value, dtype_name, is_inexact
from meshgen.ops.evaluate.common import Array
from meshgen.ops.evaluate.evaluator import evaluate, evaluate_node
from meshgen.ops.evaluate.structure import pad
from meshgen.ops.evaluate.window import FOLDS, fold_kind, window_places
from meshgen.ops.registry import OPS, broadcasts
from meshgen.ops.tolerance import sums
from meshgen.ops.tolerance.movement import extremum_region
from meshgen.ops.tolerance.sums import addends, shadow, summed
from meshgen.ops.tolerance.tracked import Tracked, absolute, default_bound, exact


def plain_kinds(region: Graph, count: int) -> list[str] | None:
    """Return, for each tensor, the op with which a region folds it.

    Returns None if the region has other ops, or combines elements of different tensors.
    """
    producers = {node.results[0]: node for node in region.nodes if len(node.results) == 1}
    kinds: list[str] = []
    for index, output in enumerate(region.outputs):
        node, tensor_inputs = producers.get(output), (region.inputs[index], region.inputs[count + index])
        if node is None or node.op not in FOLDS or {*node.operands} != {*tensor_inputs}:
            return None
        kinds.append(node.op)
    return kinds if len(kinds) == count else None


def _single_op_region(kind: str, type: TensorType) -> Graph:
    """Return a region with a single binary op of kind `kind` on its two inputs."""
    region = Graph(kind, [Value(type), Value(type)])
    region.outputs = [region.add(kind, region.inputs, [type]).result]
    return region


def reduce_region(node: Node, operands: list[Tracked], results: list[Array], tf32: bool) -> list[Tracked]:
    region, count = node.regions[0], len(operands) // 2
    if kinds := plain_kinds(region, count):
        tracked_results: list[Tracked] = []
        for i, kind in enumerate(kinds):
            ends = [node.operands[i], node.operands[count + i]]
            twin = Node("reduce", ends, [node.results[i]], {"dims": node.attrs.dims, "kind": kind})
            tracked_results += sums.reduce(twin, [operands[i], operands[count + i]], [results[i]], tf32)
        return tracked_results
    if extremum := extremum_region(node, operands, results):
        return extremum
    dims, rank = tuple(node.attrs.dims), operands[0].value.ndim
    kept_dims = [d for d in range(rank) if d not in dims]
    shape = (math.prod(operands[0].value.shape[d] for d in dims), *(operands[0].value.shape[d] for d in kept_dims))
    rows = [
        _changed_parts(x, lambda array: array.transpose(*dims, *kept_dims).reshape(shape)) for x in operands[:count]
    ]
    return _tree_fold_bound(region, rows, operands[count:], results, tf32)


def reduce_window(node: Node, operands: list[Tracked], results: list[Array], tf32: bool) -> list[Tracked]:
    region, count = node.regions[0], len(operands) // 2
    if fold_kind(region):
        return sums.reduce_window(node, operands, results, tf32)
    if kinds := plain_kinds(region, count):
        tracked_results: list[Tracked] = []
        for i, kind in enumerate(kinds):
            ends, value = [node.operands[i], node.operands[count + i]], node.results[i]
            regions = (_single_op_region(kind, value.type.with_shape(())),)
            twin = Node(node.op, ends, [value], node.attrs, regions=regions)
            tracked_results += sums.reduce_window(twin, [operands[i], operands[count + i]], [results[i]], tf32)
        return tracked_results
    rows = [_windows(node, *pair) for pair in zip(operands[:count], operands[count:], strict=True)]
    return _tree_fold_bound(region, rows, operands[count:], results, tf32)


def _windows(node: Node, x: Tracked, init: Tracked) -> Tracked:
    """Return the elements of all windows, stacked by their offset inside the window."""
    attrs, interior = node.attrs, [d - 1 for d in node.attrs.base_dilations]
    sizes = (attrs.window_dimensions, attrs.window_strides, attrs.window_dilations)

    def window_elements(array: Array, fill: Array) -> Array:
        padded = pad(array, fill, attrs.low, attrs.high, interior)
        return np.stack([padded[offset] for offset in window_places(padded.shape, *sizes)])

    error = window_elements(np.asarray(x.error), np.asarray(init.error))
    return Tracked(window_elements(x.value, init.value), error, window_elements(x.magnitude, init.magnitude))


def scatter(node: Node, operands: list[Tracked], results: list[Array], tf32: bool) -> list[Tracked]:
    count = len(operands) // 2
    kinds = plain_kinds(node.regions[0], count) if count > 1 else None
    if kinds is None:
        return sums.scatter(node, operands, results, tf32)
    tracked_results: list[Tracked] = []
    for i, kind in enumerate(kinds):
        value, operand_indices = node.results[i], (i, count, count + 1 + i)
        region = _single_op_region(kind, value.type.with_shape(()))
        twin = Node(
            node.op,
            [node.operands[operand_index] for operand_index in operand_indices],
            [value],
            node.attrs,
            regions=(region,),
        )
        tracked_results += sums.scatter(
            twin, [operands[operand_index] for operand_index in operand_indices], [results[i]], tf32
        )
    return tracked_results


def select_and_scatter(node: Node, operands: list[Tracked], results: list[Array], tf32: bool) -> list[Tracked]:
    """Return the error of the sums of sources whose windows overlap. The selected elements must be certain."""
    x, source, init = operands
    if fold_kind(node.regions[1]) != "add" or x.is_uncertain:
        return [default_bound(operands, result) for result in results]
    value, attrs = results[0], node.attrs
    overlap = math.prod(-(-n // s) for n, s in zip(attrs.window_dimensions, attrs.window_strides, strict=True))
    regions = (node.regions[0], _single_op_region("add", TensorType((), "f64")))
    twin = Node(node.op, node.operands, node.results, attrs, regions=regions)
    parts = (
        shadow(twin, [x.value.astype(np.float64), a, b], evaluate)
        for a, b in zip(addends(source), addends(init), strict=True)
    )
    return [summed(value, *parts, terms=overlap + 1, parents=[source, init])]


# Composite bodies -----------------------------------------------------------------------------------------------------


def _tree_fold_bound(
    region: Graph, rows: list[Tracked], inits: list[Tracked], results: list[Array], tf32: bool
) -> list[Tracked]:
    """Return the error of a fold over the first dim of `rows`, in any order.

    The errors propagated from the operands are those of a fold in a tree. The errors that the fold steps add grow
    linearly with the number of steps in the worst case, and typically like a random walk.
    """
    if not all(broadcasts(node.op) for node in region.nodes):
        return [default_bound([*rows, *inits], result) for result in results]
    terms = rows[0].value.shape[0]
    with_errors, _ = _tree(region, rows, inits, tf32)
    without_errors, steps = _tree(region, [exact(x.value) for x in rows], [exact(x.value) for x in inits], tf32)
    tracked_results: list[Tracked] = []
    for value, errors, added, step in zip(results, with_errors, without_errors, steps, strict=True):
        error = np.broadcast_to(errors.error, value.shape)
        magnitude = np.maximum(absolute(value), np.broadcast_to(errors.magnitude, value.shape))
        if not is_inexact(dtype_name(value.dtype)):
            tracked_results.append(Tracked(value, error, magnitude))
            continue
        worst = max(terms - 1, 0) * np.broadcast_to(added.error, value.shape)
        tracked_results.append(
            Tracked(value, error + worst, magnitude, math.sqrt(terms) * np.broadcast_to(step, value.shape))
        )
    return tracked_results


def _tree(
    region: Graph, rows: Sequence[Tracked], inits: Sequence[Tracked], tf32: bool
) -> tuple[list[Tracked], list[Array]]:
    """Combine pairs of rows, level by level, until a single row is left, as the evaluator does.

    Returns this row, and for each result the greatest error that a fold step adds.
    """
    no_errors = [np.zeros(x.value.shape[1:]) for x in rows]
    if rows[0].value.shape[0] == 0:
        return list(inits), no_errors
    steps: list[list[Array]] = [no_errors]
    while (length := rows[0].value.shape[0]) > 1:
        even, odd, remainder = slice(0, length // 2 * 2, 2), slice(1, length // 2 * 2, 2), slice(length // 2 * 2, None)
        pairs = [_at(r, even) for r in rows] + [_at(r, odd) for r in rows]
        steps.append([error.max(axis=0) for error in _step_errors(region, pairs, tf32)])
        rows = [
            _appended_rows(m, _at(r, remainder)) for m, r in zip(_apply_body(region, pairs, tf32), rows, strict=True)
        ]
    last_operands = [*inits, *(_at(r, 0) for r in rows)]
    steps.append(_step_errors(region, last_operands, tf32))
    return _apply_body(region, last_operands, tf32), [np.maximum.reduce(errors) for errors in zip(*steps, strict=True)]


def _step_errors(region: Graph, args: Sequence[Tracked], tf32: bool) -> list[Array]:
    """Return the errors that the ops of the body add when the body is applied once, to exact operands."""
    shape = np.broadcast_shapes(*(x.value.shape for x in args))
    return [np.broadcast_to(x.error, shape) for x in _apply_body(region, [exact(x.value) for x in args], tf32)]


def _apply_body(region: Graph, args: Sequence[Tracked], tf32: bool) -> list[Tracked]:
    """Apply a body of element-wise operations to entire arrays."""
    values = dict(zip(region.inputs, args, strict=True))
    for node in region.nodes:
        operands = [values[v] for v in node.operands]
        results = evaluate_node(node, [t.value for t in operands])
        rule = OPS[node.op].error
        tracked_results = rule(node, operands, results, tf32) if rule else [default_bound(operands, r) for r in results]
        values.update(zip(node.results, tracked_results, strict=True))
    return [values[v] for v in region.outputs]


def _changed_parts(x: Tracked, change: Callable[[Array], Array]) -> Tracked:
    """Return a tracked value with `change` applied to its value, its error and its magnitude."""
    error, magnitude = (np.broadcast_to(np.asarray(part), x.value.shape) for part in (x.error, x.magnitude))
    return Tracked(change(x.value), change(error), change(magnitude))


def _at(x: Tracked, index: slice | int) -> Tracked:
    return _changed_parts(x, lambda array: array[index])


def _appended_rows(first: Tracked, second: Tracked) -> Tracked:
    a, b = (_changed_parts(x, lambda array: array) for x in (first, second))
    error, magnitude = np.concatenate([a.error, b.error]), np.concatenate([a.magnitude, b.magnitude])
    return Tracked(np.concatenate([a.value, b.value]), error, magnitude)
