"""Reader of `linalg.reduce` with `any_order`, by which meshgen marks the reductions of StableHLO that it prints.

StableHLO lets an implementation choose the order of the elements. linalg does not say so of a region, which is otherwise
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
    """Convert a marked reduction by a region to a `reduce_region`. Returns False for other operations."""
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
    """Return the scalar that an output is filled with."""
    owner = output.owner
    while isinstance(owner, Operation) and owner.name == "shard.shard":
        owner = owner.operands[0].owner
    return importer.value(owner.operands[0]) if isinstance(owner, Operation) and owner.name == "linalg.fill" else None
