"""Expand an attention whose keys are sharded into its decomposition, which communicates scores instead of keys.

    before   %o, %l = attention %q, (all_gather %k), (all_gather %v)          a cache of f32[32768,8,128] on 8 devices,
    one row of queries
    after    %s = dot_general %q, %k    %m = all_reduce max (reduce %s)    ...    %o = all_reduce sum (dot_general %p,
    %v)

The expanded program is chosen if it is clearly cheaper, which is the case for few query rows.
"""

from __future__ import annotations

from collections.abc import Callable

from meshgen.ir.graph import Graph, Node, Value
from meshgen.ops.composites import expanded
from meshgen.ops.factors import Factors
from meshgen.sharding.rewrites.bodies import everywhere
from meshgen.sharding.rewrites.graph_passes import graph_pass


@graph_pass("expand-attention", applies="if cheaper")
def expand_attention(graph: Graph) -> Graph | None:
    """Return the graph with all of its attentions expanded, or None if it has none."""
    rewritten = expanded(graph, _is_attention)
    return None if rewritten is graph else rewritten


def expand_split_attentions(graph: Graph, parts_of: Callable[[Value, int], int]) -> Graph | None:
    """Expand the attentions whose keys or depth annotations may split. Returns None if the graph has no such attention.

    Args:
        parts_of: returns into how many shards annotations may split a dim of a value.
    """

    def rewrite(inner: Graph) -> Graph | None:
        rewritten = expanded(inner, lambda node: _is_attention(node) and _can_be_split(node, parts_of))
        return None if rewritten is inner else rewritten

    return everywhere(rewrite)(graph)


def _is_attention(node: Node) -> bool:
    return node.op == "attention"


def _can_be_split(node: Node, parts_of: Callable[[Value, int], int]) -> bool:
    factors = Factors.of(node)
    summed = {*factors.keys, *factors.depth}
    dims = zip(node.operands, factors.operands, strict=True)
    return any(f in summed and parts_of(value, dim) > 1 for value, names in dims for dim, f in enumerate(names))
