"""Importer of `chlo.ragged_dot`, a grouped matmul: each group of rows is multiplied with a matrix of its own."""

from __future__ import annotations

from xdsl.ir import Operation

from meshgen.mlir.conversion import Importer
from meshgen.mlir.dialect import Dialect
from meshgen.mlir.stablehlo.attributes import enumeration, precision_of, struct
from meshgen.mlir.stablehlo.fields import precisions
from meshgen.mlir.stablehlo.ragged_dot import import_ragged_dot
from meshgen.mlir.text_operation import Field, TextOperation, define

RaggedDotDimensions = struct(
    "chlo.ragged_dot",
    "lhs_batching_dimensions rhs_batching_dimensions lhs_contracting_dimensions rhs_contracting_dimensions lhs_ragged_dimensions rhs_group_dimensions",
)
ChloPrecision = enumeration("chlo.precision")


def _import_ragged_dot(importer: Importer, operation: Operation) -> None:
    numbering = operation.properties["ragged_dot_dimension_numbers"]
    assert isinstance(numbering, RaggedDotDimensions)
    lists = [numbering.integers(name) for name in RaggedDotDimensions.names]
    import_ragged_dot(importer, operation, lists, precision_of(operation.properties.get("precision_config")))


PART = Dialect(
    operations=define(TextOperation, "chlo", {"3 -> 1": "ragged_dot"}, FIELDS=(
        Field("ragged_dot_dimension_numbers", kind=RaggedDotDimensions.name), precisions(),
    )),
    attributes=(RaggedDotDimensions, ChloPrecision),
    importers={"chlo.ragged_dot": _import_ragged_dot},
)  # fmt: skip
