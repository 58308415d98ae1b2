"""Sharding rules of composites whose nodes have their factors as text: a factor that is reduced inside may be split."""

from __future__ import annotations

from collections.abc import Iterable

from meshgen.ir.graph import Node
from meshgen.ops.factors import parsed
from meshgen.ops.rules.rule import Linear, Rule, rule


def normalize(node: Node) -> Rule:
    """Devices exchange the statistics of what they have of a row."""
    (x, *_), results = parsed(node.attrs.factors)
    return _combining(node, (f for f in x if f not in results[-1]))


def normalize_gradient(node: Node) -> Rule:
    """Devices exchange the means of what they have of a row."""
    (_, x, rows, *_), _ = parsed(node.attrs.factors)
    return _combining(node, (f for f in x if f not in rows))


def softmax_cross_entropy(node: Node) -> Rule:
    """Devices exchange maximum, sum and chosen element of what they have of a row."""
    (logits, labels), _ = parsed(node.attrs.factors)
    return _combining(node, (f for f in logits if f not in labels))


def scaled_dot(node: Node) -> Rule:
    """Scales and zero points are split with the groups of the numbers; a sum over a split factor is partial. Bytes are whole."""
    names, (out,) = parsed(node.attrs.factors)
    operands = [value.type for value in node.operands]
    summed = [f for f in names[0] if f not in out]
    reduced = {f: "sum" for f in summed if f in names[1]}
    whole = tuple(f for f in summed if f not in reduced)
    return rule(node.attrs.factors, operands, [node.result.type], reduce=reduced, whole=whole, linear=(Linear((0,)),))


def _combining(node: Node, reduced: Iterable[str]) -> Rule:
    operands, results = ([value.type for value in side] for side in (node.operands, node.results))
    return rule(node.attrs.factors, operands, results, combine=tuple(reduced))
