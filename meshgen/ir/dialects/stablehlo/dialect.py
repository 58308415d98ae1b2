"""The dialects `stablehlo` and `chlo`, as far as meshgen uses them; `mhlo` is read as `stablehlo`.

Operations carry the official property names. Both forms of the text are read and the pretty one, as JAX
prints it, is printed.
"""

from __future__ import annotations

from xdsl.ir import Dialect

from meshgen.ir.bridge import registries
from meshgen.ir.dialects.chlo import functions, ragged_dot, scan
from meshgen.ir.dialects.custom_calls import targets
from meshgen.ir.dialects.stablehlo import (
    calls,
    collective_constraints,
    collectives,
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
    windows,
    written,
)
from meshgen.ir.dialects.stablehlo.attributes import ATTRIBUTES
from meshgen.ir.dialects.stablehlo.base import OPERATIONS

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
