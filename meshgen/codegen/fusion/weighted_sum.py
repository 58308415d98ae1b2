"""Gradients of an attention: products with functions of scores that are computed again, block by block.

    scores = dot(q, k)                              [.., rows, keys]
    e      = exp(function of scores - shift)        `shift` is a value per row in memory, as its sum is
    ds     = anything proportional to e, of further products such as dp = dot(do, v) as well
    dq     = dot(ds, k)                             sums over keys; dk and dv sum over rows

Where nothing else reads what is between, a kernel has it in registers only.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from meshgen.codegen import expr as ex
from meshgen.codegen.expr import Expr, Var
from meshgen.codegen.fusion.attention import TYPES, Producer, linear_operands
from meshgen.codegen.fusion.layout_indices import Index, backward
from meshgen.ir.graph import Node, Value
from meshgen.kernels.attention import widest_gradient
from meshgen.ops.classes import DOTS, LAYOUT, LEAVING, POINTWISE
from meshgen.ops.dot_dims import DotDims
from meshgen.ops.precision import TF32, multiplied_as

_MOST_STEPS = 64  # values that are looked at between the product and the exponentials
_MOST_VALUES = 256  # between the scores and the product


@dataclass(frozen=True)
class WeightedSum:
    """A product with a function of scores.

    Attributes:
        product, side: the dot, and the number of its operand that is the function.
        exponential: the node that the function is proportional to; scores: the dot that it is computed from.
        index: the index of everything between that varies with what is summed and with what is not, over the dims of the scores: `s0`, `s1`.
        result: the index of the product's result; the dims of the other operand are `e0`, `e1`.
        summed: the dims of the scores that are summed.
    """

    product: Node
    side: int
    exponential: Node
    scores: Node
    index: Mapping[Value, Index]
    result: Index
    summed: frozenset[Var]

    def keys(self, index: Mapping[Value, Index]) -> Index:
        """The index of what is summed, in the order of the product's attributes."""
        weights = index[self.product.operands[self.side]]
        return tuple(weights[d] for d in DotDims.of(self.product).contract[self.side])

    @property
    def widths(self) -> tuple[int, ...]:
        """Sizes of the dims of the result that are of the other operand: `e0`, `e1`."""
        other = self.product.operands[1 - self.side].type
        return tuple(other.sizes[d] for d in DotDims.of(self.product).free[1 - self.side])

    def products(self, producer: Producer) -> list[Node]:
        """The dots whose results it is computed from: the scores, and those of their size."""
        makers = [producer(value) for value in self.index]
        return [node for node in makers if node is not None and is_recomputed(node)]


def is_recomputed(node: Node) -> bool:
    """Whether a node is a product of short rows, which a kernel computes again rather than read it."""
    return node.op in DOTS and 0 < DotDims.of(node).depth(node.operands[0].type) <= _widest(node)


def weighted_sum(product: Node, producer: Producer) -> WeightedSum | None:
    """What a dot sums; None if that is nothing proportional to exponentials of scores."""
    if product.op not in DOTS or product.result.type.size == 0:
        return None
    found = (_of_side(product, side, producer) for side in (0, 1))
    return next((each for each in found if each is not None), None)


def _of_side(product: Node, side: int, producer: Producer) -> WeightedSum | None:
    if not _has_tiles(product, side, producer):
        return None
    if (exponential := _exponential_of(product.operands[side], producer, {})) is None:
        return None
    shifted = producer(exponential.operands[0])
    if shifted is None or shifted.op != "subtract":
        return None
    weights, dims = product.operands[side], DotDims.of(product)
    own = tuple(ex.variable(f"d{i}", size) for i, size in enumerate(weights.type.sizes))
    summed = {v for d in dims.contract[side] for v in ex.variables(own[d])}
    kept = {v for d in dims.free[side] for v in ex.variables(own[d])}
    placed = _between(weights, own, summed, kept, producer)
    scores = None if placed is None else _scores(shifted.operands[0], placed, producer)
    if placed is None or scores is None or exponential.result not in placed:
        return None
    table = over_dims_of(placed[scores.result])
    if table is None or not {v for e in own for v in ex.variables(e)}.issubset(table):
        return None
    index = {v: substituted(place, table) for v, place in placed.items()}
    result = _result_index(product, side, index[weights])
    taken = frozenset(v for d in dims.contract[side] for v in ex.variables(index[weights][d]))
    found = WeightedSum(product, side, exponential, scores, index, result, taken)
    return found if taken and _sums_one_side(found) else None


def _exponential_of(value: Value, producer: Producer, seen: dict[Value, Node | None]) -> Node | None:
    """The exponential that a value is proportional to, along one way or along both of a sum; None if there is none."""
    node = producer(value)
    if node is None or node.op == "exponential" or value in seen or len(seen) > _MOST_STEPS:
        return node if node is not None and node.op == "exponential" else seen.get(value)
    seen[value] = None
    if node.op in ("add", "subtract"):
        both = {_exponential_of(v, producer, seen) for v in node.operands}
        seen[value] = both.pop() if len(both) == 1 else None
    else:
        found = (_exponential_of(node.operands[number], producer, seen) for number in linear_operands(node, producer))
        seen[value] = next((each for each in found if each is not None), None)
    return seen[value]


def _has_tiles(product: Node, side: int, producer: Producer) -> bool:
    other, dims = product.operands[1 - side], DotDims.of(product)
    width = math.prod(other.type.sizes[d] for d in dims.free[1 - side])
    kinds = {v.type.dtype for v in product.operands}
    return (
        len(kinds) == 1
        and kinds.issubset(TYPES)
        and 0 < width <= widest_gradient(_multiplied(product, 1 - side, producer))
    )


def _widest(dot: Node) -> int:
    kinds = {v.type.dtype for v in dot.operands}
    return widest_gradient(multiplied_as(dot)) if len(kinds) == 1 and kinds.issubset(TYPES) else 0


def _multiplied(dot: Node, number: int, producer: Producer) -> str:
    source = narrow(dot, number, producer)
    return multiplied_as(dot) if source is dot.operands[number] else source.type.dtype


def narrow(dot: Node, number: int, producer: Producer) -> Value:
    """What an operand in f32 is a conversion of, if that is bf16: two products in bf16 are closer then than the one in tf32 that was asked for."""
    seen = value = dot.operands[number]
    if multiplied_as(dot) != TF32:
        return value
    while (node := producer(seen)) is not None and node.op in LAYOUT - LEAVING and node.op != "mask_padding":
        seen = node.operands[0]
    is_wider = node is not None and node.op == "convert" and value.type.dtype == "f32"
    return node.operands[0] if node is not None and is_wider and node.operands[0].type.dtype == "bf16" else value


def _between(
    weights: Value, own: Index, summed: set[Var], kept: set[Var], producer: Producer
) -> dict[Value, Index] | None:
    """The index of everything that varies with what is summed and what is not; None if a value is needed at two."""
    found: dict[Value, Index] = {}
    stack = [(weights, own)]
    while stack:
        value, index = stack.pop()
        varying = {v for e in index for v in ex.variables(e)}
        if not varying & summed or not varying & kept:
            continue
        if value in found:
            if found[value] != index:
                return None
            continue
        found[value] = index
        node = producer(value)
        if len(found) > _MOST_VALUES:
            return None
        if node is not None and node.op in POINTWISE:
            stack += [(v, index if v.type.rank else ()) for v in node.operands]
        elif node is not None and is_index_map(node):
            stack.append((node.operands[0], backward(node, index)))
    return found


def is_index_map(node: Node) -> bool:
    """Whether each element of a node's result is one of its operand, without conditions."""
    return (node.op in LAYOUT - LEAVING and node.op != "mask_padding") or node.op == "slice"


def _scores(softmaxed: Value, placed: Mapping[Value, Index], producer: Producer) -> Node | None:
    """The product that the exponential is computed from; None if there is none, or more than one."""
    found, stack, seen = dict[Node, None](), [softmaxed], set[Value]()
    while stack:
        value = stack.pop()
        node = producer(value)
        if node is None or value in seen or value not in placed:
            continue
        seen.add(value)
        if is_recomputed(node):
            found[node] = None
        elif node.op in POINTWISE or is_index_map(node):
            stack += node.operands
    return next(iter(found)) if len(found) == 1 else None


def over_dims_of(place: Index) -> dict[Var, Expr] | None:
    """The variables of an index as those of the dims of the value that it is of, `s0` and so on; None if a dim is not one variable."""
    table: dict[Var, Expr] = {}
    for d, each in enumerate(place):
        if each == ex.ZERO:
            continue
        match each.terms, each.const:
            case ((Var() as var, 1),), 0 if var not in table:
                table[var] = ex.variable(f"s{d}", var.high + 1)
            case _:
                return None
    return table


def substituted(index: Index, table: Mapping[Var, Expr]) -> Index:
    return tuple(ex.substitute(e, table) for e in index)


def _result_index(product: Node, side: int, weights: Index) -> Index:
    dims, other = DotDims.of(product), product.operands[1 - side]
    own = [weights[d] for d in dims.free[side]]
    widths = [ex.variable(f"e{i}", other.type.sizes[d]) for i, d in enumerate(dims.free[1 - side])]
    batch = [weights[d] for d in dims.batch[side]]
    return (*batch, *(own + widths if side == 0 else widths + own))


def _sums_one_side(found: WeightedSum) -> bool:
    """Whether what is summed are dims of one operand of the scores, and of the other one nothing is."""
    dims = DotDims.of(found.scores)
    batch, left = len(dims.batch[0]), len(dims.free[0])
    numbers = [int(v.text[1:]) for v in found.summed]
    return all(batch <= d < batch + left for d in numbers) or all(d >= batch + left for d in numbers)


def contracted(dot: Node, name: str = "w") -> Index:
    """A variable for each dim that a dot contracts."""
    sizes = dot.operands[0].type.sizes
    return tuple(ex.variable(f"{name}{i}", sizes[d]) for i, d in enumerate(DotDims.of(dot).contract[0]))
