"""Construction of an attention op from the nodes that compute it: its loops, operands and regions."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from meshgen.codegen import expr as ex
from meshgen.codegen.attention.indices import generic_index, operand_index, query_side, substituted, value_indices
from meshgen.codegen.attention.layouts import Element, Layouts, loops_of, split_variable
from meshgen.codegen.attention.recognition import Attention, upstream
from meshgen.codegen.attention.scalar_regions import Elements, Region, UnformedError
from meshgen.codegen.attention.users import Uses
from meshgen.codegen.expr import Expr, Var
from meshgen.codegen.fusion.attention_loops import has_kernel
from meshgen.codegen.fusion.layout_indices import Index
from meshgen.ir.builder import Builder
from meshgen.ir.graph import Graph, Node, TensorType, Value
from meshgen.ir.regions import needed_nodes
from meshgen.ops.dot_dims import DotDims
from meshgen.ops.evaluate.evaluator import evaluate
from meshgen.ops.factors import FORWARD, Names, notation
from meshgen.ops.types.attention import STATISTIC

_ROWS = "abcfghijklmnopqrtuvwxyz"  # names of row factors; the names `s`, `d` and `e` stand for keys, depth and width
# row sums to test the division by the sum with (at least 1, because the largest exponential of a row is 1)
_TRIED = (1.0, 1.5, 7.0, 1e4)
# Most loops per dim of the result in a program that divides by the row sum after the second dot. Chosen: bounds the
# search.
_MOST_LOOPS = 8
_NEAR = 0.01  # relative tolerance of quotients: more than twice the rounding error of bf16, 2**-8


@dataclass(frozen=True)
class Loops:
    """The loops of an attention op, as index expressions.

    Attributes:
        result: index of the attention's result.
        keys: position of the key.
        depth: index of the contracted dims of the first dot.
    """

    result: Index
    keys: Expr
    depth: Index

    @classmethod
    def of(cls, attention: Attention, parts: Mapping[Var, Sequence[int]]) -> Loops:
        """Create the loops of an attention, with variables split into the loop sizes in `parts`."""
        result, keys = generic_index(attention.product)
        scores = attention.scores
        sizes = [scores.operands[0].type.sizes[d] for d in DotDims.of(scores).contract[0]]
        depth = tuple(ex.variable(f"w{i}", size) for i, size in enumerate(sizes))
        table = {v: split_variable(v.text, v.high + 1, sizes) for v, sizes in parts.items()}
        return cls(substituted(result, table), ex.substitute(keys, table), substituted(depth, table))


class Forward:
    """Writes the attention op for the nodes of one attention, given the attention's loops.

    Raises:
        UnformedError: the nodes compute something that the op cannot express.
    """

    def __init__(self, attention: Attention, layouts: Layouts, loops: Loops, uses: Uses) -> None:
        self.attention, self.layouts, self.loops = attention, layouts, loops
        self.elements = Elements(layouts)
        placed = value_indices(attention, layouts.producer, loops.result, loops.keys)
        side = None if placed is None else query_side(attention, placed[attention.scores.result], loops.keys)
        if placed is None or side is None:
            raise UnformedError
        layouts.seen.update(dict.fromkeys(placed.values()))
        self.placed, self.sides = placed, (side, 1 - side)
        self.queries, self.keys = (self._of_scores(number) for number in self.sides)
        self.values = self._values()
        layouts.names = self._names()
        self.operands = [self._operand(*operand) for operand in (self.queries, self.keys, self.values)]
        self.score = Region(self.elements, self.at(attention.scores.result), attention.members)
        softmaxed = self.score.element(attention.softmaxed, placed[attention.softmaxed])
        self.softmaxed = self.score.wide(Builder(self.score.graph), softmaxed)
        self.result = uses.settled(attention.product.result, loops.result)
        self.scale, self.zero_empty = self._normalization(uses)
        self.share = Region(self.elements, self.at(attention.exponential.result), attention.members, self.scale)
        weights = attention.product.operands[attention.side]
        self.share_of = self.share.element(weights, placed[weights])
        self.weight = Builder(self.share.graph, attention.product.loc).convert(self.share_of, weights.type.dtype)
        keys = {layouts.names[v] for v in variables_of([loops.keys])}
        self.rows = tuple(name for name in self.named(weights, placed[weights]) if name not in keys)
        self.out = self.named(*self.result)
        if not keys or not variables_of(loops.depth):
            raise UnformedError

    def written(self, rows: Mapping[Value, Index]) -> Mapping[Node, list[Node]]:
        """Return the nodes that replace the second dot of the attention.

        Args:
            rows: the program's values that are equal to the op's second result (a value per row), each with its index.
        """
        _, row_result = self.write()
        builder = Builder(self.layouts.graph, self.attention.product.loc)
        for value, index in rows.items():
            names = self.named(value, index)
            builder.reshape(builder.permuted(row_result, [self.rows.index(f) for f in names]), value.type.shape)
            builder.make([value])
        return {self.attention.product: self.needed([self.result[0], *rows])}

    def write(self) -> Sequence[Value]:
        """Write the attention op and return its results. Its first result replaces the result of the second dot.

        Call this after all regions are finished.
        """
        product, layouts = self.attention.product, self.layouts
        attrs = self.attrs | {"factors": notation(self.taken_factors, [self.out, self.rows])}
        types = [self.type_of(self.out, product.result.type.dtype), self.type_of(self.rows, STATISTIC)]
        builder = Builder(layouts.graph, product.loc)
        regions = self.score_region(), self.share.close(self.weight)
        op_result, rows = builder.append(FORWARD, [value for value, _ in self.taken], types, attrs, regions)
        if not has_kernel(layouts.graph.nodes[-1]):
            raise UnformedError
        self.finish(builder, op_result, self.result[0])
        return (op_result if op_result.type.shape != self.result[0].type.shape else self.result[0]), rows

    def score_region(self) -> Graph:
        """Return the function of the scores. Call this after all regions are finished."""
        return self.score.close(self.softmaxed)

    @property
    def taken(self) -> list[Element]:
        return [*self.operands, *self.elements.operands]

    @property
    def taken_factors(self) -> list[Names]:
        return [names for _, names in self.taken]

    @property
    def attrs(self) -> dict[str, Any]:
        """Return the attributes of the attention op and of its gradient ops, except for the factors."""
        attention = self.attention
        return {
            "positions": tuple(self.elements.positions),
            "zero_empty": self.zero_empty,
            "precision": precision_of(attention.scores, self.sides[0]),
            "value_precision": precision_of(attention.product, attention.side),
        }

    def type_of(self, names: Names, dtype: str) -> TensorType:
        sizes = {name: var.high + 1 for var, name in self.layouts.names.items()}
        return TensorType(tuple(sizes[f] for f in names), dtype)

    def finish(self, builder: Builder, old_result: Value, result: Value) -> None:
        """Make the last node define `result` instead of its result `old_result`. Append a reshape if the shapes differ."""
        last_node = builder.graph.nodes[-1]
        if old_result.type.shape != result.type.shape:
            builder.reshape(old_result, result.type.shape)
            builder.make([result])
        else:
            last_node.results[last_node.results.index(old_result)] = result

    def needed(self, values: Sequence[Value]) -> list[Node]:
        return needed_nodes(self.layouts.graph.nodes, values, lambda _: False)

    def _operand(self, value: Value, index: Index) -> Element:
        element = self.layouts.element(value, index)
        if element is None:
            raise UnformedError
        return element

    def _normalization(self, uses: Uses) -> tuple[Mapping[Node, int], bool]:
        """Return the node that divides by the row sum, and whether a row without unmasked keys yields 0.

        The node is returned as a mapping from the node to the position of the divided operand.
        """
        attention, producer = self.attention, self.layouts.producer
        if len(attention.scales) > 1:
            raise UnformedError
        node, number, place = self._division(uses)
        region = Region(Elements(Layouts(producer)), self.at(attention.total.result), attention.members)
        divisor = node.operands[1 - number]
        graph = region.close(region.element(divisor, place))
        if len(graph.inputs) > 1 or (node.op == "divide" and number == 1):
            raise UnformedError
        tried = [float(evaluate(graph, [np.array(x, graph.inputs[0].type.numpy_dtype)])[0]) for x in (0.0, *_TRIED)]
        factors = [x if node.op == "multiply" else 1 / x if x else math.inf for x in tried]
        if not np.allclose(factors[1:], [1 / x for x in _TRIED], rtol=_NEAR):
            raise UnformedError
        if not attention.scales:
            between, _ = upstream(divisor, lambda other: other is attention.total, producer)
            self.attention = attention._replace(members=attention.members | {node, *between})
            self.result = uses.settled(node.result, place)
        return {node: number}, attention.keeps_empty and math.isfinite(factors[0])

    def _division(self, uses: Uses) -> tuple[Node, int, Index]:
        """Return the node that divides the probabilities or the result by the row sum.

        Also returns the position of the divided operand, and the index at which the node reads the divisor.
        """
        if self.attention.scales:
            ((node, number),) = self.attention.scales
            return node, number, self.placed[node.operands[1 - number]]
        value, index = uses.settled(*self.result, most_loops=_MOST_LOOPS)
        users = uses.of(value)
        if value in uses.outputs or len(users) != 1 or users[0].op not in ("divide", "multiply"):
            raise UnformedError
        return users[0], users[0].operands.index(value), index

    # ---- loops and indices

    def _names(self) -> dict[Var, str]:
        """Return the factor name of each loop. Keys have `s`, the depth `d`, the width of the values `e`, and rows
        other letters.
        """
        scores = self.placed[self.attention.scores.result]
        keys, depth = variables_of([self.loops.keys]), variables_of(self.loops.depth)
        kept = variables_of([*self.loops.result, *scores])
        inside = variables_of(scores)
        rows = [v for v in kept if v in inside and v not in keys]
        width = [v for v in kept if v not in inside]
        if len(rows) > len(_ROWS):
            raise UnformedError
        names = dict(zip(rows, _ROWS, strict=False))
        for letter, group in (("s", keys), ("d", depth), ("e", width)):
            names |= {v: letter + (str(i) if i else "") for i, v in enumerate(group)}
        return names

    def at(self, value: Value) -> dict[Value, Index]:
        return {value: self.placed[value]}

    def _of_scores(self, side: int) -> tuple[Value, Index]:
        dot = self.attention.scores
        return dot.operands[side], operand_index(dot, side, self.placed[dot.result], self.loops.depth)

    def _values(self) -> tuple[Value, Index]:
        product, side = self.attention.product, self.attention.side
        sizes = [product.operands[side].type.sizes[d] for d in DotDims.of(product).contract[side]]
        summed = ex.delinearize(self.loops.keys, sizes)
        return product.operands[1 - side], operand_index(product, 1 - side, self.loops.result, summed)

    def named(self, value: Value, index: Index) -> Names:
        """Return the factor names of the dims of `value`, given its index in the loops."""
        loops = [loops_of(expr, size) for expr, size in zip(index, value.type.sizes, strict=True)]
        if None in loops:
            raise UnformedError
        return tuple(self.layouts.names[v] for dim_loops in loops if dim_loops is not None for v in dim_loops)


def variables_of(index: Sequence[Expr]) -> dict[Var, None]:
    """Return the variables of an index, in order of occurrence."""
    return dict.fromkeys(v for expr in index for v in ex.variables(expr))


def precision_of(dot: Node, number: int) -> tuple[str, ...]:
    """Return the precision of both operands of a dot, starting with operand `number`."""
    precision = tuple(dot.attrs.precision)
    return (precision[number], precision[1 - number]) if precision else ()
