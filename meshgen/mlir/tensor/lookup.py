"""tensor.gather and tensor.scatter: slices at computed indices, one per row of the indices."""

from __future__ import annotations

from xdsl.dialects.builtin import UnitAttr

from meshgen.ir.graph import TensorType, Value
from meshgen.mlir.arith.payload import Builder, all_computed
from meshgen.mlir.conversion import Refused
from meshgen.mlir.dialect import Dialect


def _windows(whole: TensorType, indices: TensorType, dims: tuple[int, ...], part: TensorType) -> tuple[int, ...]:
    """The shape of the slices at all indices, without the dims that are looked up. Raises Refused where the types do not fit.

    The part may have these dims, of size 1, or not.
    """
    if None in whole.shape or None in indices.shape:
        raise Refused("MG0104", f"{whole} at {indices}: its sizes must be known")
    if not dims or sorted(set(dims)) != list(dims) or not 0 <= dims[0] <= dims[-1] < whole.rank:
        raise Refused("MG0104", f"{list(dims)} must be dims of {whole} in ascending order")
    if not indices.rank or indices.sizes[-1] != len(dims):
        raise Refused("MG0104", f"each row of {indices} must have {len(dims)} entries")
    rows = indices.sizes[:-1]
    kept = (*rows, *(size for dim, size in enumerate(whole.sizes) if dim not in dims))
    ones = (*rows, *(1 if dim in dims else size for dim, size in enumerate(whole.sizes)))
    if part.shape not in (kept, ones):
        raise Refused("MG0104", f"expected slices {whole.with_shape(ones)} or {whole.with_shape(kept)}, got {part}")
    return kept


def _gather(b: Builder, source: Value, indices: Value) -> Value:
    dims = b.integers("gather_dims")
    shape, first = _windows(source.type, indices.type, dims, b.result), indices.type.rank - 1
    return b.reshape(b.gather(source, indices, dims, first, result=source.type.with_shape(shape)), b.result.shape)


def _scatter(b: Builder, rows: Value, target: Value, indices: Value) -> Value:
    """Slices replaced at indices that are different ones."""
    dims = b.integers("scatter_dims")
    shape, first = _windows(target.type, indices.type, dims, rows.type), indices.type.rank - 1
    if not isinstance(b.attribute("unique"), UnitAttr):
        raise Refused("MG0104", "indices that may be equal have no defined result", "add unique")
    return b.replaced(target, indices, b.reshape(rows, shape), dims, first)


PART = Dialect(importers=all_computed("tensor", {"gather": _gather, "scatter": _scatter}))
