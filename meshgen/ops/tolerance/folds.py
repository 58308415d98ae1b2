"""Errors of what a region folds: several tensors at once, or by a body of its own (hypot, logaddexp, argmax).

A body that folds each tensor for itself by one plain operation is as many plain reductions, windows or scatters. Any other is
followed: the elements are folded in a tree, with the error of each operation of the body. Another order may take as many steps
as there are elements, and each rounds: what the operations of the body add is counted that often.
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
from meshgen.ops.tolerance.values import Tracked, absolute, exact, spread_bound


def plain_kinds(region: Graph, count: int) -> list[str] | None:
    """Per tensor the operation by which a region folds it for itself; None where it does otherwise."""
    makers = {node.results[0]: node for node in region.nodes if len(node.results) == 1}
    kinds: list[str] = []
    for number, output in enumerate(region.outputs):
        node, own = makers.get(output), (region.inputs[number], region.inputs[count + number])
        if node is None or node.op not in FOLDS or {*node.operands} != {*own}:
            return None
        kinds.append(node.op)
    return kinds if len(kinds) == count else None


def _single_op_region(kind: str, type: TensorType) -> Graph:
    """A region of one operation."""
    region = Graph(kind, [Value(type), Value(type)])
    region.outputs = [region.add(kind, region.inputs, [type]).result]
    return region


def reduce_region(node: Node, operands: list[Tracked], results: list[Array], tf32: bool) -> list[Tracked]:
    region, count = node.regions[0], len(operands) // 2
    if kinds := plain_kinds(region, count):
        found: list[Tracked] = []
        for i, kind in enumerate(kinds):
            ends = [node.operands[i], node.operands[count + i]]
            twin = Node("reduce", ends, [node.results[i]], {"dims": node.attrs.dims, "kind": kind})
            found += sums.reduce(twin, [operands[i], operands[count + i]], [results[i]], tf32)
        return found
    if extremum := extremum_region(node, operands, results):
        return extremum
    dims, rank = tuple(node.attrs.dims), operands[0].value.ndim
    kept = [d for d in range(rank) if d not in dims]
    shape = (math.prod(operands[0].value.shape[d] for d in dims), *(operands[0].value.shape[d] for d in kept))
    rows = [_changed_parts(x, lambda array: array.transpose(*dims, *kept).reshape(shape)) for x in operands[:count]]
    return _followed(region, rows, operands[count:], results, tf32)


def reduce_window(node: Node, operands: list[Tracked], results: list[Array], tf32: bool) -> list[Tracked]:
    region, count = node.regions[0], len(operands) // 2
    if fold_kind(region):
        return sums.reduce_window(node, operands, results, tf32)
    if kinds := plain_kinds(region, count):
        found: list[Tracked] = []
        for i, kind in enumerate(kinds):
            ends, value = [node.operands[i], node.operands[count + i]], node.results[i]
            regions = (_single_op_region(kind, value.type.with_shape(())),)
            twin = Node(node.op, ends, [value], node.attrs, regions=regions)
            found += sums.reduce_window(twin, [operands[i], operands[count + i]], [results[i]], tf32)
        return found
    rows = [_windows(node, *pair) for pair in zip(operands[:count], operands[count:], strict=True)]
    return _followed(region, rows, operands[count:], results, tf32)


def _windows(node: Node, x: Tracked, init: Tracked) -> Tracked:
    """What windows see, place by place in the window."""
    attrs, interior = node.attrs, [d - 1 for d in node.attrs.base_dilations]
    sizes = (attrs.window_dimensions, attrs.window_strides, attrs.window_dilations)

    def seen(array: Array, fill: Array) -> Array:
        padded = pad(array, fill, attrs.low, attrs.high, interior)
        return np.stack([padded[place] for place in window_places(padded.shape, *sizes)])

    error = seen(np.asarray(x.error), np.asarray(init.error))
    return Tracked(seen(x.value, init.value), error, seen(x.magnitude, init.magnitude))


def scatter(node: Node, operands: list[Tracked], results: list[Array], tf32: bool) -> list[Tracked]:
    count = len(operands) // 2
    kinds = plain_kinds(node.regions[0], count) if count > 1 else None
    if kinds is None:
        return sums.scatter(node, operands, results, tf32)
    found: list[Tracked] = []
    for i, kind in enumerate(kinds):
        value, places = node.results[i], (i, count, count + 1 + i)
        region = _single_op_region(kind, value.type.with_shape(()))
        twin = Node(node.op, [node.operands[n] for n in places], [value], node.attrs, regions=(region,))
        found += sums.scatter(twin, [operands[n] for n in places], [results[i]], tf32)
    return found


def select_and_scatter(node: Node, operands: list[Tracked], results: list[Array], tf32: bool) -> list[Tracked]:
    """Sums of the sources whose windows overlap; which element a window selects must be certain."""
    x, source, init = operands
    if fold_kind(node.regions[1]) != "add" or x.is_uncertain:
        return [spread_bound(operands, result) for result in results]
    value, attrs = results[0], node.attrs
    overlap = math.prod(-(-n // s) for n, s in zip(attrs.window_dimensions, attrs.window_strides, strict=True))
    regions = (node.regions[0], _single_op_region("add", TensorType((), "f64")))
    twin = Node(node.op, node.operands, node.results, attrs, regions=regions)
    parts = (
        shadow(twin, [x.value.astype(np.float64), a, b], evaluate)
        for a, b in zip(addends(source), addends(init), strict=True)
    )
    return [summed(value, *parts, terms=overlap + 1, parents=[source, init])]


# Bodies of their own -------------------------------------------------------------------------------------------------


def _followed(
    region: Graph, rows: list[Tracked], inits: list[Tracked], results: list[Array], tf32: bool
) -> list[Tracked]:
    """The fold of rows, the first dim of each, in any order.

    At worst every step passes the errors before it on as the tree does; typically steps add up like a random walk.
    """
    if not all(broadcasts(node.op) for node in region.nodes):
        return [spread_bound([*rows, *inits], result) for result in results]
    terms = rows[0].value.shape[0]
    whole, _ = _tree(region, rows, inits, tf32)
    alone, steps = _tree(region, [exact(x.value) for x in rows], [exact(x.value) for x in inits], tf32)
    found: list[Tracked] = []
    for value, errors, own, step in zip(results, whole, alone, steps, strict=True):
        error = np.broadcast_to(errors.error, value.shape)
        magnitude = np.maximum(absolute(value), np.broadcast_to(errors.magnitude, value.shape))
        if not is_inexact(dtype_name(value.dtype)):
            found.append(Tracked(value, error, magnitude))
            continue
        worst = max(terms - 1, 0) * np.broadcast_to(own.error, value.shape)
        found.append(Tracked(value, error + worst, magnitude, math.sqrt(terms) * np.broadcast_to(step, value.shape)))
    return found


def _tree(
    region: Graph, rows: Sequence[Tracked], inits: Sequence[Tracked], tf32: bool
) -> tuple[list[Tracked], list[Array]]:
    """Halve the rows until one is left, as the evaluator does. Also the greatest error that one step adds, per result."""
    none = [np.zeros(x.value.shape[1:]) for x in rows]
    if rows[0].value.shape[0] == 0:
        return list(inits), none
    steps: list[list[Array]] = [none]
    while (length := rows[0].value.shape[0]) > 1:
        even, odd, rest = slice(0, length // 2 * 2, 2), slice(1, length // 2 * 2, 2), slice(length // 2 * 2, None)
        pairs = [_at(r, even) for r in rows] + [_at(r, odd) for r in rows]
        steps.append([error.max(axis=0) for error in _step_errors(region, pairs, tf32)])
        rows = [_appended_rows(m, _at(r, rest)) for m, r in zip(_applied(region, pairs, tf32), rows, strict=True)]
    last = [*inits, *(_at(r, 0) for r in rows)]
    steps.append(_step_errors(region, last, tf32))
    return _applied(region, last, tf32), [np.maximum.reduce(each) for each in zip(*steps, strict=True)]


def _step_errors(region: Graph, args: Sequence[Tracked], tf32: bool) -> list[Array]:
    """The errors that one application of the body adds."""
    shape = np.broadcast_shapes(*(x.value.shape for x in args))
    return [np.broadcast_to(x.error, shape) for x in _applied(region, [exact(x.value) for x in args], tf32)]


def _applied(region: Graph, args: Sequence[Tracked], tf32: bool) -> list[Tracked]:
    """A body of element-wise operations on whole arrays."""
    values = dict(zip(region.inputs, args, strict=True))
    for node in region.nodes:
        operands = [values[v] for v in node.operands]
        results = evaluate_node(node, [t.value for t in operands])
        rule = OPS[node.op].error
        found = rule(node, operands, results, tf32) if rule else [spread_bound(operands, r) for r in results]
        values.update(zip(node.results, found, strict=True))
    return [values[v] for v in region.outputs]


def _changed_parts(x: Tracked, change: Callable[[Array], Array]) -> Tracked:
    """The same change of the value, the error and the magnitude."""
    error, magnitude = (np.broadcast_to(np.asarray(part), x.value.shape) for part in (x.error, x.magnitude))
    return Tracked(change(x.value), change(error), change(magnitude))


def _at(x: Tracked, place: slice | int) -> Tracked:
    return _changed_parts(x, lambda array: array[place])


def _appended_rows(first: Tracked, second: Tracked) -> Tracked:
    a, b = (_changed_parts(x, lambda array: array) for x in (first, second))
    error, magnitude = np.concatenate([a.error, b.error]), np.concatenate([a.magnitude, b.magnitude])
    return Tracked(np.concatenate([a.value, b.value]), error, magnitude)
