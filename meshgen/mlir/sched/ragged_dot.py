"""The operation `sched.ragged_dot`, a grouped matmul, which is printed in generic form.

%0 = "sched.ragged_dot"(%rows, %matrices, %starts, %ends) <{contracts = false}>
    : (tensor<64x32xbf16>, tensor<4x32x16xbf16>, tensor<4xi32>, tensor<4xi32>) -> tensor<64x16xbf16>
"""

from __future__ import annotations

from xdsl.ir import Operation

from meshgen.mlir.attributes import boolean_of, integer_of
from meshgen.mlir.conversion import Importer
from meshgen.mlir.fields import flag, strings
from meshgen.mlir.stablehlo.base import GenericOperation, as_nodes
from meshgen.mlir.stablehlo.fields import precisions
from meshgen.mlir.text_operation import Field, define, values_of
from meshgen.ops.collective_checks import axis_faults

_OF_GROUPS = (
    Field(
        "disjoint",
        lambda attribute: {"disjoint": boolean_of(attribute)},
        lambda values: "true" if values.get("disjoint") else "",
        is_required=False,
        kind="integer",
    ),
    Field(
        "total_groups",
        lambda attribute: {"total_groups": integer_of(attribute, 0)},
        lambda values: f"{total} : i64" if (total := values.get("total_groups")) else "",
        is_required=False,
        kind="integer",
    ),
    strings("group_axes", "group_axes"),
)


def _import_ragged_dot(importer: Importer, operation: Operation) -> None:
    attrs = values_of(operation)
    for code, message in axis_faults(attrs["group_axes"], importer.reading.module.mesh):
        importer.fault(code, f"{operation.name}: {message}", operation)
    importer.convert(operation, "ragged_dot", attrs)


# Without `contracts`, rows [start, end) of group g are multiplied with matrix g.
# With `contracts`, these rows of both operands are contracted into one matrix per group.
PART = as_nodes(
    *define(GenericOperation, "sched", {"4 -> 1": "ragged_dot"}, FIELDS=(
        flag("contracts", "contracts", is_required=True), precisions(), *_OF_GROUPS,
    )),
    importers={"sched.ragged_dot": _import_ragged_dot},
)  # fmt: skip
