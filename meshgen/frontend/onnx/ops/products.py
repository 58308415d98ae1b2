"""Products of matrices."""

from __future__ import annotations

from meshgen.frontend.onnx.ops.table import MICROSOFT, Call, enter_rows, enter_traced
from meshgen.frontend.tracer.einsum import einsum
from meshgen.frontend.tracer.linear import matmul
from meshgen.frontend.tracer.operands import tensor
from meshgen.frontend.tracer.shapes import expand_dims, matrix_transpose
from meshgen.frontend.tracer.tensor import Operand, Tensor


def less_zero(x: Operand, zero: Operand, dim: int | None) -> Tensor:
    """A quantised tensor as i32, less its zero point: one number, or one per row of a dim."""
    x = tensor(x, "i32")
    if zero is None:
        return x
    zero = tensor(zero, "i32")
    if zero.ndim == 1 and dim is not None:
        zero = expand_dims(zero, tuple(d for d in range(x.ndim) if d != dim % x.ndim))
    return x - zero


def _oriented_matmul(call: Call, a: Operand, b: Operand) -> Tensor:
    """alpha * a @ b, each transposed if the call says so."""
    product = matmul(matrix_transpose(a) if call["transA"] else a, matrix_transpose(b) if call["transB"] else b)
    return product if call["alpha"] in (None, 1) else product * call["alpha"]


def _gemm(call: Call, a: Operand, b: Operand, c: Operand = None) -> Tensor:
    product = _oriented_matmul(call, a, b)
    if c is None or call["beta"] == 0:
        return product
    return product + (c if call["beta"] == 1 else tensor(c) * call["beta"])


def _matmul_integer(call: Call, x: Operand, y: Operand, x_zero: Operand = None, y_zero: Operand = None) -> Tensor:
    """Exact, in i32; a zero point per row of the first, and per column of the second."""
    return matmul(less_zero(x, x_zero, -2), less_zero(y, y_zero, -1))


enter_traced("MatMul=matmul Det=linalg.det")
enter_rows({
    "Gemm": _gemm,
    "Einsum": lambda call, *operands: einsum(call["equation"], *operands),
    "MatMulInteger": _matmul_integer,
})  # fmt: skip
enter_rows({"FusedMatMul": _oriented_matmul}, domain=MICROSOFT)
