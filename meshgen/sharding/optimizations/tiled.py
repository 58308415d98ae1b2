"""Operations of a local program on tiles: what an operation is where one of its loops is cut, or its operands are partial.

The sharding rule of an operation says it: a loop that is the major part of a dim, and is not summed or shifted, may be
cut in front of the operation or behind it. Passes move collectives over operations by it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from meshgen.ir.graph import Node, TensorType, Value
from meshgen.ops.classes import ARRANGING, ELEMENTWISE, LOOPS
from meshgen.ops.evaluate.common import neutral
from meshgen.ops.registry import rule_of
from meshgen.sharding.optimizations.rewrite import Walk

TILED = ELEMENTWISE | ARRANGING | LOOPS  # attributes say nothing of dims that are cut, but of a slice


@dataclass(frozen=True)
class Loop:
    """A loop of an operation and where it is: the dim of each operand that has it, and of the result."""

    operands: tuple[int | None, ...]
    result: int


def loop_of(node: Node, dim: int, count: int, *, operand: int | None = None) -> Loop | None:
    """The loop that is the major part of a dim of the result (of an operand), if it can be cut into `count` tiles."""
    if node.op not in TILED or len(node.results) != 1:
        return None
    rule = rule_of(node)
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
    limit = tuple(stop // count if d == dim else stop for d, stop in enumerate(node.attrs["limit"]))
    return {**node.attrs, "limit": limit}


def linear_operands(node: Node, partial: Sequence[int], kind: str, axes: Sequence[str], walk: Walk) -> bool:
    """Whether a reduction of these operands, of this kind over `axes`, may be done behind the operation instead.

    It must be linear in them and what else it takes the same on all devices; of what it takes besides as a term
    (the initial value of a reduction, what is padded with) only a neutral element is so.
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
    """Whether it works on truth values, of which a sum wraps."""
    return any(value.type.dtype == "i1" for value in (*node.operands, *node.results)) and node.op != "select"


def _is_neutral(value: Value, kind: str, walk: Walk) -> bool:
    made = walk.constants.get(value)
    if value.type.rank or made is None:
        return False
    return bool(np.all(made.attrs["value"] == neutral(kind, value.type.dtype)))
