"""Products of matrices."""

from __future__ import annotations

from typing import Any

from meshgen.frontend.onnx.ops.table import MICROSOFT, Call, op
from meshgen.frontend.tracer import einsum as einsums
from meshgen.frontend.tracer import linalg
from meshgen.frontend.tracer.linear import matmul
from meshgen.frontend.tracer.operands import tensor
from meshgen.frontend.tracer.shapes import expand_dims, matrix_transpose
from meshgen.frontend.tracer.tensor import Operand, Tensor


@op("MatMul")
def mat_mul(call: Call, x: Operand, y: Operand) -> Tensor:
    return matmul(x, y)


@op("Gemm")
def gemm(call: Call, a: Operand, b: Operand, c: Operand = None) -> Tensor:
    """alpha * a @ b + beta * c."""
    left = matrix_transpose(a) if call["transA"] else a
    right = matrix_transpose(b) if call["transB"] else b
    found = matmul(left, right)
    found = found if call["alpha"] == 1 else found * call["alpha"]
    if c is None or call["beta"] == 0:
        return found
    return found + (c if call["beta"] == 1 else tensor(c) * call["beta"])


@op("FusedMatMul", domain=MICROSOFT)
def fused_mat_mul(call: Call, a: Operand, b: Operand) -> Tensor:
    left = matrix_transpose(a) if call["transA"] else a
    right = matrix_transpose(b) if call["transB"] else b
    return matmul(left, right) * (1.0 if call["alpha"] is None else call["alpha"])


@op("Einsum")
def einsum(call: Call, *operands: Operand) -> Tensor:
    return einsums.einsum(call["equation"], *operands)


@op("Det")
def det(call: Call, x: Operand) -> Tensor:
    return linalg.det(x)


def less_zero(x: Operand, zero: Operand, dim: int | None) -> Tensor:
    """A quantised tensor as i32, less its zero point: one number, or one per row of a dim."""
    x = tensor(x, "i32")
    if zero is None:
        return x
    zero = tensor(zero, "i32")
    if zero.ndim == 1 and dim is not None:
        zero = expand_dims(zero, tuple(d for d in range(x.ndim) if d != dim % x.ndim))
    return x - zero


@op("MatMulInteger")
def mat_mul_integer(call: Call, x: Operand, y: Operand, x_zero: Operand = None, y_zero: Operand = None) -> Any:
    """Exact, in i32; a zero point per row of the first, and per column of the second."""
    return matmul(less_zero(x, x_zero, -2), less_zero(y, y_zero, -1))
