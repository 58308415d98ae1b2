"""Readers of tensor.gather and tensor.scatter: slices at computed places, one place per row of the indices."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Operation

from meshgen.ir.graph import Graph, TensorType, Value
from meshgen.mlir.arith.payload import Builder, finish
from meshgen.mlir.conversion import Importer
from meshgen.mlir.dialect import Dialect
from meshgen.mlir.linalg.structured import refuse
from meshgen.mlir.tensor.operations import GatherOp, ScatterOp


def _windows(whole: TensorType, indices: TensorType, dims: Sequence[int], part: TensorType) -> str | tuple[int, ...]:
    """The shape of the slices at all places, without the dims that are looked up; what is wrong otherwise.

    The part may have these dims, of size 1, or not.
    """
    if None in whole.shape or None in indices.shape:
        return f"{whole} at {indices}: its sizes must be known"
    if not dims or sorted(set(dims)) != list(dims) or not 0 <= dims[0] <= dims[-1] < whole.rank:
        return f"{list(dims)} must be dims of {whole} in ascending order"
    if not indices.rank or indices.sizes[-1] != len(dims):
        return f"each row of {indices} must have {len(dims)} entries"
    places = indices.sizes[:-1]
    kept = tuple(size for dim, size in enumerate(whole.sizes) if dim not in dims)
    ones = tuple(1 if dim in dims else size for dim, size in enumerate(whole.sizes))
    if part.shape not in ((*places, *kept), (*places, *ones)):
        return (
            f"expected slices {whole.with_shape((*places, *ones))} or {whole.with_shape((*places, *kept))}, got {part}"
        )
    return (*places, *kept)


def import_gather(importer: Importer, op: Operation) -> None:
    assert isinstance(op, GatherOp)
    source, indices = importer.value(op.source), importer.value(op.indices)
    kind, dims = importer.type(op.result), tuple(op.gather_dims.get_values())
    shape = _windows(source.type, indices.type, dims, kind)
    if isinstance(shape, str):
        importer.fault("MG0104", f"{op.name}: {shape}", op)
        refuse(importer, op)
        return
    first, builder = indices.type.rank - 1, Builder(importer, op)
    attrs = {
        "offset_dims": tuple(range(first, len(shape))), "collapsed_slice_dims": dims, "operand_batching_dims": (),
        "start_indices_batching_dims": (), "start_index_map": dims, "index_vector_dim": first,
        "slice_sizes": tuple(1 if dim in dims else size for dim, size in enumerate(source.type.sizes)),
    }  # fmt: skip
    found = builder.emit("gather", [source, indices], source.type.with_shape(shape), **attrs)
    finish(importer, op, builder.reshape(found, kind.shape))


def import_scatter(importer: Importer, op: Operation) -> None:
    """Slices replaced at places that are different ones."""
    assert isinstance(op, ScatterOp)
    rows, target, indices = importer.values((op.source, op.dest, op.indices))
    dims = tuple(op.scatter_dims.get_values())
    shape = _windows(target.type, indices.type, dims, rows.type)
    if isinstance(shape, str) or op.unique is None:
        wrong = shape if isinstance(shape, str) else "indices that may be equal have no defined result"
        importer.fault("MG0104", f"{op.name}: {wrong}", op, "" if isinstance(shape, str) else "add unique")
        refuse(importer, op)
        return
    first, builder = indices.type.rank - 1, Builder(importer, op)
    attrs = {
        "update_window_dims": tuple(range(first, len(shape))), "inserted_window_dims": dims, "input_batching_dims": (),
        "scatter_indices_batching_dims": (), "scatter_dims_to_operand_dims": dims, "index_vector_dim": first,
        "indices_are_sorted": False, "unique_indices": True,
    }  # fmt: skip
    scalar = target.type.with_shape(())
    region = Graph("", [Value(scalar), Value(scalar)])
    region.outputs = region.inputs[1:]
    operands = [target, indices, builder.reshape(rows, shape)]
    (found,) = importer.emit("scatter", operands, [target.type], attrs, op, (region,))
    finish(importer, op, found)


PART = Dialect(importers={"tensor.gather": import_gather, "tensor.scatter": import_scatter})
