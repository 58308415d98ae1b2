"""Operations of StableHLO for matrix factorizations and Fourier transforms."""

from __future__ import annotations

from meshgen.mlir.fields import flag, listed
from meshgen.mlir.stablehlo.attributes import FftType, Transpose
from meshgen.mlir.stablehlo.base import GenericOperation, HloOperation, as_nodes
from meshgen.mlir.stablehlo.fields import word
from meshgen.mlir.stablehlo.types import ONE
from meshgen.mlir.text_operation import define

PART = as_nodes(
    # Example: `stablehlo.cholesky %a, lower = true : tensor<6x6xf32>`
    *define(HloOperation, "stablehlo", {"1 -> 1": "cholesky"}, FIELDS=(flag("lower", "lower", "lower"),), TYPES=ONE),
    # Example: `stablehlo.fft %x, type = FFT, length = [30] : (...) -> ...`
    *define(HloOperation, "stablehlo", {"1 -> 1": "fft"}, FIELDS=(
        word("fft_type", FftType, "kind", "type"), listed("fft_length", "length", "length"),
    )),
    *define(GenericOperation, "stablehlo", {"2 -> 1": "triangular_solve"}, FIELDS=(
        *(flag(name, name, is_required=True) for name in ("left_side", "lower", "unit_diagonal")),
        word("transpose_a", Transpose, "transpose_a"),
    )),
)  # fmt: skip
