"""Matrix factorisations and Fourier transforms."""

from __future__ import annotations

from meshgen.ir.attributes.linalg import FFT, Cholesky, Lapack, TriangularSolve
from meshgen.ir.graph import Node
from meshgen.ops.evaluate import linalg as means
from meshgen.ops.op import NO_KERNEL, AtLeast, Op, TypeOf, per_result
from meshgen.ops.rules import linalg as rules
from meshgen.ops.tolerance import sums as errors
from meshgen.ops.types import linalg as types


def _factorisation(node: Node, type_of: TypeOf) -> float:
    """Operations of an n x n factorisation: n per element."""
    operand = type_of(node.operands[0])
    return float(operand.size * (operand.sizes[-1] if operand.rank else 1))


OPS = (
    Op(name="cholesky", operands=1, types=types.cholesky, evaluate=means.cholesky_of, error=errors.factored, rule=rules.cholesky,
       kernel=NO_KERNEL, flops=_factorisation, attributes=Cholesky),
    Op(name="triangular_solve", operands=2, types=types.triangular_solve, evaluate=means.triangular_solve_of,
       error=errors.factored, rule=rules.triangular_solve, kernel=NO_KERNEL, flops=_factorisation,
       attributes=TriangularSolve),
    Op(name="fft", operands=1, types=types.fft, evaluate=means.fft, error=errors.fft, rule=rules.fft, kernel=NO_KERNEL,
       flops=per_result, attributes=FFT),
    Op(name="lapack", operands=AtLeast(0), types=types.lapack, evaluate=means.lapack, error=errors.lapack, rule=rules.lapack,
       kernel=NO_KERNEL, flops=_factorisation, attributes=Lapack, results=1),
)  # fmt: skip
