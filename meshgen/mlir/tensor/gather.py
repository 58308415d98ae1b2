"""Importers of tensor.gather and tensor.scatter. Each row of the indices selects one slice of the tensor."""

from __future__ import annotations

from xdsl.dialects.builtin import UnitAttr

from meshgen.ir.graph import TensorType, Value
from meshgen.mlir.arith.builder import Builder, all_computed
from meshgen.mlir.conversion import Refused
from meshgen.mlir.dialect import Dialect


def _windows(table: TensorType, indices: TensorType, dims: tuple[int, ...], part: TensorType) -> tuple[int, ...]:
    """Return the shape of all gathered or scattered slices together, without the indexed dims `dims`.

    `part` is the type of the slices in the text, where the indexed dims have size 1 or are missing. Raises Refused if
    the types do not fit.
    """
    if None in table.shape or None in indices.shape:
        raise Refused("MG0104", f"{table} at {indices}: its sizes must be known")
    if not dims or sorted(set(dims)) != list(dims) or not 0 <= dims[0] <= dims[-1] < table.rank:
        raise Refused("MG0104", f"{list(dims)} must be dims of {table} in ascending order")
    if not indices.rank or indices.sizes[-1] != len(dims):
        raise Refused("MG0104", f"each row of {indices} must have {len(dims)} entries")
    rows = indices.sizes[:-1]
    kept = (*rows, *(size for dim, size in enumerate(table.sizes) if dim not in dims))
    ones = (*rows, *(1 if dim in dims else size for dim, size in enumerate(table.sizes)))
    if part.shape not in (kept, ones):
        raise Refused("MG0104", f"expected slices {table.with_shape(ones)} or {table.with_shape(kept)}, got {part}")
    return kept


def _gather(b: Builder, source: Value, indices: Value) -> Value:
    dims = b.integers("gather_dims")
    shape, first = _windows(source.type, indices.type, dims, b.result), indices.type.rank - 1
    return b.reshape(b.gather(source, indices, dims, first, result=source.type.with_shape(shape)), b.result.shape)


def _scatter(b: Builder, rows: Value, target: Value, indices: Value) -> Value:
    """Return `target` with the slices at `indices` replaced by `rows`. The indices must be declared unique."""
    dims = b.integers("scatter_dims")
    shape, first = _windows(target.type, indices.type, dims, rows.type), indices.type.rank - 1
    if not isinstance(b.attribute("unique"), UnitAttr):
        raise Refused("MG0104", "indices that may be equal have no defined result", "add unique")
    return b.replaced(target, indices, b.reshape(rows, shape), dims, first)


PART = Dialect(importers=all_computed("tensor", {"gather": _gather, "scatter": _scatter}))
