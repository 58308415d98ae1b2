"""Conversion of affine index maps to arithmetic on values."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from xdsl.dialects.builtin import AffineMapAttr
from xdsl.ir import Operation
from xdsl.ir.affine import (
    AffineBinaryOpExpr,
    AffineBinaryOpKind,
    AffineConstantExpr,
    AffineDimExpr,
    AffineExpr,
    AffineSymExpr,
)

from meshgen.ir.graph import TensorType, Value
from meshgen.mlir.arith.builder import Builder
from meshgen.mlir.arith.functions import FUNCTIONS

_ROUNDED = {AffineBinaryOpKind.FloorDiv: "floordivsi", AffineBinaryOpKind.CeilDiv: "ceildivsi"}


def mapped(builder: Builder, op: Operation, operands: Sequence[Value]) -> Value:
    """Emit `affine.apply`, `affine.min` or `affine.max`; the last two return the minimum or maximum of all results of
    the map.
    """
    map = op.properties["map"]
    assert isinstance(map, AffineMapAttr)
    results = [_affine_value(builder, expression, operands, map.data.num_dims) for expression in map.data.results]
    if op.name == "affine.apply" and len(results) > 1:
        builder.importer.fault("MG0104", f"{op.name}: expected a map with 1 result, got {len(results)}", op)
    kind = "minimum" if op.name == "affine.min" else "maximum"
    return reduce(lambda a, b: builder.apply(kind, a, b), results)


def _affine_value(builder: Builder, expression: AffineExpr, operands: Sequence[Value], dims: int) -> Value:
    """Emit an affine expression. The first `dims` operands are the values of its dims, the others those of its symbols."""
    if isinstance(expression, AffineConstantExpr):
        return builder.constant(expression.value, TensorType((), "i64"))
    if isinstance(expression, AffineDimExpr):
        return operands[expression.position]
    if isinstance(expression, AffineSymExpr):
        return operands[dims + expression.position]
    assert isinstance(expression, AffineBinaryOpExpr)
    left, right = (_affine_value(builder, side, operands, dims) for side in (expression.lhs, expression.rhs))
    if expression.kind in _ROUNDED:
        return FUNCTIONS[_ROUNDED[expression.kind]](builder, builder.together([left, right]))[0]
    if expression.kind is AffineBinaryOpKind.Mod:
        (times,) = FUNCTIONS["floordivsi"](builder, builder.together([left, right]))
        return builder.apply("subtract", left, builder.apply("multiply", times, right))
    return builder.apply("add" if expression.kind is AffineBinaryOpKind.Add else "multiply", left, right)
