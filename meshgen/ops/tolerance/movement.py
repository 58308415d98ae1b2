"""Error rules of ops that move or sort elements: errors move with their elements if the target positions are certain."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from meshgen.ir.graph import Node, dtype_name, is_complex
from meshgen.ops.evaluate.common import Array
from meshgen.ops.registry import numpy_semantics
from meshgen.ops.tolerance.sums import no_region
from meshgen.ops.tolerance.tracked import Rule, Tracked, absolute, exact, in_f64, unknown


def move(data: int) -> Rule:
    """Return the rule of ops that move the elements of their first `data` operands (-1: all). Other operands are
    indices.
    """

    def rule(node: Node, operands: list[Tracked], results: list[Array], tf32: bool) -> list[Tracked]:
        count = len(operands) if data < 0 else data
        moved, indices = operands[:count], operands[count:]
        if any(t.is_uncertain for t in indices):
            return [_anything_of(moved, results[0])]
        index_values = [t.value for t in indices]
        (error,) = numpy_semantics(node.op)(node, [np.asarray(t.error) for t in moved] + index_values, no_region)
        (magnitude,) = numpy_semantics(node.op)(node, [t.magnitude for t in moved] + index_values, no_region)
        return [Tracked(results[0], error, magnitude)]

    return rule


def identities(node: Node, operands: list[Tracked], results: list[Array], tf32: bool) -> list[Tracked]:
    """Return the operands' errors, for ops that return their operands."""
    return [Tracked(result, t.error, t.magnitude) for t, result in zip(operands, results, strict=True)]


def _anything_of(operands: Sequence[Tracked], result: Array) -> Tracked:
    """Return a bound for a result that may be any element of the operands."""
    if is_complex(dtype_name(result.dtype)):
        return unknown(result)
    values = [in_f64(t) for t in operands if t.value.size]
    low, high = min(v.min() for v in values), max(v.max() for v in values)
    worst = max(float(np.max(t.error)) for t in operands if t.value.size)
    return Tracked(result, np.broadcast_to(high - low + worst, result.shape), absolute(result))


def extremum_region(node: Node, operands: list[Tracked], results: list[Array]) -> list[Tracked] | None:
    """Return the errors of an argmax or argmin.

    The extreme value moves by at most the greatest error of an element. The index is certain if no other element is
    within this distance. Returns None if the operands are exact, or if the region is another one.
    """
    x, count = operands[0], len(operands) // 2
    dims = tuple(node.attrs.dims)
    chosen = results[0].astype(np.float64)
    wide = in_f64(x)
    picks = [wide.max(axis=dims, initial=-np.inf), wide.min(axis=dims, initial=np.inf)]
    if not any(t.is_uncertain for t in operands) or count != 2 or not any((p == chosen).all() for p in picks):
        return None
    worst = np.broadcast_to(np.asarray(x.error), x.value.shape).max(axis=dims, initial=0.0)
    is_candidate = np.abs(wide - np.expand_dims(chosen, dims)) <= 2 * np.expand_dims(worst, dims)
    ties = is_candidate.sum(axis=dims) > 1
    index = np.where(ties & (worst > 0), np.inf, 0.0)
    return [Tracked(results[0], worst, absolute(results[0])), Tracked(results[1], index, absolute(results[1]))]


def in_order(node: Node, operands: list[Tracked], results: list[Array], tf32: bool) -> list[Tracked]:
    """Return the errors of a sort or `top_k`.

    Each sorted element moves by at most the greatest error in its row. If this changes the order, the elements of the
    other operands are reordered as well, so a result element may be any element of its operand.
    """
    dim = node.attrs.get("dim", operands[0].value.ndim - 1)
    if not operands[0].is_uncertain:
        if node.op == "top_k" or not any(t.is_uncertain for t in operands):
            return [exact(result) for result in results]
        return [_anything_of([t], r) for t, r in zip(operands, results, strict=True)]
    worst = np.asarray(operands[0].error).max(axis=dim, keepdims=True, initial=0.0)
    sorted_keys = Tracked(results[0], np.broadcast_to(worst, results[0].shape), absolute(results[0]))
    if node.op == "top_k":
        return [sorted_keys, unknown(results[1])]
    return [sorted_keys, *(_anything_of([t], r) for t, r in zip(operands[1:], results[1:], strict=True))]


def rank_dependent_move(node: Node, operands: list[Tracked], results: list[Array], tf32: bool) -> list[Tracked]:
    """Return the errors of mask_padding, all_slice or to_partial.

    Elements that are not copied from the operand are exact, so its greatest error bounds the entire result.
    """
    worst = float(np.max(operands[0].error)) if operands[0].value.size else 0.0
    reach = float(np.max(operands[0].magnitude, initial=0.0, where=np.isfinite(operands[0].magnitude)))
    magnitude = np.maximum(absolute(results[0]), reach if worst else 0.0)
    return [Tracked(results[0], np.broadcast_to(worst, results[0].shape), magnitude)]
