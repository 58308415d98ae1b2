"""The operations of the dialect `stablehlo` that meshgen supports. `mhlo` is read as `stablehlo`.

Properties have their official names. Both the pretty form, which JAX prints, and the generic form can be read; the
pretty form is printed.
"""

from __future__ import annotations

from meshgen.mlir.dialect import Dialect, merged
from meshgen.mlir.stablehlo import (
    base,
    call_constraints,
    calls,
    collective_constraints,
    collective_ops,
    collectives,
    constraints,
    contraction,
    control,
    convolution,
    devices,
    dynamic,
    einsum,
    elementwise,
    linalg,
    mesh_axes,
    mhlo_sharding,
    movement,
    norms,
    point_to_point,
    reduce,
    rooted_collectives,
    window_ops,
    written,
)
from meshgen.mlir.stablehlo.attributes import ATTRIBUTES
from meshgen.mlir.stablehlo.custom_calls import lapack, targets

DIALECT = merged(
    Dialect(attributes=ATTRIBUTES),
    base.PART,
    elementwise.PART,
    movement.PART,
    contraction.PART,
    einsum.PART,
    norms.PART,
    reduce.PART,
    window_ops.PART,
    convolution.PART,
    linalg.PART,
    dynamic.PART,
    written.PART,
    control.PART,
    calls.PART,
    targets.PART,
    lapack.PART,
    constraints.PART,
    call_constraints.PART,
    collective_ops.PART,
    collectives.PART,
    rooted_collectives.PART,
    point_to_point.PART,
    collective_constraints.PART,
    devices.PART,
    mesh_axes.PART,
    mhlo_sharding.PART,
)
