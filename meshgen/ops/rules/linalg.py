"""Sharding rules of matrix factorizations and Fourier transforms.

Batch dims are parallel; the dims of the matrices and the transformed dims stay replicated.
"""

from __future__ import annotations

from meshgen.ir.graph import Node
from meshgen.ops.lapack import ROUTINES
from meshgen.ops.rules.rule import Linear, Rule, letters, rule


def cholesky(node: Node) -> Rule:
    operand = node.operands[0].type
    batch = letters(operand.rank - 2)
    dims = " ".join([*batch, "m", "n"])
    return rule(f"{dims} -> {dims}", [operand], [operand], whole=("m", "n"))


def triangular_solve(node: Node) -> Rule:
    """Return the rule of a triangular solve. The right-hand sides are independent, so their dim is parallel.

    The solution is linear in the right-hand sides.
    """
    a, b = (value.type for value in node.operands)
    batch = letters(a.rank - 2)
    right_names = ("n", "r") if node.attrs.left_side else ("r", "n")
    matrix_dims, solution_dims = (" ".join([*batch, *dims]) for dims in (("m", "n"), right_names))
    return rule(
        f"{matrix_dims}, {solution_dims} -> {solution_dims}", [a, b], [b], whole=("m", "n"), linear=(Linear((1,)),)
    )


def lapack(node: Node) -> Rule:
    count = node.operands[0].type.rank - ROUTINES[node.attrs.routine].rank
    batch, notations, replicated = letters(count), [], list[str]()
    for side in (node.operands, node.results):
        tensor_dims: list[str] = []
        for value in side:
            inner = [f"{name}_{len(replicated)}" for name in letters(value.type.rank - count)]
            replicated += inner
            tensor_dims.append(" ".join([*batch, *inner]) or "()")
        notations.append(", ".join(tensor_dims))
    types = ([value.type for value in side] for side in (node.operands, node.results))
    return rule(f"{notations[0]} -> {notations[1]}", *types, whole=replicated)


def fft(node: Node) -> Rule:
    operand, result = node.operands[0].type, node.result.type
    names = letters(operand.rank)
    batch_rank = operand.rank - len(node.attrs.length)
    source, target = ([*names[:batch_rank], *(f"{n}_{side}" for n in names[batch_rank:])] for side in "0r")
    replicated = [*source[batch_rank:], *target[batch_rank:]]
    return rule(
        f"{' '.join(source)} -> {' '.join(target)}", [operand], [result], whole=replicated, linear=(Linear((0,)),)
    )
