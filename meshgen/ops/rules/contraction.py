"""Rules of reductions and dots: a sharded reduced loop leaves a partial result."""

from __future__ import annotations

from collections.abc import Iterator

from meshgen.ir.graph import Node
from meshgen.ops.dot_dims import DotDims
from meshgen.ops.rules.rule import Linear, Rule, letters, linear_in_each, reduction_kind, rule


def reduce(node: Node) -> Rule:
    """Partial in, partial out; the initial value is then counted on one device only."""
    operand, result = node.operands[0].type, node.result.type
    names = letters(operand.rank)
    kind = reduction_kind(node.attrs.kind)
    kept = " ".join(n for d, n in enumerate(names) if d not in node.attrs.dims) or "()"
    reduced = {names[d]: kind for d in node.attrs.dims}
    return rule(
        f"{' '.join(names)}, () -> {kept}",
        [operand, node.operands[1].type],
        [result],
        reduce=reduced,
        linear=(Linear((0, 1), (kind,)),),
    )


def dot_general(node: Node) -> Rule:
    """Loops: batch, lhs free, rhs free, contracted; linear in either operand."""
    lhs, rhs = (value.type for value in node.operands)
    dims = DotDims.of(node)
    names = iter(letters(lhs.rank + rhs.rank))
    left: list[str] = [""] * lhs.rank
    right: list[str] = [""] * rhs.rank
    for i, j in zip(*dims.batch, strict=True):
        left[i] = right[j] = next(names)
    batch = [left[i] for i in dims.batch[0]]
    free = [_name_dim(side, d, names) for side, own in zip((left, right), dims.free, strict=True) for d in own]
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
    """Loops: rows, columns, contracted dim, groups. Starts and ends of groups are positions along the rows.

    A device with a part of the groups leaves zeros in the rows of the others, so that results are partial sums along the groups.
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
