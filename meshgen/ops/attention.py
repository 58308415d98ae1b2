"""Attention and its gradients: a softmax between two matmuls, with element-wise functions of the scores."""

from __future__ import annotations

import math

from meshgen.ir.attributes.attention import Attention, AttentionGradient
from meshgen.ir.graph import Node
from meshgen.ops.decompositions import attention as decompositions
from meshgen.ops.factors import FORWARD, KEY_GRADIENT, QUERY_GRADIENT, Factors, fixed
from meshgen.ops.op import ATTENTION, NO_ERROR_RULE, NOT_EVALUABLE, AtLeast, Op, Trait, TypeOf
from meshgen.ops.parts import attention as parts
from meshgen.ops.rules import attention as rules
from meshgen.ops.types import attention as types

# Number of matmuls per op in which the depth of queries and keys is contracted, or is a dim of the result.
_OF_DEPTH = {FORWARD: 1, QUERY_GRADIENT: 2, KEY_GRADIENT: 2}
# Number of matmuls per op in which the width of the values is contracted, or is a dim of the result.
_OF_WIDTH = {FORWARD: 1, QUERY_GRADIENT: 1, KEY_GRADIENT: 2}


def _attention_flops(node: Node, type_of: TypeOf) -> float:
    """Return the floating-point operations of the matmuls. Those of the softmax are not counted."""
    factors = Factors.of(node)
    sizes: dict[str, int] = dict(factors.sizes)
    for names, value in zip((*factors.operands, *factors.results), (*node.operands, *node.results), strict=True):
        sizes.update(zip(names, type_of(value).sizes, strict=True))
    depth, width = (math.prod(sizes[f] for f in names) for names in (factors.depth, factors.width))
    per_score = depth * _OF_DEPTH[node.op] + width * _OF_WIDTH[node.op]
    return 2.0 * math.prod(sizes[f] for f in (*factors.rows, *factors.keys)) * per_score


OPS = (
    Op(name=FORWARD, operands=AtLeast(fixed(FORWARD)), results=2, types=types.attention, evaluate=NOT_EVALUABLE,
       error=NO_ERROR_RULE, rule=rules.attention, kernel=ATTENTION, flops=_attention_flops, attributes=Attention,
       has_regions=True, traits=frozenset((Trait.CONTRACTS,)), decompose=decompositions.attention, parts=parts.attention),
    Op(name=QUERY_GRADIENT, operands=AtLeast(fixed(QUERY_GRADIENT)), types=types.attention, evaluate=NOT_EVALUABLE,
       error=NO_ERROR_RULE, rule=rules.attention, kernel=ATTENTION, flops=_attention_flops, attributes=AttentionGradient,
       has_regions=True, traits=frozenset((Trait.CONTRACTS,)), decompose=decompositions.gradient_of_queries),
    Op(name=KEY_GRADIENT, operands=AtLeast(fixed(KEY_GRADIENT)), results=2, types=types.attention, evaluate=NOT_EVALUABLE,
       error=NO_ERROR_RULE, rule=rules.attention, kernel=ATTENTION, flops=_attention_flops, attributes=AttentionGradient,
       has_regions=True, traits=frozenset((Trait.CONTRACTS,)), decompose=decompositions.gradient_of_keys),
)  # fmt: skip
