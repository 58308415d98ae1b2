"""Importers of custom calls that return the k greatest or least elements along a dim."""

from __future__ import annotations

from xdsl.ir import Operation

from meshgen.ir.graph import TensorType, Value
from meshgen.mlir.arith.builder import Builder
from meshgen.mlir.attributes import boolean_of, integer_of
from meshgen.mlir.conversion import Importer, Refused
from meshgen.mlir.loop_values import transposed
from meshgen.mlir.stablehlo.calls import called_region, options_of


def _top_k(importer: Importer, operation: Operation) -> None:
    options = options_of(operation, "mhlo.attributes")
    builder, value = Builder(importer, operation), importer.value(operation.operands[0])
    largest = "largest" not in options or boolean_of(options["largest"])
    _bind_top_k(builder, value, value.type.rank - 1, integer_of(options.get("k"), -1), largest)


def _approximate_top_k(importer: Importer, operation: Operation) -> None:
    """Import an approximate top-k as an exact one, which achieves any requested recall.

    The comparison in the function that it names selects the greatest or the least elements.
    """
    options = options_of(operation, "mhlo.backend_config")
    order = _direction(operation)
    if order not in ("GT", "LT") or len(operation.operands) != 4 or len(operation.results) != 2:
        raise Refused("MG0103", "is supported for one tensor and its positions, compared by GT or LT")
    builder, value = Builder(importer, operation), importer.value(operation.operands[0])
    dim, k = integer_of(options.get("reduction_dim")), integer_of(options.get("top_k"), -1)
    _bind_top_k(builder, value, dim, k, order == "GT")


def _direction(operation: Operation) -> str:
    """Return the comparison direction of the first operation in the function that a call names, or "" if it has none."""
    region = called_region(operation)
    first = region.block.first_op if region is not None else None
    direction = first.properties.get("comparison_direction") if first is not None else None
    return str(getattr(direction, "data", ""))


def _bind_top_k(builder: Builder, value: Value, dim: int, k: int, largest: bool) -> None:
    """Bind the results of a call: the k greatest elements along `dim`, or the least unless `largest`, and their
    indices.

    A `top_k` node returns the greatest elements along the last dim, so the operand is transposed, and negated for the
    least.
    """
    rank = value.type.rank
    operation = builder.source
    if not 0 <= dim < rank or k < 0:
        raise Refused("MG0104", "the dim or k is missing")
    order = [d for d in range(rank) if d != dim] + [dim]
    moved = transposed(builder, value if largest else builder.apply("negate", value), order)
    kinds = [TensorType((*moved.type.shape[:-1], k), dtype) for dtype in (value.type.dtype, "i32")]
    results = builder.importer.emit("top_k", [moved], kinds, {"k": k}, operation)
    inverse_order = sorted(range(rank), key=order.__getitem__)
    values, indices = (transposed(builder, result, inverse_order) for result in results)
    builder.importer.bind(operation.results[0], values if largest else builder.apply("negate", values))
    builder.importer.bind(
        operation.results[1], builder.convert(indices, builder.importer.type(operation.results[1]).dtype)
    )


TARGETS = {"mhlo.topk": _top_k, "ApproxTopK": _approximate_top_k}
