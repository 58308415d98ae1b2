"""The records of matrix factorizations and Fourier transforms."""

from __future__ import annotations

import math

from meshgen.ir.attributes.linalg import FFT, Cholesky, Lapack, TriangularSolve
from meshgen.ir.graph import Node
from meshgen.ops.evaluate import linalg as means
from meshgen.ops.op import NO_KERNEL, AtLeast, Op, TypeOf
from meshgen.ops.rules import linalg as rules
from meshgen.ops.tolerance import sums as errors
from meshgen.ops.types import linalg as types


def _factorization_flops(node: Node, type_of: TypeOf) -> float:
    """Return n operations per matrix element, for a factorization of n x n matrices."""
    operand = type_of(node.operands[0])
    return float(operand.size * (operand.sizes[-1] if operand.rank else 1))


def _fft_flops(node: Node, type_of: TypeOf) -> float:
    """Return 5 n log2 n operations per transform of n complex numbers, as FFT benchmarks count (fftw.org/speed)."""
    elements = max(type_of(value).size for value in (node.operands[0], node.result))
    return 5.0 * elements * math.log2(max(2, math.prod(node.attrs.length)))


OPS = (
    Op(name="cholesky", operands=1, types=types.cholesky, evaluate=means.cholesky_of, error=errors.factored, rule=rules.cholesky,
       kernel=NO_KERNEL, flops=_factorization_flops, attributes=Cholesky),
    Op(name="triangular_solve", operands=2, types=types.triangular_solve, evaluate=means.triangular_solve_of,
       error=errors.factored, rule=rules.triangular_solve, kernel=NO_KERNEL, flops=_factorization_flops,
       attributes=TriangularSolve),
    Op(name="fft", operands=1, types=types.fft, evaluate=means.fft, error=errors.fft, rule=rules.fft, kernel=NO_KERNEL,
       flops=_fft_flops, attributes=FFT),
    Op(name="lapack", operands=AtLeast(0), types=types.lapack, evaluate=means.lapack, error=errors.lapack, rule=rules.lapack,
       kernel=NO_KERNEL, flops=_factorization_flops, attributes=Lapack, results=1),
)  # fmt: skip
