"""Sharding rules of attention and its gradients.

The factors of the contracted feature dim stay replicated, and in the forward op also the factors of the keys, so
that each device has all scores of its rows. A gradient op takes the log-sum-exp and `delta` of each row as
operands. The gradient of the queries may therefore be a partial sum over shards of the keys, and the gradients of
keys and values partial sums over shards of the rows.
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
        result_factors = [{*names} for names in factors.results]
        for name in (*factors.rows, *factors.keys):
            if all(name not in names for names in result_factors):
                reduced[name] = "sum"
            elif any(name not in names for names in result_factors):
                whole.append(name)
    operands, results = ([v.type for v in side] for side in (node.operands, node.results))
    return rule(node.attrs.factors, operands, results, whole=tuple(whole), reduce=reduced)
