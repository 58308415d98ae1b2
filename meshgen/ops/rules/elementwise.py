"""Sharding rules of element-wise operations: all dims share their factors, and some ops are linear."""

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes

from meshgen.ir.graph import DTYPES, Node, is_float, is_inexact
from meshgen.ops.rules.rule import ALL_KINDS, Linear, Rule, letters, rule


def pointwise(*linear: Linear) -> Callable[[Node], Rule]:
    """Return a rule function for ops whose operands and results all have the same dims.

    Args:
        linear: the sets of operands in which the op is linear: if these operands are partial, so is the result.
    """

    def pointwise_rule(node: Node) -> Rule:
        dims = " ".join(letters(node.results[0].type.rank)) or "()"
        types = [value.type for value in node.operands]
        return rule(f"{', '.join([dims] * len(types))} -> {dims}", types, [node.result.type], linear=linear)

    return pointwise_rule


WHOLE = pointwise()
FIRST = pointwise(Linear((0,)))
TOGETHER = pointwise(Linear((0, 1)))
PRODUCT = pointwise(Linear((0,)), Linear((1,)), Linear((0, 1), ("product",)))


def of_kind(kind: str) -> Callable[[Node], Rule]:
    """Return a rule function for a binary op that preserves partial values of kind `kind`.

    For example, the `maximum` of two partial maxima is a partial maximum.
    """
    return pointwise(Linear((0, 1), (kind,)))


def divide(node: Node) -> Rule:
    """Return the rule of a division. It is linear in the dividend, except for integers, because their quotients are
    truncated.
    """
    return (FIRST if is_inexact(node.result.type.dtype) else WHOLE)(node)


def convert(node: Node) -> Rule:
    """Return the rule of a conversion.

    The conversion is linear if the result's float type represents every value of the operand's type. Any other
    conversion would round each partial value.
    """
    source, target = node.operands[0].type, node.result.type
    dims = " ".join(letters(target.rank)) or "()"
    widens = is_float(source.dtype) and is_float(target.dtype) and _has_all(target.dtype, source.dtype)
    return rule(
        f"{dims} -> {dims}", [source], [target], linear=(Linear((0,), ("sum", "max", "min")),) if widens else ()
    )


def _has_all(dtype: str, other: str) -> bool:
    """Whether float type `dtype` represents every value of float type `other`.

    For bf16 and f16 this is false in both directions, although both have 16 bits.
    """
    wide, narrow = (ml_dtypes.finfo(DTYPES[name]) for name in (dtype, other))
    return wide.nmant >= narrow.nmant and wide.maxexp >= narrow.maxexp and wide.minexp <= narrow.minexp


def bitcast_convert(node: Node) -> Rule:
    """Return the rule of a bitcast: the minor dim that a change of width adds or drops stays replicated."""
    source, target = node.operands[0].type, node.result.type
    shared = min(source.rank, target.rank)
    shared_factors = letters(shared)
    sides = [
        " ".join([*shared_factors, *(["w"] if tensor_type.rank > shared else [])]) or "()"
        for tensor_type in (source, target)
    ]
    return rule(f"{sides[0]} -> {sides[1]}", [source], [target], whole=("w",) if source.rank != target.rank else ())


def _with_scalars(*linear: Linear) -> Callable[[Node], Rule]:
    def select_rule(node: Node) -> Rule:
        types, result = [value.type for value in node.operands], node.result.type
        dims = " ".join(letters(result.rank)) or "()"
        sides = ", ".join(dims if tensor_type.rank == result.rank else "()" for tensor_type in types)
        return rule(f"{sides} -> {dims}", types, [result], linear=linear)

    return select_rule


# A 0-d predicate or bound is replicated. `select` is linear in its two branches jointly.
select = _with_scalars(Linear((1, 2), ALL_KINDS))
clamp = _with_scalars()
