"""Attention: a softmax between two products, with any element-wise function of each score and of each probability."""

from __future__ import annotations

import math

from meshgen.ir.attributes.attention import Attention
from meshgen.ir.graph import Node
from meshgen.ops.decompositions import attention as decompositions
from meshgen.ops.factors import Factors
from meshgen.ops.op import ANY_ERROR, NO_KERNEL, NO_MEANING, AtLeast, Op, TypeOf
from meshgen.ops.rules import attention as rules
from meshgen.ops.types import attention as types


def _attention_flops(node: Node, type_of: TypeOf) -> float:
    """Those of both products."""
    factors = Factors.of(node)
    sizes: dict[str, int] = dict(factors.sizes)
    for names, value in zip((*factors.operands, *factors.results), (*node.operands, *node.results), strict=True):
        sizes.update(zip(names, type_of(value).sizes, strict=True))
    summed = sum(math.prod(sizes[f] for f in names) for names in (factors.depth, factors.width))
    return 2.0 * math.prod(sizes[f] for f in (*factors.rows, *factors.keys)) * summed


OPS = (
    Op(name="attention", operands=AtLeast(3), results=2, types=types.attention, evaluate=NO_MEANING, error=ANY_ERROR,
       rule=rules.attention, kernel=NO_KERNEL, flops=_attention_flops, attributes=Attention, has_regions=True,
       decompose=decompositions.attention),
)  # fmt: skip
