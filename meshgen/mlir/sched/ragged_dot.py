"""Products of groups of rows in text: `sched.ragged_dot`, in generic form.

%0 = "sched.ragged_dot"(%rows, %matrices, %starts, %ends) <{contracts = false}>
    : (tensor<64x32xbf16>, tensor<4x32x16xbf16>, tensor<4xi32>, tensor<4xi32>) -> tensor<64x16xbf16>
"""

from __future__ import annotations

from typing import ClassVar

from xdsl.dialects import builtin
from xdsl.irdl import operand_def, result_def

from meshgen.mlir.attributes import boolean_of, integer_of
from meshgen.mlir.dialect import Dialect, merged
from meshgen.mlir.operation_signature import signatures_of
from meshgen.mlir.stablehlo.base import GenericOperation, as_nodes, define
from meshgen.mlir.stablehlo.fields import Field, flag, precisions, strings

_OF_GROUPS = (
    Field(
        "disjoint",
        lambda attribute: {"disjoint": boolean_of(attribute)},
        lambda values: "true" if values.get("disjoint") else "",
        is_required=False,
        kind=builtin.IntegerAttr,
    ),
    Field(
        "total_groups",
        lambda attribute: {"total_groups": integer_of(attribute, 0)},
        lambda values: f"{total} : i64" if (total := values.get("total_groups")) else "",
        is_required=False,
        kind=builtin.IntegerAttr,
    ),
    strings("group_axes", "group_axes"),
)


class RaggedDot(GenericOperation):
    """Rows [start, end) of group g by its matrix; or, where it `contracts` rows, a matrix per group of its rows of both operands."""

    lhs = operand_def()
    rhs = operand_def()
    starts = operand_def()
    ends = operand_def()
    result = result_def()
    FIELDS: ClassVar[tuple[Field, ...]] = (flag("contracts", "contracts", is_required=True), precisions(), *_OF_GROUPS)


_OPTIONAL = "precision_config?: array, disjoint?: flag, total_groups?: integer, group_axes?: array"
_SIGNATURE = f"4 -> 1 <contracts: flag, {_OPTIONAL}>"
PART = merged(
    Dialect(signatures=signatures_of("sched", {_SIGNATURE: "ragged_dot"})),
    as_nodes(define(RaggedDot, "sched.ragged_dot")),
)
