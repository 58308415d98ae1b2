"""The dialects `stablehlo` and `chlo`, as far as meshgen uses them; `mhlo` is read as `stablehlo`.

Operations carry the official property names. Both forms of the text are read and the pretty one, as JAX
prints it, is printed.
"""

from __future__ import annotations

from xdsl.ir import Dialect

from meshgen.ir.bridge import registries
from meshgen.ir.dialects import (
    chlo,
    chlo_ragged_dot,
    stablehlo_calls,
    stablehlo_collectives,
    stablehlo_contraction,
    stablehlo_control,
    stablehlo_convolution,
    stablehlo_custom_calls,
    stablehlo_dynamic,
    stablehlo_einsum,
    stablehlo_elementwise,
    stablehlo_linalg,
    stablehlo_movement,
    stablehlo_norms,
    stablehlo_reduce,
    stablehlo_windows,
    stablehlo_written,
)
from meshgen.ir.dialects.stablehlo_attributes import ATTRIBUTES
from meshgen.ir.dialects.stablehlo_base import OPERATIONS

FAMILIES = (
    chlo,
    chlo_ragged_dot,
    stablehlo_written,
    stablehlo_dynamic,
    stablehlo_calls,
    stablehlo_custom_calls,
    stablehlo_linalg,
    stablehlo_elementwise,
    stablehlo_movement,
    stablehlo_contraction,
    stablehlo_einsum,
    stablehlo_norms,
    stablehlo_reduce,
    stablehlo_windows,
    stablehlo_convolution,
    stablehlo_control,
    stablehlo_collectives,
)
registries.DIALECTS.append(
    Dialect("stablehlo", [op for op in OPERATIONS if op.name.startswith("stablehlo.")], ATTRIBUTES)
)
registries.DIALECTS.append(Dialect("chlo", [op for op in OPERATIONS if op.name.startswith("chlo.")]))
