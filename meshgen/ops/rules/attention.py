"""The sharding rule of attention: keys and the depth of the first product are whole, so a device has all scores of its rows."""

from __future__ import annotations

from meshgen.ir.graph import Node
from meshgen.ops.factors import Factors
from meshgen.ops.rules.rule import Rule, rule


def attention(node: Node) -> Rule:
    factors = Factors.of(node)
    whole = (*factors.keys, *factors.depth)
    return rule(node.attrs.factors, [v.type for v in node.operands], [v.type for v in node.results], whole=whole)
