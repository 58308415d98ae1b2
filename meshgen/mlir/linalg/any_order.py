"""Reader of `linalg.reduce` with the attribute `any_order`, which meshgen prints on reductions that stem from
StableHLO.

StableHLO allows an implementation to reduce the elements in any order. A region in linalg has no such permission: it is
read as a sequential loop unless its form proves that the order does not matter.
"""

from __future__ import annotations

from xdsl.dialects.builtin import UnitAttr
from xdsl.ir import Operation, SSAValue

from meshgen.ir.graph import Value
from meshgen.mlir.attributes import integers
from meshgen.mlir.conversion import Importer

ANY_ORDER = "any_order"


def import_any_order(importer: Importer, op: Operation, inputs: int) -> bool:
    """Convert a reduction that has `any_order` and a region to a `reduce_region`. Returns False for other operations."""
    if not isinstance(op.attributes.get(ANY_ORDER), UnitAttr) or inputs * 2 != len(op.operands):
        return False
    starts = [start for start in (_start(importer, output) for output in op.operands[inputs:]) if start is not None]
    if len(starts) != inputs:
        return False
    (region,), captured = importer.blocks([op.regions[0].block])
    if captured:
        return False
    region.inputs = [*region.inputs[inputs:], *region.inputs[:inputs]]
    operands = [*importer.values(op.operands[:inputs]), *starts]
    types = [importer.type(result) for result in op.results]
    dims = {"dims": integers(op.properties.get("dimensions"))}
    importer.bind_results(op, importer.emit("reduce_region", operands, types, dims, op, (region,)))
    return True


def _start(importer: Importer, output: SSAValue) -> Value | None:
    """Return the scalar with which the initial value of the output is filled, or None if it is not filled with a
    scalar.
    """
    owner = output.owner
    while isinstance(owner, Operation) and owner.name == "shard.shard":
        owner = owner.operands[0].owner
    return importer.value(owner.operands[0]) if isinstance(owner, Operation) and owner.name == "linalg.fill" else None
