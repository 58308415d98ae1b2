"""Accumulators of a kernel that computes several GEMMs with equal tiles.

    d = a b + c e + f g        one accumulator: each GEMM continues the main loop of the GEMM before it
    y = silu(a b) * (a c)      two accumulators, one main loop: each iteration loads the tile of a once
    y = silu(a b) * (c e)      two accumulators, two main loops: the first result stays in registers during the second
    loop

Ragged GEMMs (one matrix per group of rows) form one kernel only if they share a main loop, as in gated experts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from meshgen.ir.attributes.contraction import Ragged
from meshgen.ir.graph import Graph, Node, Value, is_float
from meshgen.ops.classes import DOTS, GEMMS, REGROUPING
from meshgen.ops.dot_dims import DotDims
from meshgen.ops.precision import common_type, multiplied_as
from meshgen.ops.segments import segments


class Accumulator(NamedTuple):
    """The GEMMs that add to one accumulator (in the order of their main loops), and the accumulated value."""

    products: tuple[Node, ...]
    total: Value


def accumulators(body: Graph) -> list[Accumulator]:
    """Return the accumulators of the dots of a body. The dots of a float sum whose terms have no other user share one."""
    uses, outputs = body.index.uses, set(body.outputs)
    terms: dict[Value, tuple[Node, ...]] = {}
    for node in body.nodes:
        is_sum = node.op in REGROUPING or (node.op == "add" and is_float(node.result.type.dtype))
        if node.op in GEMMS:
            terms[node.result] = (node,)
        elif is_sum and all(v in terms and len(uses[v]) == 1 and v not in outputs for v in node.operands):
            terms[node.result] = tuple(dot for v in node.operands for dot in terms.pop(v))
    return [Accumulator(dots, dots[0].result if len(dots) == 1 else total) for total, dots in terms.items()]


def can_share_main_loop(candidates: Sequence[Accumulator]) -> bool:
    """Whether two accumulators can share one main loop.

    Each must belong to one float dot. Both dots must have the same left operand, one contracted dim and, if ragged, the
    same groups.
    """
    dots = [accumulator.products[0] for accumulator in candidates]
    rows = {(d.operands[0], *d.operands[2:], DotDims.of(d).batch[0], DotDims.of(d).contract[0]) for d in dots}
    is_plain = is_float(common_type(dots[0])) and len(DotDims.of(dots[0]).contract[0]) == 1
    is_alike = len(rows) == 1 and len({d.op for d in dots}) == 1
    return (
        len(candidates) == 2
        and is_plain
        and is_alike
        and all(len(accumulator.products) == 1 for accumulator in candidates)
    )


def joint_products(body: Graph) -> list[Accumulator]:
    """Return the accumulators of a body with several dots whose results one epilogue combines.

    Returns an empty list for other bodies.
    """
    dots = [node for node in body.nodes if node.op in GEMMS]
    if len(dots) < 2 or {d.result for d in dots} == {*body.outputs} or len(segments(body)) > 1:
        return []
    if any(_feeds(body, dot) for dot in dots):
        return []
    candidates = accumulators(body)
    has_groups = any(isinstance(dot.attrs, Ragged) for dot in dots)
    return [] if has_groups and not (can_share_main_loop(candidates) and has_ragged_rows(dots[0])) else candidates


def side_by_side_products(body: Graph) -> list[Node]:
    """Return the dots of a body in which each program computes a tile of only one dot.

    Returns:
        An empty list if a segment has no dot or has joint products, or if the dots differ in type or are not of floats.
    """
    dots, parts = [node for node in body.nodes if node.op in DOTS], segments(body)
    is_plain = all(any(node.op in DOTS for node in part.nodes) and not joint_products(part) for part in parts)
    types = {(common_type(dot), multiplied_as(dot)) for dot in dots}
    return dots if dots and is_plain and len(types) == 1 and is_float(common_type(dots[0])) else []


def has_ragged_rows(dot: Node) -> bool:
    """Whether a dot is ragged along its rows: each group of rows is multiplied by the matrix of its group."""
    return isinstance(dot.attrs, Ragged) and not dot.attrs.contracts


def _feeds(body: Graph, dot: Node) -> bool:
    """Whether another dot depends on the result of `dot`."""
    reached = {dot.result}
    for node in body.nodes:
        if not reached.isdisjoint(node.operands):
            if node.op in GEMMS:
                return True
            reached.update(node.results)
    return False


def have_equal_tiles(first: Node, second: Node) -> bool:
    """Whether the results of two dots are matrices of equal sizes, and the dots multiply, accumulate and return equal
    types.
    """
    types = [(common_type(dot), multiplied_as(dot), dot.result.type.dtype) for dot in (first, second)]
    extents = [DotDims.of(dot).extents(*(v.type for v in dot.operands[:2]))[:3] for dot in (first, second)]
    return types[0] == types[1] and extents[0] == extents[1]
