"""Matrix factorisations and Fourier transforms of StableHLO."""

from __future__ import annotations

from typing import ClassVar

from xdsl.irdl import operand_def, result_def

from meshgen.mlir.stablehlo.attributes import FftType, Transpose
from meshgen.mlir.stablehlo.base import GenericOperation, HloOperation, as_nodes, define
from meshgen.mlir.stablehlo.fields import Field, flag, listed, word
from meshgen.mlir.stablehlo.types import ONE, TypesForm


class Cholesky(HloOperation):
    """`stablehlo.cholesky %a, lower = true : tensor<6x6xf32>`"""

    a = operand_def()
    result = result_def()
    FIELDS: ClassVar[tuple[Field, ...]] = (flag("lower", "lower", "lower"),)
    TYPES: ClassVar[TypesForm] = ONE


class TriangularSolve(GenericOperation):
    a = operand_def()
    b = operand_def()
    result = result_def()
    FIELDS: ClassVar[tuple[Field, ...]] = (
        *(flag(name, name, is_required=True) for name in ("left_side", "lower", "unit_diagonal")),
        word("transpose_a", Transpose, "transpose_a"),
    )


class Fft(HloOperation):
    """`stablehlo.fft %x, type = FFT, length = [30] : (...) -> ...`"""

    operand = operand_def()
    result = result_def()
    FIELDS: ClassVar[tuple[Field, ...]] = (
        word("fft_type", FftType, "kind", "type"),
        listed("fft_length", "length", "length"),
    )


PART = as_nodes(
    define(Cholesky, "stablehlo.cholesky"),
    define(TriangularSolve, "stablehlo.triangular_solve"),
    define(Fft, "stablehlo.fft"),
)
