"""Matrix factorisations and Fourier transforms."""

from __future__ import annotations

from meshgen.ir.graph import Node
from meshgen.ops.evaluate import linalg as means
from meshgen.ops.op import NO_KERNEL, AtLeast, Op, TypeOf, named, per_result
from meshgen.ops.rules import linalg as rules
from meshgen.ops.tolerance import sums as errors
from meshgen.ops.types import linalg as types


def _factorisation(node: Node, type_of: TypeOf) -> float:
    """Operations of an n x n factorisation: n per element."""
    operand = type_of(node.operands[0])
    return float(operand.size * (operand.sizes[-1] if operand.rank else 1))


_SOLVE = ("left_side", "lower", "unit_diagonal")

OPS = (
    Op(name="cholesky", operands=1, types=types.cholesky, evaluate=means.cholesky_of, error=errors.factored, rule=rules.cholesky,
       kernel=NO_KERNEL, flops=_factorisation, attributes={"lower": "flag"}),
    Op(name="triangular_solve", operands=2, types=types.triangular_solve, evaluate=means.triangular_solve_of,
       error=errors.factored, rule=rules.triangular_solve, kernel=NO_KERNEL, flops=_factorisation,
       attributes={**named(_SOLVE, "flag"), "transpose_a": "str"}),
    Op(name="fft", operands=1, types=types.fft, evaluate=means.fft, error=errors.fft, rule=rules.fft, kernel=NO_KERNEL,
       flops=per_result, attributes={"kind": "str", "length": "ints"}),
    Op(name="lapack", operands=AtLeast(0), types=types.lapack, evaluate=means.lapack, error=errors.lapack, rule=rules.lapack,
       kernel=NO_KERNEL, flops=_factorisation, attributes={"routine": "str", "options": "str"}, results=1),
)  # fmt: skip
