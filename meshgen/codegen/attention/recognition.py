"""Recognition of attention: a softmax between two matmuls, which one kernel computes without writing the scores.

    scores = dot(q, k)                      [.., rows, n]
    s      = mask, bias, scale of scores    any element-wise function
    e      = exp(s - max(s))
    p      = e / sum(e)                     or the division follows the second matmul
    result = dot(p, v)

Values over `n` exist in registers only. Values per row (the maximum, the sum) may have other users, such as a backward
pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from meshgen.ir.graph import Node, Value
from meshgen.ir.predicates import is_constant
from meshgen.ops.classes import DOTS, LAYOUT, LEAVING, POINTWISE, REDUCTIONS

Producer = Callable[[Value], Node | None]
Readers = Callable[[Value], Iterable[Node]]
Step = tuple[Node, int]  # a node, and the position of the operand in which its result is linear
_THROUGH = POINTWISE | LAYOUT
# The maximum of a row and a constant below this number is the former. finfo(bf16).min is -3.39e38.
_LEAST_MAXIMUM = -3e38
_MOST_NODES = 64  # most nodes of the score function; chosen: longer than typical masks and biases
_MOST_STEPS = 32  # most values searched between the second matmul and the exponentials. Chosen: bounds the search


class Attention(NamedTuple):
    """The nodes of one attention.

    Attributes:
        scores, product: the first and the second dot.
        side: the position (0 or 1) of the operand of `product` that holds the probabilities.
        softmaxed: the operand of the softmax.
        exponential, maximum, total: the nodes of the softmax: the exponential, and the two reductions of a row.
        scales: nodes between `exponential` and `product` that divide or multiply by a value per row.
        members: all nodes from the first dot to the second.
        keeps_empty: whether a row whose scores are all -inf has a total of 0 instead of NaN.
    """

    scores: Node
    product: Node
    side: int
    softmaxed: Value
    exponential: Node
    maximum: Node
    total: Node
    scales: tuple[Step, ...]
    members: frozenset[Node]
    keeps_empty: bool


def attention_of(product: Node, producer: Producer, readers: Readers) -> Attention | None:
    """Return the attention that ends in `product`, or None if `product` is not the second dot of an attention."""
    if product.op not in DOTS:
        return None
    candidates = (_of_side(product, side, producer, readers) for side in (0, 1))
    return next((attention for attention in candidates if attention is not None), None)


def _of_side(product: Node, side: int, producer: Producer, readers: Readers) -> Attention | None:
    path_and_exponential = linear_path(product.operands[side], producer)
    if path_and_exponential is None:
        return None
    path, exponential = path_and_exponential
    shifted = producer(exponential.operands[0])
    if shifted is None or shifted.op != "subtract":
        return None
    softmaxed, shift = shifted.operands
    row_shift, scores = _row_value(shift, producer), _scores(softmaxed, producer)
    total = _total(exponential.result, producer, readers)
    if row_shift is None or total is None or scores is None or row_shift[0].operands[0] is not softmaxed:
        return None
    (maximum, between), (dot, function) = row_shift, scores
    scaled = _scales(path, maximum, total[0], producer)
    if scaled is None or not _is_maximum(maximum, producer) or not _is_shift(between, producer):
        return None
    scales, rows = scaled
    linear = [node for node, _ in path]
    members = frozenset([product, dot, exponential, shifted, maximum, *total, *linear, *between, *function, *rows])
    keeps_empty = any(node.op == "select" for node in between)
    return Attention(dot, product, side, softmaxed, exponential, maximum, total[0], scales, members, keeps_empty)


# ---- nodes around the softmax


def linear_path(value: Value, producer: Producer) -> tuple[list[Step], Node] | None:
    """Return the path from `value` upstream to an exponential through ops that are linear in it, and the exponential.

    Returns None if no such path exists.
    """
    return _linear_path(value, producer, set())


def _linear_path(value: Value, producer: Producer, seen: set[Value]) -> tuple[list[Step], Node] | None:
    """Search like `linear_path`. Values in `seen` do not lead to an exponential."""
    node = producer(value)
    if node is None or value in seen or len(seen) > _MOST_STEPS:
        return None
    if node.op == "exponential":
        return [], node
    seen.add(value)
    for i in linear_operands(node, producer):
        if (rest := _linear_path(node.operands[i], producer, seen)) is not None:
            return [(node, i), *rest[0]], rest[1]
    return None


def linear_operands(node: Node, producer: Producer) -> Sequence[int]:
    """Return the positions of operands to each of which the result is proportional while the other operands are fixed."""
    match node.op:
        case "mask_padding":
            return (0,) if node.attrs.fill == 0 else ()
        case "convert" | "negate" | "divide":
            return (0,)
        case "multiply":
            return (0, 1)
        case "select":
            return [i for i in (1, 2) if splat(node.operands[3 - i], producer) == 0]
        case op if op in LAYOUT - LEAVING:
            return (0,)
        case _:
            return ()


def splat(value: Value, producer: Producer) -> float | None:
    """Return the number that all elements of `value` have, through any broadcasts.

    Returns None if the elements differ or are unknown.
    """
    node = producer(value)
    while node is not None and node.op in ("broadcast_in_dim", "reshape", "convert"):
        node = producer(node.operands[0])
    if not is_constant(node) or not node.attrs.value.size:
        return None
    array = np.asarray(node.attrs.value)
    return float(array.flat[0]) if array.dtype.kind in "fiubV" and (array == array.flat[0]).all() else None


def upstream(
    value: Value, is_end: Callable[[Node], bool], producer: Producer
) -> tuple[dict[Node, None], dict[Node, None]]:
    """Return the element-wise nodes and index maps from which `value` is computed, and the end nodes where the walk
    stops.

    The walk goes upstream from `value` and stops at nodes for which `is_end` is true.
    """
    reaches: dict[Node, bool] = {}
    ends: dict[Node, None] = {}
    stack = [(node, False)] if (node := producer(value)) is not None else []
    while stack:
        node, is_done = stack.pop()
        sources = [source for v in node.operands if (source := producer(v)) is not None]
        if is_done:
            reaches[node] = any(reaches.get(source, False) for source in sources)
        elif node in reaches:
            continue
        elif is_end(node):
            ends[node], reaches[node] = None, True
        elif node.op in _THROUGH and len(reaches) < _MOST_NODES * 4:
            reaches[node] = False
            stack.append((node, True))
            stack += [(source, False) for source in sources]
    return {node: None for node, is_between in reaches.items() if is_between and node not in ends}, ends


def _is_reduce(node: Node) -> bool:
    return node.op in REDUCTIONS


def _row_value(value: Value, producer: Producer) -> tuple[Node, dict[Node, None]] | None:
    """Return the reduction from which `value` is computed, and the nodes between, or None unless exactly one reduction
    exists.
    """
    between, ends = upstream(value, _is_reduce, producer)
    return (next(iter(ends)), between) if len(ends) == 1 else None


def _is_maximum(node: Node, producer: Producer) -> bool:
    low = splat(node.operands[1], producer)
    return node.attrs.kind == "maximum" and low is not None and low < _LEAST_MAXIMUM


def _is_shift(between: Iterable[Node], producer: Producer) -> bool:
    """Whether the nodes `between` forward a finite row maximum unchanged. They may replace a non-finite maximum by 0."""

    def keeps(node: Node) -> bool:
        if node.op == "maximum":
            numbers = [splat(v, producer) for v in node.operands]
            return any(number is not None and number < _LEAST_MAXIMUM for number in numbers)
        if node.op == "select":
            test = producer(node.operands[0])
            return test is not None and test.op == "is_finite" and splat(node.operands[2], producer) == 0
        return node.op in ("convert", "is_finite") or node.op in LAYOUT - LEAVING

    return all(keeps(node) for node in between)


def _total(exponentials: Value, producer: Producer, readers: Readers) -> list[Node] | None:
    """Return the node that sums the exponentials, followed by the conversions before it, or None if no such sum exists."""
    for node in readers(exponentials):
        is_sum = node.op in REDUCTIONS and node.attrs.kind == "add" and node.operands[0] is exponentials
        if is_sum and splat(node.operands[1], producer) == 0:
            return [node]
        if node.op == "convert" and (inner := _total(node.result, producer, readers)) is not None:
            return [*inner, node]
    return None


def _scores(value: Value, producer: Producer) -> tuple[Node, dict[Node, None]] | None:
    """Return the dot that computes the scores behind `value` (the nearest of several), and the nodes of the score
    function.

    Returns None if no dot is found, or if the score function is too long or not element-wise.
    """
    ends = list(upstream(value, lambda node: node.op in DOTS, producer)[1])
    if not ends:
        return None
    nearest = min(ends, key=lambda dot: len(upstream(value, lambda node: node is dot, producer)[0]))
    function = upstream(value, lambda node: node is nearest, producer)[0]
    allowed = all(node.op in POINTWISE or node.op in LAYOUT - LEAVING for node in function)
    return (nearest, function) if allowed and len(function) <= _MOST_NODES else None


def _scales(
    path: Sequence[Step], maximum: Node, total: Node, producer: Producer
) -> tuple[tuple[Step, ...], dict[Node, None]] | None:
    """Return the steps of `path` that divide or multiply by a function of the row sum, and the nodes of these
    functions.

    Returns None if anything on the path, except the exponentials, depends on the row maximum.
    """
    steps, between = list[Step](), dict[Node, None]()
    for node, operand_number in path:
        other_operands = [v for i, v in enumerate(node.operands) if i != operand_number]
        rows = [upstream(v, lambda n: n is total or n is maximum, producer) for v in other_operands]
        if any(maximum in ends for _, ends in rows):
            return None
        if any(ends for _, ends in rows):
            if node.op not in ("divide", "multiply"):
                return None
            steps.append((node, operand_number))
            between |= {n: None for inner, _ in rows for n in inner}
    return tuple(steps), between
