"""Sharding rules of reductions and dots: a sharded contracted factor leaves a partial result."""

from __future__ import annotations

from collections.abc import Iterator

from meshgen.ir.graph import Node
from meshgen.ops.dot_dims import DotDims
from meshgen.ops.rules.rule import Linear, Rule, letters, linear_in_each, reduction_kind, rule


def reduce(node: Node) -> Rule:
    """Return the rule of a reduction. Partial operands give a partial result.

    The result is also linear in the initial value, which is partial like the operand, so that only one device adds it.
    """
    operand, result = node.operands[0].type, node.result.type
    factor_names = letters(operand.rank)
    kind = reduction_kind(node.attrs.kind)
    result_dims = " ".join(n for d, n in enumerate(factor_names) if d not in node.attrs.dims) or "()"
    reduced = {factor_names[d]: kind for d in node.attrs.dims}
    return rule(
        f"{' '.join(factor_names)}, () -> {result_dims}",
        [operand, node.operands[1].type],
        [result],
        reduce=reduced,
        linear=(Linear((0, 1), (kind,)),),
    )


def dot_general(node: Node) -> Rule:
    """Return the rule of `dot_general`, with factors for batch, lhs free, rhs free and contracted dims.

    The result is linear in either operand.
    """
    lhs, rhs = (value.type for value in node.operands)
    dims = DotDims.of(node)
    names = iter(letters(lhs.rank + rhs.rank))
    left: list[str] = [""] * lhs.rank
    right: list[str] = [""] * rhs.rank
    for i, j in zip(*dims.batch, strict=True):
        left[i] = right[j] = next(names)
    batch = [left[i] for i in dims.batch[0]]
    free = [
        _name_dim(side, d, names) for side, side_dims in zip((left, right), dims.free, strict=True) for d in side_dims
    ]
    for i, j in zip(*dims.contract, strict=True):
        left[i] = right[j] = next(names)
    reduced = {left[i]: "sum" for i in dims.contract[0]}
    sides = [" ".join(side) or "()" for side in (left, right, batch + free)]
    return rule(
        f"{sides[0]}, {sides[1]} -> {sides[2]}",
        [lhs, rhs],
        [node.result.type],
        reduce=reduced,
        linear=linear_in_each([lhs, rhs], node.result.type),
    )


def ragged_dot(node: Node) -> Rule:
    """Return the rule of a grouped matmul with factors rows (m), contracted dim (k), columns (n) and groups (g).

    The operands for starts and ends of groups contain positions along the rows. If the groups of `m k, g k n -> m n`
    are sharded, each device multiplies the rows of its groups and writes zeros for all others: a partial sum.
    """
    operands = [value.type for value in node.operands]
    linear = linear_in_each(operands[:2], node.result.type)
    if node.attrs.contracts:
        notation, reduced, indexed = "m k, m n, g, g -> g k n", ("m",), ()
    else:
        notation, reduced, indexed = "m k, g k n, g, g -> m n", ("k", "g"), ("m",)
    return rule(
        notation, operands, [node.result.type], reduce=dict.fromkeys(reduced, "sum"), indexed=indexed, linear=linear
    )


def _name_dim(side: list[str], dim: int, names: Iterator[str]) -> str:
    side[dim] = next(names)
    return side[dim]
