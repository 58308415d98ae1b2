"""chlo.ragged_dot: a dot of which each row takes the matrix of its group."""

from __future__ import annotations

from typing import ClassVar

from xdsl.ir import Operation
from xdsl.irdl import irdl_attr_definition, operand_def, result_def

from meshgen.mlir.conversion import Importer
from meshgen.mlir.dialect import Dialect
from meshgen.mlir.stablehlo.attributes import Struct, Word, precision_of
from meshgen.mlir.stablehlo.base import GenericOperation, define
from meshgen.mlir.stablehlo.fields import Field, precisions
from meshgen.mlir.stablehlo.ragged_dot import import_ragged_dot


@irdl_attr_definition
class RaggedDotDimensions(Struct):
    name = "chlo.ragged_dot"
    names = ("lhs_batching_dimensions", "rhs_batching_dimensions", "lhs_contracting_dimensions",
             "rhs_contracting_dimensions", "lhs_ragged_dimensions", "rhs_group_dimensions")  # fmt: skip


@irdl_attr_definition
class ChloPrecision(Word):
    name = "chlo.precision"


class RaggedDot(GenericOperation):
    lhs = operand_def()
    rhs = operand_def()
    group_sizes = operand_def()
    result = result_def()
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("ragged_dot_dimension_numbers", kind=RaggedDotDimensions),
        precisions(),
    )


def _import_ragged_dot(importer: Importer, operation: Operation) -> None:
    numbering = operation.properties["ragged_dot_dimension_numbers"]
    assert isinstance(numbering, RaggedDotDimensions)
    lists = [numbering.integers(name) for name in RaggedDotDimensions.names]
    import_ragged_dot(importer, operation, lists, precision_of(operation.properties.get("precision_config")))


PART = Dialect(
    operations=(define(RaggedDot, "chlo.ragged_dot"),),
    attributes=(RaggedDotDimensions, ChloPrecision),
    importers={"chlo.ragged_dot": _import_ragged_dot},
)
