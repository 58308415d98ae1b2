"""Loops over the factors of attention ops and their gradients, and checks whether an attention kernel supports an op.

A factor is a dim name of the op, such as `b h t d, b h s d`:

                            programs    rows of a tile    summed in blocks    summed one by one
attention                   b h         t                 s
... with few rows           b h         t g               s                                       heads g share keys
attention_gradient_queries  b h g       t                 s
attention_gradient_keys     b h         s                 t                   g
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from meshgen.codegen import expr as ex
from meshgen.codegen.expr import Expr
from meshgen.codegen.fusion.layout_indices import Index
from meshgen.codegen.fusion.space import Space
from meshgen.ir.graph import Graph, Node, Value
from meshgen.ir.predicates import is_constant
from meshgen.kernels.attention import widest_gradient, widest_head
from meshgen.ops.classes import ATTENTIONS, LAYOUT, LEAVING, LOOPS, POINTWISE
from meshgen.ops.factors import (
    FORWARD,
    GRADIENT,
    KEY_GRADIENT,
    KEYS,
    QUERIES,
    QUERY_GRADIENT,
    VALUES,
    Factors,
    Names,
    fixed,
)
from meshgen.ops.precision import multiplied

# Most query rows of a small tile, in which one program computes all rows that read the same keys.
ROWS_OF_A_TILE = 64
TYPES = ("bf16", "f16", "f32")
_READ_THROUGH = (LAYOUT - LEAVING - {"mask_padding"}) | {"convert"}
_LINEAR = {"convert": (0,), "negate": (0,), "divide": (0,), "multiply": (0, 1), "select": (1, 2)}


@dataclass(frozen=True)
class Loops:
    """Assignment of the row and key factors of an attention op to the loops of its kernel.

    Attributes:
        factors: the factors of the op.
        programs: factors that are distributed over programs, one coordinate each; the last factor varies fastest.
        tile: factors of the rows in the tile of a program.
        outer: factors that are summed one coordinate at a time.
        blocks: factors that are summed in blocks.
    """

    factors: Factors
    programs: Names
    tile: Names
    outer: Names
    blocks: Names

    @classmethod
    def of(cls, node: Node) -> Loops:
        factors = Factors.of(node)
        shared = {*factors.operands[KEYS], *factors.operands[VALUES]}
        rows = tuple(f for f in factors.rows if f not in shared)
        if node.op == FORWARD:
            tile = next(((f,) for f in rows if factors.sizes[f] >= ROWS_OF_A_TILE), rows)
            programs = tuple(f for f in factors.out if f in factors.rows and f not in tile)
            return cls(factors, programs, tile, (), factors.keys)
        sides = (rows, factors.keys) if node.op == QUERY_GRADIENT else (factors.keys, rows)
        kept, every = factors.results[0], (*factors.rows, *factors.keys)
        tile = _largest(factors, [f for f in sides[0] if f in kept])
        blocks = _largest(factors, [f for f in sides[1] if f not in kept])
        programs = tuple(f for f in kept if f in every and f not in tile)
        outer = tuple(f for f in every if f not in kept and f not in blocks)
        return cls(factors, programs, tile, outer, blocks)

    def size(self, names: Iterable[str]) -> int:
        return math.prod(self.factors.sizes[f] for f in names)

    @property
    def batch(self) -> int:
        return self.size(self.programs)

    @property
    def rows(self) -> int:
        return self.size(self.tile)

    @property
    def steps(self) -> int:
        return self.size(self.blocks)

    @property
    def depth(self) -> int:
        return self.size(self.factors.depth)

    @property
    def width(self) -> int:
        return self.size(self.factors.width)

    def table(self, names: Names, position: Expr) -> dict[str, Expr]:
        """Split `position`, a row-major position over the factors `names`, into an index per factor."""
        return dict(zip(names, ex.delinearize(position, self.factors.shape(names)), strict=True))


def _largest(factors: Factors, names: list[str]) -> Names:
    return (max(names, key=lambda name: factors.sizes[name]),) if names else ()


def indices(node: Node) -> dict[Value, Index]:
    """Return the index of each result of an attention op, with one variable per factor."""
    factors = Factors.of(node)
    return {
        value: tuple(ex.variable(f, factors.sizes[f]) for f in names)
        for value, names in zip(node.results, factors.results, strict=True)
    }


def attention_space(node: Node, producer: Callable[[Value], Node | None]) -> Space:
    """Return the iteration space of the results of an attention op, with one dim per factor.

    `producer` is passed to `Space`.
    """
    space = Space(producer)
    space.start_at(node, indices(node))
    return space


def attention_in(body: Graph, op: str) -> tuple[Node, Space] | None:
    """Return the attention node of type `op` in a kernel body, and the space of its results.

    Returns:
        None if the body has another loop, if no kernel exists for the node, or if an output has no index in the space.
    """
    loops = [node for node in body.nodes if node.op in LOOPS]
    if len(loops) != 1 or loops[0].op != op or not has_kernel(loops[0]):
        return None
    space = attention_space(loops[0], body.index.producers.get)
    for node in body.nodes:
        if node.op in POINTWISE:
            space.add(node)
    return (loops[0], space) if all(space.locate(value) is not None for value in body.outputs) else None


def multiplied_operands(node: Node) -> list[Value]:
    """Return the operands that enter a matmul of an attention op. For other ops, return all operands."""
    if node.op not in ATTENTIONS:
        return list(node.operands)
    return [node.operands[n] for n in (QUERIES, KEYS, VALUES, *([GRADIENT] if node.op != FORWARD else ()))]


def read_once(node: Node) -> list[Value]:
    """Return the matmul operands of an attention op of which at most one program reads each element.

    These are the queries. If all rows that share keys are in one tile, the keys and values belong to them too.
    """
    if node.op != FORWARD:
        return []
    loops = Loops.of(node)
    return multiplied_operands(node)[: VALUES + 1 if loops.rows <= ROWS_OF_A_TILE else QUERIES + 1]


def stored_type(value: Value, producer: Callable[[Value], Node | None]) -> str:
    """Return the dtype of an operand in memory, before layout ops and conversions to f32."""
    while (node := producer(value)) is not None and node.op in _READ_THROUGH:
        if node.op == "convert" and node.result.type.dtype != "f32":
            break
        value = node.operands[0]
    return value.type.dtype


# ---- which ops have kernels


def has_kernel(node: Node) -> bool:
    """Whether a kernel exists for the attention op.

    The dtypes and row lengths must have tiles, and the weights must be proportional to the probabilities.
    """
    loops, widest = Loops.of(node), widest_head if node.op == FORWARD else widest_gradient
    rows = {frozenset(names).intersection(loops.factors.rows) for names in loops.factors.results}
    checks = (
        all(left == right and left in TYPES for left, right, _ in _products(node)),
        all(value.type.dtype == "f32" for region in node.regions for value in _scores_of(region, node)),
        is_linear(node.regions[1]),
        all(value.type.size for value in node.results),
        node.op == FORWARD or (loops.tile and loops.blocks),
        # Both results of a key gradient (for keys and for values) must sum over the same rows.
        node.op != KEY_GRADIENT or len(rows) == 1,
        0 < max(loops.depth, loops.width) <= widest(multiplied_in(node)),
    )
    return all(checks)


def multiplied_in(node: Node) -> str:
    """Return the number format in which the matmuls of an op multiply, as `multiplied_as` does for a dot.

    If the matmuls differ, return the format that needs the smaller tiles.
    """
    formats = {multiplied(dtype, words) for dtype, _, words in _products(node)}
    return min(formats, key=("f32", "tf32x3", *sorted(formats)).index)


def _products(node: Node) -> list[tuple[str, str, Names]]:
    """Return, for each matmul, the dtypes of both multiplied operands, and the precision."""
    attrs = node.attrs
    queries, keys, values = (value.type.dtype for value in node.operands[: VALUES + 1])
    weights, scores = node.regions[1].outputs[0].type.dtype, (queries, keys, attrs.precision)
    if node.op == FORWARD:
        return [scores, (values, weights, attrs.value_precision)]
    change = node.regions[2].outputs[0].type.dtype
    return [
        scores,
        (values, node.operands[GRADIENT].type.dtype, attrs.value_precision),
        (weights, weights, attrs.value_precision),
        (change, change, attrs.gradient_precision),
    ]


def _scores_of(region: Graph, node: Node) -> list[Value]:
    """Return the arguments of `region` that have the shape of the scores."""
    return region.inputs[: len(region.inputs) - len(node.attrs.positions) - len(node.operands) + fixed(node.op)]


def is_linear(region: Graph) -> bool:
    """Whether the function `region` is proportional to its first argument."""
    zeros = _zeros(region)
    varies = {region.inputs[0]}
    for node in region.nodes:
        varying = [i for i, value in enumerate(node.operands) if value in varies]
        if not varying:
            continue
        other_operands = [value for i, value in enumerate(node.operands[1:], 1) if i not in varying]
        is_sound = len(varying) == 1 and varying[0] in _LINEAR.get(node.op, ())
        if not is_sound or (node.op == "select" and not zeros.issuperset(other_operands)):
            return False
        varies.add(node.result)
    return region.outputs[0] in varies


def _zeros(region: Graph) -> set[Value]:
    return {node.result for node in region.nodes if is_constant(node) and not node.attrs.value.any()}
