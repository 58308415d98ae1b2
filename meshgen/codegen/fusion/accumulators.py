"""Products of one kernel of which each program computes the same tile: which are added up, and what is kept until the last one is done.

d = a b + c e + f g        one accumulator: the main loop of each product goes on where the one before ended
y = silu(a b) * (a c)      two: one main loop, each step of which loads the tile of a once
y = silu(a b) * (c e)      two: the first waits in registers while the second is computed

Products of groups of rows are of one kernel only where they share a main loop: experts with gates.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from meshgen.ir.attributes.contraction import Ragged
from meshgen.ir.graph import Graph, Node, Value, is_float
from meshgen.ops.classes import DOTS, MATRIX_PRODUCTS, REGROUPING
from meshgen.ops.dot_dims import DotDims
from meshgen.ops.precision import common_type, multiplied_as
from meshgen.ops.segments import segments


class Accumulator(NamedTuple):
    """Products that are added up, in the order of their main loops, and the value that is their sum."""

    products: tuple[Node, ...]
    total: Value


def accumulators(body: Graph) -> list[Accumulator]:
    """Those of a body's dots: sums of floats of which nothing reads the terms are one."""
    uses, outputs = body.index.uses, set(body.outputs)
    found: dict[Value, tuple[Node, ...]] = {}
    for node in body.nodes:
        is_sum = node.op in REGROUPING or (node.op == "add" and is_float(node.result.type.dtype))
        if node.op in MATRIX_PRODUCTS:
            found[node.result] = (node,)
        elif is_sum and all(v in found and len(uses[v]) == 1 and v not in outputs for v in node.operands):
            found[node.result] = tuple(dot for v in node.operands for dot in found.pop(v))
    return [Accumulator(dots, dots[0].result if len(dots) == 1 else total) for total, dots in found.items()]


def share_a_loop(found: Sequence[Accumulator]) -> bool:
    """Whether they are two products of floats that multiply the same rows, one of whose dims is contracted; of groups, the same ones."""
    dots = [each.products[0] for each in found]
    rows = {(d.operands[0], *d.operands[2:], DotDims.of(d).batch[0], DotDims.of(d).contract[0]) for d in dots}
    is_plain = is_float(common_type(dots[0])) and len(DotDims.of(dots[0]).contract[0]) == 1
    is_alike = len(rows) == 1 and len({d.op for d in dots}) == 1
    return len(found) == 2 and is_plain and is_alike and all(len(each.products) == 1 for each in found)


def joint_products(body: Graph) -> list[Accumulator]:
    """The accumulators of a body with several products that an epilogue takes together; empty for other bodies."""
    dots = [node for node in body.nodes if node.op in MATRIX_PRODUCTS]
    if len(dots) < 2 or {d.result for d in dots} == {*body.outputs} or len(segments(body)) > 1:
        return []
    if any(_feeds(body, dot) for dot in dots):
        return []
    found = accumulators(body)
    has_groups = any(isinstance(dot.attrs, Ragged) for dot in dots)
    return [] if has_groups and not (share_a_loop(found) and by_rows(dots[0])) else found


def side_by_side_products(body: Graph) -> list[Node]:
    """Return the dots of a body of which each program computes a tile of one.

    Returns:
        An empty list if a segment multiplies nothing or has joint products, and if the dots differ in type or are not of floats.
    """
    dots, parts = [node for node in body.nodes if node.op in DOTS], segments(body)
    is_plain = all(any(node.op in DOTS for node in part.nodes) and not joint_products(part) for part in parts)
    types = {(common_type(dot), multiplied_as(dot)) for dot in dots}
    return dots if dots and is_plain and len(types) == 1 and is_float(common_type(dots[0])) else []


def by_rows(dot: Node) -> bool:
    """Whether a product is of groups of rows, each of which takes the matrix of its group."""
    return isinstance(dot.attrs, Ragged) and not dot.attrs.contracts


def _feeds(body: Graph, dot: Node) -> bool:
    """Whether another dot multiplies what is made of the result of this one."""
    reached = {dot.result}
    for node in body.nodes:
        if not reached.isdisjoint(node.operands):
            if node.op in MATRIX_PRODUCTS:
                return True
            reached.update(node.results)
    return False


def have_equal_tiles(first: Node, second: Node) -> bool:
    """Whether the results of two dots are matrices of the same sizes, and multiplied and added in the same types."""
    types = [(common_type(dot), multiplied_as(dot), dot.result.type.dtype) for dot in (first, second)]
    extents = [DotDims.of(dot).extents(*(v.type for v in dot.operands[:2]))[:3] for dot in (first, second)]
    return types[0] == types[1] and extents[0] == extents[1]
