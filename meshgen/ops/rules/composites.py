"""Sharding rules of composites whose nodes have their factors as text: a factor that is reduced inside may be split."""

from __future__ import annotations

from collections.abc import Iterable

from meshgen.ir.graph import Node
from meshgen.ops.factors import parsed
from meshgen.ops.rules.rule import Rule, rule


def normalize(node: Node) -> Rule:
    """Devices exchange the statistics of what they have of a row."""
    (x, *_), results = parsed(node.attrs.factors)
    return _combining(node, (f for f in x if f not in results[-1]))


def normalize_gradient(node: Node) -> Rule:
    """Devices exchange the means of what they have of a row."""
    (_, x, rows, *_), _ = parsed(node.attrs.factors)
    return _combining(node, (f for f in x if f not in rows))


def _combining(node: Node, reduced: Iterable[str]) -> Rule:
    operands, results = ([value.type for value in side] for side in (node.operands, node.results))
    return rule(node.attrs.factors, operands, results, combine=tuple(reduced))
