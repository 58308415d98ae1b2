"""Composites by factors: normalizations of rows, as layer norm, RMS norm and group norm, and their gradients."""

from __future__ import annotations

from meshgen.ir.attributes.composites import Normalize, NormalizeGradient
from meshgen.ir.graph import Node
from meshgen.ops.decompositions import normalize
from meshgen.ops.op import ANY_ERROR, NO_KERNEL, NO_MEANING, AtLeast, Op, TypeOf
from meshgen.ops.rules import composites as rules
from meshgen.ops.types import composites as types

_PER_ELEMENT = 8.0  # two sums, two products, the affine part; the gradient has as many


def _normalize_flops(node: Node, type_of: TypeOf) -> float:
    return _PER_ELEMENT * type_of(node.results[0]).size


OPS = (
    Op(name="normalize", operands=AtLeast(1), results=None, types=types.normalize, evaluate=NO_MEANING, error=ANY_ERROR,
       rule=rules.normalize, kernel=NO_KERNEL, flops=_normalize_flops, attributes=Normalize, decompose=normalize.normalize),
    Op(name="normalize_gradient", operands=AtLeast(3), types=types.normalize_gradient, evaluate=NO_MEANING, error=ANY_ERROR,
       rule=rules.normalize_gradient, kernel=NO_KERNEL, flops=_normalize_flops, attributes=NormalizeGradient,
       decompose=normalize.normalize_gradient),
)  # fmt: skip
