"""Sharding rules of composites that store their factor notation as an attribute.

Factors that the composite reduces internally may be sharded, too.
"""

from __future__ import annotations

from collections.abc import Iterable

from meshgen.ir.graph import Node
from meshgen.ops.factors import parsed
from meshgen.ops.rules.rule import Linear, Rule, rule


def normalize(node: Node) -> Rule:
    """Return the rule of a normalization. Devices that share a row combine the row's statistics."""
    (x, *_), results = parsed(node.attrs.factors)
    return _combining(node, (f for f in x if f not in results[-1]))


def normalize_gradient(node: Node) -> Rule:
    """Return the rule of a normalization's gradient. Devices that share a row combine two means over the row."""
    (_, x, rows, *_), _ = parsed(node.attrs.factors)
    return _combining(node, (f for f in x if f not in rows))


def softmax_cross_entropy(node: Node) -> Rule:
    """Return the rule of softmax cross-entropy.

    Devices that share a row combine the row's maximum, its sum, and the element that the label selects.
    """
    (logits, labels), _ = parsed(node.attrs.factors)
    return _combining(node, (f for f in logits if f not in labels))


def scaled_dot(node: Node) -> Rule:
    """Return the rule of a matmul with block-scaled operands.

    Scales and zero points are sharded like the blocks of elements that they scale. A sharded contracted factor leaves a
    partial sum. The factor that counts the elements packed in one byte stays replicated.
    """
    names, (out,) = parsed(node.attrs.factors)
    operands = [value.type for value in node.operands]
    summed = [f for f in names[0] if f not in out]
    reduced = {f: "sum" for f in summed if f in names[1]}
    whole = tuple(f for f in summed if f not in reduced)
    return rule(node.attrs.factors, operands, [node.result.type], reduce=reduced, whole=whole, linear=(Linear((0,)),))


def _combining(node: Node, reduced: Iterable[str]) -> Rule:
    operands, results = ([value.type for value in side] for side in (node.operands, node.results))
    return rule(node.attrs.factors, operands, results, combine=tuple(reduced))
