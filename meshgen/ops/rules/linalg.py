"""Rules of matrix factorisations and Fourier transforms: batches are parallel, transformed dims stay whole."""

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
    """Right-hand sides are solved one by one: they are parallel, and the solution is linear in them."""
    a, b = (value.type for value in node.operands)
    batch = letters(a.rank - 2)
    right = ("n", "r") if node.attrs.left_side else ("r", "n")
    given, wanted = (" ".join([*batch, *dims]) for dims in (("m", "n"), right))
    return rule(f"{given}, {wanted} -> {wanted}", [a, b], [b], whole=("m", "n"), linear=(Linear((1,)),))


def lapack(node: Node) -> Rule:
    count = node.operands[0].type.rank - ROUTINES[node.attrs.routine].rank
    batch, sides, whole = letters(count), [], list[str]()
    for side in (node.operands, node.results):
        words: list[str] = []
        for value in side:
            inner = [f"{name}_{len(whole)}" for name in letters(value.type.rank - count)]
            whole += inner
            words.append(" ".join([*batch, *inner]) or "()")
        sides.append(", ".join(words))
    types = ([value.type for value in side] for side in (node.operands, node.results))
    return rule(f"{sides[0]} -> {sides[1]}", *types, whole=whole)


def fft(node: Node) -> Rule:
    operand, result = node.operands[0].type, node.result.type
    names = letters(operand.rank)
    first = operand.rank - len(node.attrs.length)
    source, target = ([*names[:first], *(f"{n}_{side}" for n in names[first:])] for side in "0r")
    whole = [*source[first:], *target[first:]]
    return rule(f"{' '.join(source)} -> {' '.join(target)}", [operand], [result], whole=whole, linear=(Linear((0,)),))
