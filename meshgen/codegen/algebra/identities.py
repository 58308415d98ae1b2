"""Algebraic identities, which replace the result of an op by an operand, a constant, or a simpler op."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np

from meshgen.codegen.algebra.splats import Writer
from meshgen.ir.graph import Node, TensorType, Value, is_float
from meshgen.ops.dot_dims import DotDims
from meshgen.ops.evaluate.common import neutral

# an identity: takes the writer, a node, and the node's operands in the written graph
Identity: TypeAlias = Callable[[Writer, Node, list[Value]], Value | None]


def _convert(writer: Writer, node: Node, operands: list[Value]) -> Value | None:
    inner = writer.source(operands[0], "convert")
    if inner is None or not _widens(inner.operands[0].type.dtype, operands[0].type.dtype):
        return None
    if inner.operands[0].type == node.result.type:
        return inner.operands[0]
    return writer.new("convert", inner.operands, node.result.type, {}, node)


def _reshape(writer: Writer, node: Node, operands: list[Value]) -> Value | None:
    if operands[0].type == node.result.type:
        return operands[0]
    if (number := writer.number(operands[0])) is not None:
        return writer.splat(number, node.result.type, node)
    if inner := writer.source(operands[0], "reshape"):
        return _reshape(writer, node, inner.operands) or writer.new(
            "reshape", inner.operands, node.result.type, {}, node
        )
    return None


def _broadcast(writer: Writer, node: Node, operands: list[Value]) -> Value | None:
    (operand,), dims, kind = operands, tuple(node.attrs.dims), node.result.type
    if (number := writer.number(operand)) is not None and operand.type.rank:
        return writer.splat(number, kind, node)
    if inner := writer.source(operand, "broadcast_in_dim"):
        joined = tuple(dims[d] for d in inner.attrs.dims)
        if inner.operands[0].type == kind and joined == tuple(range(len(joined))):
            return inner.operands[0]
        return writer.new("broadcast_in_dim", inner.operands, kind, {"dims": joined}, node)
    return None


def _transpose(writer: Writer, node: Node, operands: list[Value]) -> Value | None:
    perm = tuple(node.attrs.perm)
    if (number := writer.number(operands[0])) is not None:
        return writer.splat(number, node.result.type, node)
    if inner := writer.source(operands[0], "transpose"):
        joined = tuple(inner.attrs.perm[d] for d in perm)
        if joined == tuple(range(len(perm))):
            return inner.operands[0]
        return writer.new("transpose", inner.operands, node.result.type, {"perm": joined}, node)
    return None


def _slice(writer: Writer, node: Node, operands: list[Value]) -> Value | None:
    if operands[0].type == node.result.type:
        return operands[0]
    if (number := writer.number(operands[0])) is not None:
        return writer.splat(number, node.result.type, node)
    return _element(writer, node, operands[0]) if node.result.type.size == 1 else None


def _element(writer: Writer, node: Node, operand: Value) -> Value | None:
    """Return the number that a one-element slice reads from a constant or iota, as a splat.

    Returns None for other operands.
    """
    start = node.attrs.start
    if constant := writer.source(operand, "constant"):
        return writer.splat(constant.attrs.value[start], node.result.type, node)
    if iota := writer.source(operand, "iota"):
        number = np.array(start[iota.attrs.dim]).astype(operand.type.numpy_dtype)
        return writer.splat(number, node.result.type, node)
    return None


def _dynamic_slice(writer: Writer, node: Node, operands: list[Value]) -> Value | None:
    """Return a static slice if all starts of a dynamic slice are constant."""
    value, *starts = operands
    first = _window_start(writer, value, node.result, starts)
    if first is None:
        return None
    limit = tuple(start + count for start, count in zip(first, node.result.type.sizes, strict=True))
    attrs = {"start": first, "limit": limit, "stride": (1,) * len(first)}
    like = Node("slice", [value], node.results, attrs, node.loc)
    return _slice(writer, like, [value]) or writer.new("slice", [value], node.result.type, attrs, node)


def _window_start(writer: Writer, value: Value, window: Value, starts: Sequence[Value]) -> tuple[int, ...] | None:
    """Return the start of a window, clamped so that the window stays inside the value.

    Returns None if a start is not constant.
    """
    numbers = [number for start in starts if (number := writer.number(start)) is not None]
    if len(numbers) < len(starts):
        return None
    room = [size - count for size, count in zip(value.type.sizes, window.type.sizes, strict=True)]
    return tuple(min(max(int(number), 0), last_start) for number, last_start in zip(numbers, room, strict=True))


def _dynamic_update_slice(writer: Writer, node: Node, operands: list[Value]) -> Value | None:
    """Return the update if it covers the entire value. Otherwise, skip an earlier update of the same window."""
    value, update, *starts = operands
    if update.type == value.type:
        return update
    before = writer.source(value, "dynamic_update_slice")
    if before is None or before.operands[1].type != update.type:
        return None
    window_starts = [_window_start(writer, value, update, part) for part in (starts, before.operands[2:])]
    if window_starts[0] is None or window_starts[0] != window_starts[1]:
        return None
    return writer.new(node.op, [before.operands[0], update, *starts], node.result.type, dict(node.attrs), node)


def _pad(writer: Writer, node: Node, operands: list[Value]) -> Value | None:
    if operands[0].type.size == 0:
        return writer.new("broadcast_in_dim", [operands[1]], node.result.type, {"dims": ()}, node)
    return None


def _concatenate(writer: Writer, node: Node, operands: list[Value]) -> Value | None:
    dim, full = node.attrs.dim, list[Value]()
    for value in operands:
        inner = writer.source(value, "concatenate")
        full += inner.operands if inner is not None and inner.attrs.dim == dim else [value] if value.type.size else []
    if len(full) == 1:
        return full[0]
    if full != operands:
        return writer.new("concatenate", full, node.result.type, dict(node.attrs), node)
    return None


def _reduce(writer: Writer, node: Node, operands: list[Value]) -> Value | None:
    if operands[0].type.size == 0:
        return writer.new("broadcast_in_dim", [operands[1]], node.result.type, {"dims": ()}, node)
    alone = all(operands[0].type.sizes[d] == 1 for d in node.attrs.dims)
    if alone and writer.is_splat(operands[1], neutral(node.attrs.kind, operands[0].type.dtype).item()):
        return _reshape(writer, node, operands) or writer.new("reshape", operands[:1], node.result.type, {}, node)
    return None


def _dot(writer: Writer, node: Node, operands: list[Value]) -> Value | None:
    """Rewrite a dot without contracted dims into a multiplication, and a dot of empty operands into zeros."""
    result_type, dims = node.result.type, DotDims.of(node)
    if not operands[0].type.size or not operands[1].type.size:
        return writer.splat(np.zeros((), result_type.numpy_dtype), result_type, node)
    if dims.contract[0] or not result_type.rank:
        return None
    batch, left = len(dims.batch[0]), len(dims.free[0])
    factors = list[Value]()
    for side, value in enumerate(operands):
        start = batch + (left if side else 0)
        result_dims = {d: i for i, d in enumerate(dims.batch[side])} | {
            d: start + i for i, d in enumerate(dims.free[side])
        }
        if value.type.dtype != result_type.dtype:
            value = writer.new("convert", [value], TensorType(value.type.shape, result_type.dtype), {}, node)
        order = sorted(result_dims, key=result_dims.__getitem__)
        transposed = TensorType(tuple(value.type.shape[d] for d in order), result_type.dtype)
        value = writer.new("transpose", [value], transposed, {"perm": tuple(order)}, node)
        attrs = {"dims": tuple(result_dims[d] for d in order)}
        factors.append(writer.new("broadcast_in_dim", [value], result_type, attrs, node))
    return writer.new("multiply", factors, result_type, {}, node)


def _ragged_dot(writer: Writer, node: Node, operands: list[Value]) -> Value | None:
    result_type = node.result.type
    is_empty = not operands[0].type.size or not operands[1].type.size
    return writer.splat(np.zeros((), result_type.numpy_dtype), result_type, node) if is_empty else None


def _add(writer: Writer, node: Node, operands: list[Value]) -> Value | None:
    for this, other in ((0, 1), (1, 0)):
        number = writer.number(operands[this])
        # x + 0.0 and x differ only if x = -0.0, by the sign of the result.
        if number is not None and not number and operands[other].type == node.result.type:
            return operands[other]
    return None


def _subtract(writer: Writer, node: Node, operands: list[Value]) -> Value | None:
    return operands[0] if writer.is_splat(operands[1], 0) else None


def _multiply(writer: Writer, node: Node, operands: list[Value]) -> Value | None:
    for this, other in ((0, 1), (1, 0)):
        if writer.is_splat(operands[this], 1):
            return operands[other]
        if writer.is_splat(operands[this], 0) and not is_float(node.result.type.dtype):
            return operands[this]
    return None


def _divide(writer: Writer, node: Node, operands: list[Value]) -> Value | None:
    number = writer.number(operands[1])
    if number is None:
        return None
    if number == 1:
        return operands[0]
    if is_float(node.result.type.dtype) and number and np.frexp(np.float64(number))[0] in (0.5, -0.5):
        inverse = (1 / np.asarray(number, np.float64)).astype(number.dtype)  # the reciprocal of a power of two is exact
        if np.isfinite(inverse.astype(np.float64)) and inverse:
            return writer.new(
                "multiply", [operands[0], writer.splat(inverse, operands[1].type, node)], node.result.type, {}, node
            )
    return None


def _power(writer: Writer, node: Node, operands: list[Value]) -> Value | None:
    if writer.is_splat(operands[1], 1):
        return operands[0]
    if writer.is_splat(operands[1], 2):
        return writer.new("multiply", [operands[0], operands[0]], node.result.type, {}, node)
    return None


def _extremum(writer: Writer, node: Node, operands: list[Value]) -> Value | None:
    if operands[0] is operands[1]:
        return operands[0]
    for this, other in ((0, 1), (1, 0)):
        if writer.is_splat(operands[this], neutral(node.op, node.result.type.dtype).item()):
            return operands[other]
    return None


def _logical(writer: Writer, node: Node, operands: list[Value]) -> Value | None:
    if operands[0] is operands[1]:
        return operands[0]
    for this, other in ((0, 1), (1, 0)):
        number = writer.number(operands[this])
        if node.result.type.dtype == "i1" and number is not None:
            decides = bool(number) != bool(neutral(node.op, "i1"))
            return operands[this] if decides else operands[other]
    return None


def _select(writer: Writer, node: Node, operands: list[Value]) -> Value | None:
    if operands[1] is operands[2]:
        return operands[1]
    number = writer.number(operands[0])
    if number is not None:
        return operands[1 if number else 2]
    is_itself = (
        node.result.type == operands[0].type and writer.is_splat(operands[1], 1) and writer.is_splat(operands[2], 0)
    )
    return operands[0] if is_itself and node.result.type.dtype == "i1" else None


def _widens(source: str, target: str) -> bool:
    """Whether dtype `target` represents every number of dtype `source` exactly."""
    exact = {"bf16": ("f32", "f64"), "f16": ("f32", "f64"), "f32": ("f64",), "i1": ("i8", "i16", "i32", "i64", "f32", "f64"),
             "i8": ("i16", "i32", "i64", "f32", "f64"), "i16": ("i32", "i64", "f32", "f64"), "i32": ("i64", "f64"),
             "ui8": ("ui16", "ui32", "ui64", "i16", "i32", "i64"), "f8E4M3FN": ("f32",), "f8E5M2": ("f32",)}  # fmt: skip
    return target in exact.get(source, ())


IDENTITIES: dict[str, Identity] = {
    "convert": _convert, "reshape": _reshape, "broadcast_in_dim": _broadcast, "transpose": _transpose,
    "slice": _slice, "dynamic_slice": _dynamic_slice,
    "dynamic_update_slice": _dynamic_update_slice, "pad": _pad, "concatenate": _concatenate, "reduce": _reduce, "dot_general": _dot, "ragged_dot": _ragged_dot,
    "add": _add, "subtract": _subtract, "multiply": _multiply, "divide": _divide, "power": _power,
    "maximum": _extremum, "minimum": _extremum, "and": _logical, "or": _logical, "select": _select,
}  # fmt: skip
