"""Reader of what programs on tensors may hold of bufferization."""

from __future__ import annotations

from xdsl.dialects import bufferization
from xdsl.ir import Operation

from meshgen.mlir.arith.payload import Builder, finish
from meshgen.mlir.conversion import Importer
from meshgen.mlir.dialect import Dialect
from meshgen.mlir.tensor.conversion import filled


def import_alloc(importer: Importer, op: Operation) -> None:
    """A copy, or a tensor without defined content: zeros, and only where something reads it."""
    assert isinstance(op, bufferization.AllocTensorOp)
    if op.copy is not None:
        finish(importer, op, importer.value(op.copy))
    else:
        kind = importer.type(op.tensor)
        zero = Builder(importer, op).constant(0, kind.with_shape(()))
        finish(importer, op, filled(importer, op, zero, kind, op.dynamic_sizes))


def import_materialize(importer: Importer, op: Operation) -> None:
    """The source; where it is to be stored is the compiler's choice."""
    assert isinstance(op, bufferization.MaterializeInDestinationOp)
    if op.result is None:
        importer.fault("MG0103", "bufferization.materialize_in_destination into a memref is not supported", op)
    else:
        importer.bind(op.result, importer.value(op.source))


PART = Dialect(
    operations=(bufferization.AllocTensorOp, bufferization.MaterializeInDestinationOp),
    importers={
        "bufferization.alloc_tensor": import_alloc,
        "bufferization.materialize_in_destination": import_materialize,
    },
)
