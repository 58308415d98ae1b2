"""Attention whose keys are split where they are made is tried as the operations that it stands for, which move scores rather than keys.

    before   %o, %l = attention %q, (all_gather %k), (all_gather %v)          a cache of f32[32768,8,128] on 8 devices, one row of queries
    after    %s = dot_general %q, %k    %m = all_reduce max (reduce %s)    ...    %o = all_reduce sum (dot_general %p, %v)

Taken where it is clearly cheaper: for few rows.
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
    """The graph with all of its attentions expanded; None if there is none."""
    after = expanded(graph, _is_attention)
    return None if after is graph else after


def with_split_expanded(graph: Graph, parts_of: Callable[[Value, int], int]) -> Graph | None:
    """The graph with those attentions expanded of which annotations may split keys or depth; None if there is none.

    Args:
        parts_of: into how many parts annotations may split a dim of a value.
    """

    def rewrite(inner: Graph) -> Graph | None:
        after = expanded(inner, lambda node: _is_attention(node) and _may_be_split(node, parts_of))
        return None if after is inner else after

    return everywhere(rewrite)(graph)


def _is_attention(node: Node) -> bool:
    return node.op == "attention"


def _may_be_split(node: Node, parts_of: Callable[[Value, int], int]) -> bool:
    factors = Factors.of(node)
    summed = {*factors.keys, *factors.depth}
    dims = zip(node.operands, factors.operands, strict=True)
    return any(f in summed and parts_of(value, dim) > 1 for value, names in dims for dim, f in enumerate(names))
