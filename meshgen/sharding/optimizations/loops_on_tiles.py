"""Ops of a local program on tiles: the form of an op when one of its loops is split, or its operands are partial.

The form follows from the op's sharding rule. A loop that is the major factor of a dim, and is neither reduced nor
shifted, can be sliced before or after the op. Passes use this to move collectives across ops.
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
from meshgen.sharding.optimizations.walk import Walk

# Ops that can run on tiles: their attributes do not depend on the split dims, except those of a slice.
TILED = (ELEMENTWISE | ARRANGING | LOOPS) - ATTENTIONS


class Loop(NamedTuple):
    """A loop of an op: the dim of each operand that the loop runs along (or None), and the dim of the result."""

    operands: tuple[int | None, ...]
    result: int


def loop_of(
    node: Node, dim: int, count: int, *, operand: int | None = None, find_rule: Callable[[Node], Rule] = rule_of
) -> Loop | None:
    """Return the major loop of `dim`, or None if it does not split evenly into `count` tiles.

    `dim` is a dim of the result, or of operand number `operand`. Callers that query many equal nodes can pass a cached
    `find_rule`.
    """
    if node.op not in TILED or len(node.results) != 1:
        return None
    rule = find_rule(node)
    factors = (rule.results[0] if operand is None else rule.operands[operand])[dim]
    if not factors or rule.factors[factors[0]].kind != "parallel" or rule.factors[factors[0]].size % count:
        return None
    factor = factors[0]
    operand_dims, (result_dim,) = rule.places(factor)
    if result_dim is None or any(window.factor == factor for window in rule.windows):
        return None
    dims = [
        (m, d)
        for m, d in zip((*rule.operands, rule.results[0]), (*operand_dims, result_dim), strict=True)
        if d is not None
    ]
    return Loop(operand_dims, result_dim) if all(m[d][0] == factor for m, d in dims) else None


def tile_of(tensor_type: TensorType, dim: int, count: int) -> TensorType:
    """Return the type of one of `count` tiles along `dim`."""
    return tensor_type.with_shape(-(-size // count) if d == dim else size for d, size in enumerate(tensor_type.sizes))


def attrs_on_tiles(node: Node, loop: Loop, count: int) -> dict[str, Any]:
    """Return the attributes of the op when it works on tiles."""
    dim = loop.operands[0]
    if node.op != "slice" or dim is None:
        return node.attrs
    limit = tuple(stop // count if d == dim else stop for d, stop in enumerate(node.attrs.limit))
    return {**node.attrs, "limit": limit}


def linear_operands(node: Node, partial: Sequence[int], kind: str, axes: Sequence[str], walk: Walk) -> bool:
    """Whether a reduction of the operands in `partial`, by `kind` over `axes`, can be moved after the op.

    The op must be linear in these operands, and all other operands must be equal on all devices. A further summand (the
    initial value of a reduction, a padding value) must be a neutral element.
    """
    if node.op not in TILED or len(node.results) != 1 or (kind in ("sum", "product") and _is_boolean(node)):
        return False
    for linear in rule_of(node).linear:
        other_summands = [index for index in linear.operands if index not in partial]
        uniform_operands = [value for index, value in enumerate(node.operands) if index not in linear.operands]
        if kind not in linear.kinds or not set(partial) <= set(linear.operands):
            continue
        if all(_is_neutral(node.operands[index], kind, walk) for index in other_summands):
            return all(walk.is_uniform(value, axes) for value in uniform_operands)
    return False


def _is_boolean(node: Node) -> bool:
    """Whether a node works on booleans, whose sum wraps."""
    return any(value.type.dtype == "i1" for value in (*node.operands, *node.results)) and node.op != "select"


def _is_neutral(value: Value, kind: str, walk: Walk) -> bool:
    constant = walk.constants.get(value)
    if value.type.rank or constant is None:
        return False
    return bool(np.all(constant.attrs.value == neutral(kind, value.type.dtype)))
