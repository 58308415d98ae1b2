"""Products of groups of rows in text: `sched.ragged_dot`, from stage `partition` on, in generic form.

%0 = "sched.ragged_dot"(%rows, %matrices, %starts, %ends) <{contracts = false}>
    : (tensor<64x32xbf16>, tensor<4x32x16xbf16>, tensor<4xi32>, tensor<4xi32>) -> tensor<64x16xbf16>
"""

from __future__ import annotations

from typing import ClassVar

from xdsl.ir import Operation
from xdsl.irdl import operand_def, result_def

from meshgen.ir.graph import STAGES
from meshgen.mlir.conversion import Importer
from meshgen.mlir.dialect import Dialect, merged
from meshgen.mlir.operation_signature import signatures_of
from meshgen.mlir.stablehlo.base import GenericOperation, as_nodes, define, values_of
from meshgen.mlir.stablehlo.fields import Field, flag, precisions


class RaggedDot(GenericOperation):
    """Rows [start, end) of group g by its matrix; or, where it `contracts` rows, a product per group of its rows of both operands."""

    lhs = operand_def()
    rhs = operand_def()
    starts = operand_def()
    ends = operand_def()
    result = result_def()
    FIELDS: ClassVar[tuple[Field, ...]] = (flag("contracts", "contracts", is_required=True), precisions())


def _import_ragged_dot(importer: Importer, operation: Operation) -> None:
    if STAGES.index(importer.reading.module.stage) < STAGES.index("partition"):
        importer.fault(
            "MG0103",
            f"{operation.name} is not allowed before stage 'partition'",
            operation,
            "write a dot of rows that a mask selects, or chlo.ragged_dot",
        )
    importer.convert(operation, "ragged_dot", values_of(operation))


NAME = "sched.ragged_dot"
PART = merged(
    Dialect(signatures=signatures_of("sched", {"4 -> 1 <contracts: flag, precision_config?: array>": "ragged_dot"})),
    as_nodes(define(RaggedDot, NAME), importers={NAME: _import_ragged_dot}),
)
