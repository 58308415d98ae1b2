"""The dialects `stablehlo` and `chlo`, as far as meshgen uses them; `mhlo` is read as `stablehlo`.

Operations carry the official property names. Both forms of the text are read and the pretty one, as JAX
prints it, is printed.
"""

from __future__ import annotations

from xdsl.ir import Dialect

from meshgen.mlir import registries
from meshgen.mlir.chlo import functions, ragged_dot, scan
from meshgen.mlir.custom_calls import targets
from meshgen.mlir.stablehlo import (
    calls,
    collective_constraints,
    constraints,
    contraction,
    control,
    convolution,
    dynamic,
    einsum,
    elementwise,
    linalg,
    mesh_axes,
    movement,
    norms,
    reduce,
    written,
)
from meshgen.mlir.stablehlo import collective_ops as collectives
from meshgen.mlir.stablehlo import window_ops as windows
from meshgen.mlir.stablehlo.attributes import ATTRIBUTES
from meshgen.mlir.stablehlo.base import OPERATIONS

FAMILIES = (
    functions,
    ragged_dot,
    scan,
    written,
    dynamic,
    calls,
    targets,
    linalg,
    elementwise,
    movement,
    contraction,
    einsum,
    norms,
    reduce,
    windows,
    convolution,
    control,
    collectives,
    mesh_axes,
    constraints,
    collective_constraints,
)
registries.DIALECTS.append(
    Dialect("stablehlo", [op for op in OPERATIONS if op.name.startswith("stablehlo.")], ATTRIBUTES)
)
registries.DIALECTS.append(Dialect("chlo", [op for op in OPERATIONS if op.name.startswith("chlo.")]))
