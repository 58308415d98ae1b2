"""Sizes and dtypes of the matmul that a kernel computes."""

from __future__ import annotations

from typing import NamedTuple

from meshgen.ir.graph import Node, is_float
from meshgen.ops.dot_dims import DotDims, gemm_extents
from meshgen.ops.precision import common_type, multiplied_as


class Problem(NamedTuple):
    """Sizes of a matmul after flattening to batch, m, n and k, and its dtypes.

    Attributes:
        dtype: the dtype that operands are converted to.
        accumulator: the dtype of the accumulator.
        multiplied: the number format of the multiplication, from `ops.precision.multiplied_as`.
    """

    batch: int
    m: int
    n: int
    k: int
    dtype: str
    accumulator: str
    multiplied: str


def problem_of(node: Node) -> Problem:
    lhs = node.operands[0].type
    dims, (batch, m, n, k) = DotDims.of(node), gemm_extents(node)
    if node.op == "ragged_dot":  # Groups are a batch dim of the result, or the main loop iterates over them.
        batch, m, k = (batch, m, dims.depth(lhs)) if node.attrs.contracts else (1, lhs.sizes[0], k)
    dtype = common_type(node)
    accumulator = "f64" if dtype == "f64" else "f32" if is_float(dtype) else node.result.type.dtype
    return Problem(batch, m, n, k, dtype, accumulator, multiplied_as(node))


def uses_tensor_cores(problem: Problem) -> bool:
    """Whether `tl.dot` supports the operands. If not (some integer types), the main loop multiplies and adds one k at a
    time.
    """
    return is_float(problem.dtype) or (problem.dtype == "i8" and problem.accumulator == "i32")


def precision_option(multiplied: str) -> str:
    """Return the source of the precision option of `tl.dot` for the f32 format `multiplied`, or "" for other dtypes."""
    words = {"f32": "ieee", "tf32": "tf32", "tf32x3": "tf32x3"}
    return f', input_precision="{words[multiplied]}"' if multiplied in words else ""
