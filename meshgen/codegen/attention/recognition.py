"""Attention: a softmax between two products, which one kernel computes without writing the scores.

    scores = dot(q, k)                      [.., rows, n]
    s      = mask, bias, scale of scores    any element-wise function
    e      = exp(s - max(s))
    p      = e / sum(e)                     or the division follows the second product
    result = dot(p, v)

Values over `n` exist in registers only; values per row (the maximum, the sum) may be read elsewhere, for a backward pass.
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
Step = tuple[Node, int]  # a node, and the number of the operand that it is linear in
_THROUGH = POINTWISE | LAYOUT
_LEAST_MAXIMUM = -3e38  # a constant below it does not bound a row's maximum: finfo(bf16).min is -3.39e38
_MOST_NODES = 64  # of the function of the scores
_MOST_STEPS = 32  # values that are looked at between the exponentials and the product


class Attention(NamedTuple):
    """The nodes of one attention.

    Attributes:
        scores, product: the two dots; `side` is the number of the product's operand that holds the probabilities.
        softmaxed: the value whose softmax is taken.
        exponential, maximum, total: the nodes of the softmax.
        scales: nodes between it and the product that divide or multiply by a value per row.
        members: all nodes from the first dot to the second.
        keeps_empty: rows of which all scores are -inf have a total of 0, not of NaN.
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
    """The attention that ends in a dot; None if it is not the second product of one."""
    if product.op not in DOTS:
        return None
    found = (_of_side(product, side, producer, readers) for side in (0, 1))
    return next((each for each in found if each is not None), None)


def _of_side(product: Node, side: int, producer: Producer, readers: Readers) -> Attention | None:
    way = linear_path(product.operands[side], producer)
    if way is None:
        return None
    path, exponential = way
    shifted = producer(exponential.operands[0])
    if shifted is None or shifted.op != "subtract":
        return None
    softmaxed, shift = shifted.operands
    lowered, scores = _row_value(shift, producer), _scores(softmaxed, producer)
    total = _total(exponential.result, producer, readers)
    if lowered is None or total is None or scores is None or lowered[0].operands[0] is not softmaxed:
        return None
    (maximum, between), (dot, function) = lowered, scores
    scaled = _scales(path, maximum, total[0], producer)
    if scaled is None or not _is_maximum(maximum, producer) or not _is_shift(between, producer):
        return None
    scales, rows = scaled
    linear = [node for node, _ in path]
    members = frozenset([product, dot, exponential, shifted, maximum, *total, *linear, *between, *function, *rows])
    keeps_empty = any(node.op == "select" for node in between)
    return Attention(dot, product, side, softmaxed, exponential, maximum, total[0], scales, members, keeps_empty)


# ---- the parts


def linear_path(value: Value, producer: Producer) -> tuple[list[Step], Node] | None:
    """Nodes from a value back to an exponential, over operations that are linear in it, and the exponential."""
    return _linear_path(value, producer, set())


def _linear_path(value: Value, producer: Producer, seen: set[Value]) -> tuple[list[Step], Node] | None:
    """The same; `seen` are values from which none leads there."""
    node = producer(value)
    if node is None or value in seen or len(seen) > _MOST_STEPS:
        return None
    if node.op == "exponential":
        return [], node
    seen.add(value)
    for number in linear_operands(node, producer):
        if (found := _linear_path(node.operands[number], producer, seen)) is not None:
            return [(node, number), *found[0]], found[1]
    return None


def linear_operands(node: Node, producer: Producer) -> Sequence[int]:
    """Numbers of the operands that the result is proportional to, whatever the others are."""
    match node.op:
        case "mask_padding":
            return (0,) if node.attrs.fill == 0 else ()
        case "convert" | "negate" | "divide":
            return (0,)
        case "multiply":
            return (0, 1)
        case "select":
            return [number for number in (1, 2) if splat(node.operands[3 - number], producer) == 0]
        case op if op in LAYOUT - LEAVING:
            return (0,)
        case _:
            return ()


def splat(value: Value, producer: Producer) -> float | None:
    """The number that all elements of a value are, seen through broadcasts."""
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
    """Element-wise nodes and index maps between a value and the ends that it is computed from, and the ends."""
    reaches: dict[Node, bool] = {}
    ends: dict[Node, None] = {}
    stack = [(node, False)] if (node := producer(value)) is not None else []
    while stack:
        node, is_done = stack.pop()
        makers = [maker for v in node.operands if (maker := producer(v)) is not None]
        if is_done:
            reaches[node] = any(reaches.get(maker, False) for maker in makers)
        elif node in reaches:
            continue
        elif is_end(node):
            ends[node], reaches[node] = None, True
        elif node.op in _THROUGH and len(reaches) < _MOST_NODES * 4:
            reaches[node] = False
            stack.append((node, True))
            stack += [(maker, False) for maker in makers]
    return {node: None for node, found in reaches.items() if found and node not in ends}, ends


def _is_reduce(node: Node) -> bool:
    return node.op in REDUCTIONS


def _row_value(value: Value, producer: Producer) -> tuple[Node, dict[Node, None]] | None:
    """The one reduce that a value is computed from, and the nodes between."""
    between, ends = upstream(value, _is_reduce, producer)
    return (next(iter(ends)), between) if len(ends) == 1 else None


def _is_maximum(node: Node, producer: Producer) -> bool:
    low = splat(node.operands[1], producer)
    return node.attrs.kind == "maximum" and low is not None and low < _LEAST_MAXIMUM


def _is_shift(between: Iterable[Node], producer: Producer) -> bool:
    """Whether nodes leave a finite maximum of a row as it is, and replace others by 0 at most."""

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
    """The sum of the exponentials, then the conversions before it."""
    for node in readers(exponentials):
        is_sum = node.op in REDUCTIONS and node.attrs.kind == "add" and node.operands[0] is exponentials
        if is_sum and splat(node.operands[1], producer) == 0:
            return [node]
        if node.op == "convert" and (inner := _total(node.result, producer, readers)) is not None:
            return [*inner, node]
    return None


def _scores(value: Value, producer: Producer) -> tuple[Node, dict[Node, None]] | None:
    """The dot that the scores come from, the nearest one if there are several, and what is done to them."""
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
    """The steps of a path that divide or multiply by a value that depends on the row's sum only, and what makes it.

    None if something else than the exponentials depends on the row's maximum.
    """
    found, between = list[Step](), dict[Node, None]()
    for node, number in path:
        others = [v for i, v in enumerate(node.operands) if i != number]
        rows = [upstream(v, lambda n: n is total or n is maximum, producer) for v in others]
        if any(maximum in ends for _, ends in rows):
            return None
        if any(ends for _, ends in rows):
            if node.op not in ("divide", "multiply"):
                return None
            found.append((node, number))
            between |= {n: None for inner, _ in rows for n in inner}
    return tuple(found), between
