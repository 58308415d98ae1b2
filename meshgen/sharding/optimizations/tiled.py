"""Operations of a local program on tiles: the form of an operation if one of its loops is cut, or its operands are partial.

This follows from its sharding rule: a loop that is the major part of a dim, and is not summed or shifted, may be
sliced before the operation or after it. Passes move collectives across operations accordingly.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from meshgen.ir.graph import Node, TensorType, Value
from meshgen.ops.classes import ARRANGING, ATTENTIONS, ELEMENTWISE, LOOPS
from meshgen.ops.evaluate.common import neutral
from meshgen.ops.registry import rule_of
from meshgen.ops.rules.rule import Rule
from meshgen.sharding.optimizations.rewrite import Walk

TILED = (ELEMENTWISE | ARRANGING | LOOPS) - ATTENTIONS  # attributes do not depend on the cut dims, except for a slice


class Loop(NamedTuple):
    """A loop of an operation: the dim of each operand that has it, and of the result."""

    operands: tuple[int | None, ...]
    result: int


def loop_of(
    node: Node, dim: int, count: int, *, operand: int | None = None, find_rule: Callable[[Node], Rule] = rule_of
) -> Loop | None:
    """The loop that is the major part of a dim of the result (of an operand), if it can be cut into `count` tiles.

    `find_rule` gives the node's rule, for one who asks about many loops of nodes that are alike.
    """
    if node.op not in TILED or len(node.results) != 1:
        return None
    rule = find_rule(node)
    factors = (rule.results[0] if operand is None else rule.operands[operand])[dim]
    if not factors or rule.factors[factors[0]].kind != "parallel" or rule.factors[factors[0]].size % count:
        return None
    factor = factors[0]
    places, (place,) = rule.places(factor)
    if place is None or any(window.factor == factor for window in rule.windows):
        return None
    dims = [(m, d) for m, d in zip((*rule.operands, rule.results[0]), (*places, place), strict=True) if d is not None]
    return Loop(places, place) if all(m[d][0] == factor for m, d in dims) else None


def tile_of(kind: TensorType, dim: int, count: int) -> TensorType:
    """The type of a tile."""
    return kind.with_shape(-(-size // count) if d == dim else size for d, size in enumerate(kind.sizes))


def attrs_on_tiles(node: Node, loop: Loop, count: int) -> dict[str, Any]:
    """The attributes of the operation on tiles."""
    dim = loop.operands[0]
    if node.op != "slice" or dim is None:
        return node.attrs
    limit = tuple(stop // count if d == dim else stop for d, stop in enumerate(node.attrs.limit))
    return {**node.attrs, "limit": limit}


def linear_operands(node: Node, partial: Sequence[int], kind: str, axes: Sequence[str], walk: Walk) -> bool:
    """Whether a reduction of these operands, of this kind over `axes`, may be done after the operation instead.

    It must be linear in them, and other operands the same on all devices; another term
    (the initial value of a reduction, a padding value) must be a neutral element.
    """
    if node.op not in TILED or len(node.results) != 1 or (kind in ("sum", "product") and _is_truth(node)):
        return False
    for linear in rule_of(node).linear:
        rest = [number for number in linear.operands if number not in partial]
        others = [value for number, value in enumerate(node.operands) if number not in linear.operands]
        if kind not in linear.kinds or not set(partial) <= set(linear.operands):
            continue
        if all(_is_neutral(node.operands[number], kind, walk) for number in rest):
            return all(walk.is_uniform(value, axes) for value in others)
    return False


def _is_truth(node: Node) -> bool:
    """Whether it works on booleans, whose sum wraps."""
    return any(value.type.dtype == "i1" for value in (*node.operands, *node.results)) and node.op != "select"


def _is_neutral(value: Value, kind: str, walk: Walk) -> bool:
    made = walk.constants.get(value)
    if value.type.rank or made is None:
        return False
    return bool(np.all(made.attrs.value == neutral(kind, value.type.dtype)))
