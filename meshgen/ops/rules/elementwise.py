"""Rules of element-wise operations: all dims are tied, and some ops are linear."""

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes

from meshgen.ir.graph import DTYPES, Node, is_float, is_inexact
from meshgen.ops.rules.rule import ALL_KINDS, Linear, Rule, letters, rule


def pointwise(*linear: Linear) -> Callable[[Node], Rule]:
    """All dims are tied. `linear`: the operands that make the result partial if they are."""

    def found(node: Node) -> Rule:
        dims = " ".join(letters(node.results[0].type.rank)) or "()"
        types = [value.type for value in node.operands]
        return rule(f"{', '.join([dims] * len(types))} -> {dims}", types, [node.result.type], linear=linear)

    return found


WHOLE = pointwise()
FIRST = pointwise(Linear((0,)))
TOGETHER = pointwise(Linear((0, 1)))
PRODUCT = pointwise(Linear((0,)), Linear((1,)), Linear((0, 1), ("product",)))


def of_kind(kind: str) -> Callable[[Node], Rule]:
    """An op that combines two values that are partial with its own kind: max of partial maxima, ..."""
    return pointwise(Linear((0, 1), (kind,)))


def divide(node: Node) -> Rule:
    """Linear in the dividend, unless integers are cut off."""
    return (FIRST if is_inexact(node.result.type.dtype) else WHOLE)(node)


def convert(node: Node) -> Rule:
    """Linear where the result is a float type that has all numbers of the operand's: another would round each part."""
    source, target = node.operands[0].type, node.result.type
    dims = " ".join(letters(target.rank)) or "()"
    widens = is_float(source.dtype) and is_float(target.dtype) and _has_all(target.dtype, source.dtype)
    return rule(
        f"{dims} -> {dims}", [source], [target], linear=(Linear((0,), ("sum", "max", "min")),) if widens else ()
    )


def _has_all(dtype: str, other: str) -> bool:
    """Whether a float type has all numbers of another one: bf16 and f16 are as long, and neither has those of the other."""
    wide, narrow = (ml_dtypes.finfo(DTYPES[name]) for name in (dtype, other))
    return wide.nmant >= narrow.nmant and wide.maxexp >= narrow.maxexp and wide.minexp <= narrow.minexp


def bitcast_convert(node: Node) -> Rule:
    """A change of width adds or drops a minor dim, which stays whole."""
    source, target = node.operands[0].type, node.result.type
    shared = min(source.rank, target.rank)
    names = letters(shared)
    sides = [" ".join([*names, *(["w"] if kind.rank > shared else [])]) or "()" for kind in (source, target)]
    return rule(f"{sides[0]} -> {sides[1]}", [source], [target], whole=("w",) if source.rank != target.rank else ())


def _arms(*linear: Linear) -> Callable[[Node], Rule]:
    def found(node: Node) -> Rule:
        types, result = [value.type for value in node.operands], node.result.type
        dims = " ".join(letters(result.rank)) or "()"
        sides = ", ".join(dims if kind.rank == result.rank else "()" for kind in types)
        return rule(f"{sides} -> {dims}", types, [result], linear=linear)

    return found


# A 0-d predicate or bound is read whole. select is linear in its two arms together.
select = _arms(Linear((1, 2), ALL_KINDS))
clamp = _arms()
