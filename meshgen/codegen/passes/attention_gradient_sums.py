"""The sum over keys in the gradient of a softmax is a sum over the elements of the attention's result.

    before   p = e / total,  o = dot(p, v),  dp = dot(do, v)        [.., rows, keys]
             sum = reduce(dp * scale * e, over keys)                `scale` per row
    after    sum = reduce(do * o, over elements) * scale * total

With it no value per row of a backward pass needs all of the row's scores. What multiplies both (a dropout mask) may be anything.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from meshgen.codegen import expr as ex
from meshgen.codegen.expr import Expr, Var
from meshgen.codegen.fusion.attention import Attention, Producer, linear_path, splat
from meshgen.codegen.fusion.attention_indices import attentions_in, operand_index
from meshgen.codegen.fusion.layout_indices import Index, backward
from meshgen.codegen.fusion.weighted_sum import is_index_map, is_recomputed, over_dims_of, substituted
from meshgen.codegen.passes.graphs import on_graphs
from meshgen.compilation import Compilation, module_pass
from meshgen.ir.graph import DTYPES, Graph, Module, Node, TensorType, Value
from meshgen.ops.classes import DOTS, REDUCTIONS
from meshgen.ops.dot_dims import DotDims
from meshgen.ops.live import without_dead

Factor = tuple[Value, Index, int]  # a value at an index, and its power: 1 or -1
_MOST_FACTORS = 32  # of a product (chosen: no gradient of attention has so long a chain of multiplications)


@module_pass("attention-gradient-sums", "partition")
def attention_gradient_sums(module: Module, context: Compilation) -> Module:
    """A local program with such sums replaced."""
    return on_graphs(module, _with_sums_of_results)


def _with_sums_of_results(graph: Graph) -> Graph:
    if sum(node.op in DOTS for node in graph.nodes) < 3:
        return graph
    producer, attentions = graph.index.producers, attentions_in(graph)
    found = {
        node: each for node in graph.nodes if (each := _sum_of_results(node, attentions, producer.get)) is not None
    }
    if not found:
        return graph
    out = Graph(graph.name, list(graph.inputs), [], list(graph.outputs))
    for node in graph.nodes:
        if node in found:
            _GradientSumWriter(out, node, found[node]).write()
        else:
            out.nodes.append(node)
    return without_dead(out)


class _Sum(NamedTuple):
    """A sum over keys as the sum of products of `gradient` and `result`, times values per row; `kept` are its dims, `elements` what is summed."""

    gradient: Factor
    result: Factor
    rows: tuple[Factor, ...]
    kept: tuple[Var, ...]
    elements: tuple[Var, ...]
    is_negative: bool


def _sum_of_results(node: Node, attentions: Mapping[Node, Attention], producer: Producer) -> _Sum | None:
    if node.op not in REDUCTIONS or node.attrs.kind != "add" or splat(node.operands[1], producer) != 0:
        return None
    way = linear_path(node.operands[0], producer)
    attention = None if way is None else attentions.get(way[1])
    if attention is None:
        return None
    summed = node.operands[0]
    mine = _factors(summed, node.attrs.dims, attention, producer)
    product, side = attention.product, attention.side
    theirs = _factors(product.operands[side], DotDims.of(product).contract[side], attention, producer)
    if mine is None or theirs is None:
        return None
    gradients = [f for f in mine.over_keys if _is_gradient(f[0], producer) and f not in theirs.over_keys]
    if len(gradients) != 1 or gradients[0][2] != 1:
        return None
    rest = Counter(mine.over_keys) - Counter(gradients)
    if rest != Counter(theirs.over_keys) or mine.summed != theirs.summed:
        return None
    weighted = substituted(theirs.index, theirs.table)
    found = _gradient_of_result(gradients[0], attention, weighted, producer)
    if found is None:
        return None
    powers = Counter[tuple[Value, Index]]()
    for sign, factors in ((1, mine.rows), (-1, theirs.rows)):
        for value, index, power in factors:
            powers[value, index] += sign * power
    rows = tuple((*factor, 1 if count > 0 else -1) for factor, count in powers.items() for _ in range(abs(count)))
    kept = [
        v
        for d, e in enumerate(mine.index)
        if d not in node.attrs.dims
        for v in ex.variables(ex.substitute(e, mine.table))
    ]
    elements = tuple(v for e in found[0][1] for v in ex.variables(e) if v.text[0] == "w")
    return _Sum(*found, rows, tuple(kept), elements, mine.is_negative != theirs.is_negative)


@dataclass(frozen=True)
class _Factors:
    """A value as a product.

    Attributes:
        over_keys, rows: the factors that vary with what is summed, and the others; over the dims of the exponentials.
        index: the value's own index; `table` has its variables as those dims.
        summed: the dims that are summed.
    """

    over_keys: tuple[Factor, ...]
    rows: tuple[Factor, ...]
    is_negative: bool
    index: Index
    table: dict[Var, Expr]
    summed: frozenset[Expr]


def _factors(value: Value, dims: Sequence[int], attention: Attention, producer: Producer) -> _Factors | None:
    """What a value is a product of, `dims` of which are summed; None if the exponentials are not a factor of it."""
    own = tuple(ex.variable(f"d{i}", size) for i, size in enumerate(value.type.sizes))
    keys = {v for d in dims for v in ex.variables(own[d])}
    leaves, is_negative = _leaves(value, own, keys, attention, producer)
    exponential = attention.exponential.result
    places = [index for leaf, index, power in leaves if leaf is exponential and power == 1]
    table = over_dims_of(places[0]) if len(places) == 1 else None
    if table is None or len(leaves) > _MOST_FACTORS or not {v for e in own for v in ex.variables(e)}.issubset(table):
        return None
    named = [(leaf, substituted(index, table), power) for leaf, index, power in leaves]
    summed = frozenset(table[v] for v in keys)
    inside = {v for e in summed for v in ex.variables(e)}
    varies = [any(v in inside for e in index for v in ex.variables(e)) for _, index, _ in named]
    over_keys = tuple(f for f, does in zip(named, varies, strict=True) if does)
    rows = tuple(f for f, does in zip(named, varies, strict=True) if not does)
    return _Factors(over_keys, rows, is_negative, own, table, summed)


def _leaves(
    value: Value, own: Index, keys: set[Var], attention: Attention, producer: Producer
) -> tuple[list[Factor], bool]:
    found, is_negative = list[Factor](), False
    stack: list[Factor] = [(value, own, 1)]
    while stack and len(found) <= _MOST_FACTORS:
        current, index, power = stack.pop()
        node = producer(current)
        is_row = not any(v in keys for e in index for v in ex.variables(e))
        if node is None or node is attention.exponential:
            found.append((current, index, power))
        elif node.op == "multiply" and not is_row:
            stack += [(v, index if v.type.rank else (), power) for v in node.operands]
        elif node.op == "divide" and not is_row:
            stack += [(node.operands[0], index, power), (node.operands[1], index, -power)]
        elif node.op == "convert" and not is_row and node.operands[0].type.dtype in DTYPES_OF_FLOATS:
            stack.append((node.operands[0], index, power))
        elif node.op == "negate" and not is_row:
            is_negative = not is_negative
            stack.append((node.operands[0], index, power))
        elif is_index_map(node):
            stack.append((node.operands[0], backward(node, index), power))
        elif node.op == "select" and splat(node.operands[2], producer) == 0 and power == 1 and not is_row:
            test = node.operands[0]
            found.append((test, index if test.type.rank else (), 1))
            stack.append((node.operands[1], index, power))
        else:
            found.append((current, index, power))
    return found, is_negative


DTYPES_OF_FLOATS = ("bf16", "f16", "f32")


def _is_gradient(value: Value, producer: Producer) -> bool:
    node = producer(value)
    return node is not None and is_recomputed(node)


def _gradient_of_result(
    factor: Factor, attention: Attention, weights: Index, producer: Producer
) -> tuple[Factor, Factor] | None:
    """The gradient of the attention's result and that result, at indices with an element of them; None if the factor is another product."""
    dot, place = producer(factor[0]), factor[1]
    product, side = attention.product, attention.side
    values, dims = product.operands[1 - side], DotDims.of(product)
    assert dot is not None, "it is a product"
    elements = [ex.variable(f"w{i}", values.type.sizes[d]) for i, d in enumerate(dims.free[1 - side])]
    own, batch = [weights[d] for d in dims.free[side]], [weights[d] for d in dims.batch[side]]
    result = (*batch, *(own + elements if side == 0 else elements + own))
    keys = tuple(weights[d] for d in dims.contract[side])
    wanted = operand_index(product, 1 - side, result, keys)
    for number in (0, 1):
        mine = DotDims.of(dot)
        if dot.operands[number] is not values or set(mine.contract[number]) != set(dims.free[1 - side]):
            continue
        of_dim = dict(zip(dims.free[1 - side], elements, strict=True))
        contracted = tuple(of_dim[d] for d in mine.contract[number])
        if operand_index(dot, number, place, contracted) == wanted:
            gradient = operand_index(dot, 1 - number, place, contracted)
            return (dot.operands[1 - number], gradient, 1), (product.result, result, 1)
    return None


class _GradientSumWriter:
    """Writes the nodes of one sum in place of a reduce."""

    def __init__(self, graph: Graph, node: Node, found: _Sum) -> None:
        self.graph, self.node, self.found, self.loc = graph, node, found, node.loc

    def write(self) -> None:
        found, node = self.found, self.node
        order = (*found.kept, *found.elements)
        left, right = (self._aligned(value, index, order) for value, index, _ in (found.gradient, found.result))
        count = len(found.kept)
        total = self._reduced(self._op("multiply", left, right), range(count, len(order)))
        for value, index, power in found.rows:
            row = self._aligned(value, index, found.kept)
            total = self._op("multiply" if power == 1 else "divide", total, row)
        if found.is_negative:
            total = self._op("negate", total)
        total = self._to("reshape", total, node.result.type.sizes, {})
        if node.result.type.dtype != "f32":
            total = self.graph.add("convert", [total], [node.result.type], {}, loc=self.loc).result
        self.graph.nodes[-1] = replace(self.graph.nodes[-1], results=node.results)

    def _op(self, op: str, *operands: Value) -> Value:
        return self.graph.add(op, operands, [operands[0].type], {}, loc=self.loc).result

    def _to(self, op: str, value: Value, shape: Sequence[int], attrs: dict[str, object]) -> Value:
        return self.graph.add(op, [value], [TensorType(tuple(shape), value.type.dtype)], attrs, loc=self.loc).result

    def _aligned(self, value: Value, index: Index, order: Sequence[Var]) -> Value:
        """A value in f32 with a dim for each variable in order, of which its index has one per dim."""
        if value.type.dtype != "f32":
            to = TensorType(value.type.shape, "f32")
            value = self.graph.add("convert", [value], [to], {}, loc=self.loc).result
        dims = [(v, d) for d, e in enumerate(index) for v in ex.variables(e)]
        sizes = [value.type.sizes[d] for _, d in dims]
        flat = value if len(sizes) == value.type.rank else self._to("reshape", value, sizes, {})
        place = {v: i for i, (v, _) in enumerate(dims)}
        present = [v for v in order if v in place]
        ordered = (
            flat
            if present == list(place)
            else self._to("transpose", flat, [v.high + 1 for v in present], {"perm": tuple(place[v] for v in present)})
        )
        where = tuple(i for i, v in enumerate(order) if v in place)
        return (
            ordered
            if len(where) == len(order)
            else self._to("broadcast_in_dim", ordered, [v.high + 1 for v in order], {"dims": where})
        )

    def _reduced(self, value: Value, dims: Sequence[int]) -> Value:
        zero = np.array(0, DTYPES["f32"])
        init = self.graph.add("constant", [], [TensorType((), "f32")], {"value": zero}, loc=self.loc).result
        to = TensorType(value.type.sizes[: dims[0]], "f32")
        attrs = {"dims": tuple(dims), "kind": "add"}
        return self.graph.add("reduce", [value, init], [to], attrs, loc=self.loc).result
