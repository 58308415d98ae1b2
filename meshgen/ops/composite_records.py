"""The records of composites in factor notation: normalizations, matmuls with scaled numbers, cross-entropy."""

from __future__ import annotations

import math

from meshgen.ir.attributes.composites import Normalize, NormalizeGradient, ScaledDot, SoftmaxCrossEntropy
from meshgen.ir.graph import Node
from meshgen.ops.decompositions import cross_entropy, normalize, scaled_dot
from meshgen.ops.factors import parsed
from meshgen.ops.op import NO_ERROR_RULE, NO_KERNEL, NOT_EVALUABLE, AtLeast, Op, Trait, TypeOf
from meshgen.ops.rules import composites as rules
from meshgen.ops.types import composites as types

# Operations per element in the decomposition: two sums, two products, scale and bias. The gradient has about as many.
_PER_ELEMENT = 8.0


def _normalize_flops(node: Node, type_of: TypeOf) -> float:
    return _PER_ELEMENT * type_of(node.results[0]).size


def _cross_entropy_flops(node: Node, type_of: TypeOf) -> float:
    # Operations per element: two comparisons, a difference, an exponential, two sums.
    return 6.0 * type_of(node.operands[0]).size


def _scaled_dot_flops(node: Node, type_of: TypeOf) -> float:
    """Return the operations of the matmul and of scaling each number."""
    operands, (out,) = parsed(node.attrs.factors)
    values = zip(operands, node.operands, strict=True)
    sizes = {f: size for names, value in values for f, size in zip(names, type_of(value).sizes, strict=True)}
    depth = math.prod(sizes[f] for f in operands[0] if f not in out)
    numbers = type_of(node.operands[1]).size * (8 // node.attrs.bits if node.attrs.bits else 1)
    return 2.0 * type_of(node.results[0]).size * depth + 2.0 * numbers


OPS = (
    Op(name="normalize", operands=AtLeast(1), results=None, types=types.normalize, evaluate=NOT_EVALUABLE, error=NO_ERROR_RULE,
       rule=rules.normalize, kernel=NO_KERNEL, flops=_normalize_flops, attributes=Normalize, decompose=normalize.normalize),
    Op(name="normalize_gradient", operands=AtLeast(3), types=types.normalize_gradient, evaluate=NOT_EVALUABLE, error=NO_ERROR_RULE,
       rule=rules.normalize_gradient, kernel=NO_KERNEL, flops=_normalize_flops, attributes=NormalizeGradient,
       decompose=normalize.normalize_gradient),
    Op(name="scaled_dot", operands=AtLeast(3), types=types.scaled_dot, evaluate=NOT_EVALUABLE, error=NO_ERROR_RULE, rule=rules.scaled_dot,
       kernel=NO_KERNEL, flops=_scaled_dot_flops, attributes=ScaledDot, traits=frozenset((Trait.CONTRACTS,)),
       decompose=scaled_dot.scaled_dot),
    Op(name="softmax_cross_entropy", operands=2, results=2, types=types.softmax_cross_entropy, evaluate=NOT_EVALUABLE, error=NO_ERROR_RULE,
       rule=rules.softmax_cross_entropy, kernel=NO_KERNEL, flops=_cross_entropy_flops, attributes=SoftmaxCrossEntropy,
       decompose=cross_entropy.softmax_cross_entropy),
)  # fmt: skip
