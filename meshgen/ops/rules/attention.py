"""Sharding rules of attention and its gradients.

In attention, keys and the depth of the first product are whole: a device has all scores of its rows. A gradient is given what it needs of each row, so
that of the queries may be partial sums over keys, and those of keys and values partial sums over rows.
"""

from __future__ import annotations

from meshgen.ir.graph import Node
from meshgen.ops.factors import FORWARD, Factors
from meshgen.ops.rules.rule import Rule, rule


def attention(node: Node) -> Rule:
    factors = Factors.of(node)
    whole, reduced = [*factors.depth], dict[str, str]()
    if node.op == FORWARD:
        whole += factors.keys
    else:
        whole += factors.width
        kept = [{*names} for names in factors.results]
        for name in (*factors.rows, *factors.keys):
            if all(name not in names for names in kept):
                reduced[name] = "sum"
            elif any(name not in names for names in kept):
                whole.append(name)
    operands, results = ([v.type for v in side] for side in (node.operands, node.results))
    return rule(node.attrs.factors, operands, results, whole=tuple(whole), reduce=reduced)
