"""The iteration space of an attention kernel: rows of queries, and keys."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from meshgen.codegen import expr as ex
from meshgen.codegen.expr import Expr, Quotient
from meshgen.codegen.fusion.attention import Attention, attention_of
from meshgen.codegen.fusion.attention_indices import (
    generic_index,
    operand_index,
    per_row_nodes,
    places,
    query_side,
    space_of,
)
from meshgen.codegen.fusion.layout_indices import Index, backward
from meshgen.codegen.fusion.space import Space
from meshgen.ir.graph import Graph, Node, Value
from meshgen.ops.classes import DOTS, LAYOUT, LEAVING, LOOPS, POINTWISE
from meshgen.ops.dot_dims import DotDims

_LONE_ROWS = 64  # rows of one dim of the result from which a tile has rows of that dim only


Part = tuple[
    int, int, int
]  # of a dim of the product's result: the dim, how many values it has, and the distance between them


class Shape(NamedTuple):
    """The iteration space: programs x rows x keys, and the lengths of the rows of both products.

    Attributes:
        outer, inner: parts of the result's dims that programs, and the rows of a tile, go over.
        depth, width: elements of a row of queries, and of values.
    """

    outer: tuple[Part, ...]
    inner: tuple[Part, ...]
    keys: int
    depth: int
    width: int

    @property
    def batch(self) -> int:
        return math.prod(size for _, size, _ in self.outer)

    @property
    def rows(self) -> int:
        return math.prod(size for _, size, _ in self.inner)


def attention_in(body: Graph) -> tuple[Attention, Space] | None:
    """The attention that a kernel's body is, and the space of its second product; None if it is something else."""
    producer, uses = body.index.producers, body.index.uses
    heavy = [node for node in body.nodes if node.op in LOOPS]
    dots = [node for node in heavy if node.op in DOTS]
    if len(dots) != 2:
        return None
    attention = attention_of(dots[1], producer.get, lambda v: [user for user, _ in uses[v]])
    space = None if attention is None else space_of(attention, producer.get, producer.get)
    if attention is None or space is None or not attention.members.issuperset(heavy):
        return None
    members = [node for node in body.nodes if node in attention.members]
    placed = per_row_nodes(attention, members, producer.get)
    for node in body.nodes:
        if node.op in POINTWISE and (node in placed or node not in attention.members):
            space.add(node)
    return (attention, space) if all(space.locate(v) is not None for v in body.outputs) else None


def shape_of(attention: Attention, producers: Mapping[Value, Node]) -> Shape:
    """The iteration space."""
    product, side = attention.product, attention.side
    sizes = product.result.type.sizes
    index, n = generic_index(product)
    keys = DotDims.of(product).depth(product.operands[0].type)
    placed = places(attention, producers.get, index, n)
    assert placed is not None, "it was matched"
    found = placed[attention.scores.result]
    number = query_side(attention, found, n)
    assert number is not None, "it was matched"
    shared = operand_index(attention.scores, 1 - number, found, _nothing(attention.scores))
    values = value_dims(product, side)
    free = [d for d in _row_dims(product, side) if not _varies(shared, index[d])]
    long = [d for d in free if sizes[d] >= _LONE_ROWS]
    inner = [(d, sizes[d], 1) for d in long[:1] or free]
    outer = [(d, size, 1) for d, size in enumerate(sizes) if d not in values and d not in (long[:1] or free)]
    if not long:
        with_values = operand_index(product, 1 - side, index, _nothing(product))
        reads = [
            *_in_memory(attention.scores.operands[1 - number], shared, producers),
            *_in_memory(product.operands[1 - side], with_values, producers),
        ]
        grouped = next(((d, r) for d, _, _ in outer if (r := _repeats(index[d], reads)) > 1), None)
        if grouped is not None:
            head, times = grouped
            outer = [(d, size // times, times) if d == head else (d, size, step) for d, size, step in outer]
            inner.append((head, times, 1))
    depth = DotDims.of(attention.scores).depth(attention.scores.operands[0].type)
    return Shape(tuple(outer), tuple(inner), keys, depth, math.prod(sizes[d] for d in values))


def _varies(index: Index, along: Expr) -> bool:
    return any(v in ex.variables(e) for e in index for v in ex.variables(along))


def _in_memory(value: Value, index: Index, producers: Mapping[Value, Node]) -> Index:
    """Index at which a value's source is read, seen through index maps and conversions."""
    while (node := producers.get(value)) is not None and (node.op == "convert" or node.op in LAYOUT - LEAVING):
        value, index = node.operands[0], index if node.op == "convert" else backward(node, index)
    return index


def _repeats(along: Expr, reads: Sequence[Expr]) -> int:
    """How many neighbours along a dim read the same: 2 where `h // 2` is all that is read of h. 1 where nothing is known."""
    if not along.terms:
        return 1
    (head,) = ex.variables(along)
    steps = [atom.by if isinstance(atom, Quotient) and atom.of == along else 1
             for e in reads for atom, _ in e.terms if head in ex.variables(Expr(((atom, 1),)))]  # fmt: skip
    return math.gcd(*steps, head.high + 1) if steps else 1


def _nothing(dot: Node) -> Index:
    return (ex.ZERO,) * len(DotDims.of(dot).contract[0])


def _row_dims(product: Node, side: int) -> list[int]:
    """Dims of the product's result that are free dims of the probabilities."""
    dims = DotDims.of(product)
    start = len(dims.batch[0]) + (len(dims.free[0]) if side == 1 else 0)
    return list(range(start, start + len(dims.free[side])))


def value_dims(product: Node, side: int) -> list[int]:
    return _row_dims(product, 1 - side)
