"""Replace Cholesky factorizations and triangular solves by loops over columns or rows, whose bodies compile to kernels.

    before   %l = cholesky %x                                 f32[n, n]
    after    %_, %l = while (%rest = %x, %l = 0, %i = 0) {
               %column = %rest[:, %i] / sqrt(%rest[%i, %i]) from row %i on, 0 before
               %rest - %column * transpose %column, %l with %column, %i + 1
             }

Each iteration handles one column or row of all matrices of a batch. Complex factors are conjugated where they are
transposed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from meshgen.codegen.passes.all_graphs import on_graphs
from meshgen.compilation import Compilation, module_pass
from meshgen.ir.attributes.linalg import Cholesky, TriangularSolve
from meshgen.ir.builder import Builder
from meshgen.ir.graph import Graph, Module, Node, TensorType, Value, is_complex, real_dtype
from meshgen.ir.rewriter import rewritten

_INDEX = TensorType((), "i32")
Step = Callable[[Builder, Value, list[Value]], list[Value]]
"""Builds one loop iteration: (builder, iteration number, carried values) -> new carried values."""


@module_pass("expand-linalg", "partition", enables="`jnp.linalg.cholesky`, `jax.scipy.linalg.solve_triangular`")
def expand_linalg(module: Module, context: Compilation) -> Module:
    """Return the local program with Cholesky factorizations and triangular solves replaced by loops."""
    return on_graphs(module, _expanded)


def _expanded(graph: Graph) -> Graph:
    return rewritten(graph, _expansion)


def _expansion(builder: Builder, node: Node) -> Sequence[Value] | None:
    if not isinstance(node.attrs, Cholesky | TriangularSolve) or not node.result.type.size:
        return None
    value = (_cholesky if isinstance(node.attrs, Cholesky) else _solution)(builder, node)
    return [builder.reshape(builder.convert(value, node.result.type.dtype), node.result.type.shape)]


def _batched(builder: Builder, value: Value) -> Value:
    """Return the matrices with all batch dims merged into one, in f32 or wider."""
    sizes, dtype = value.type.sizes, value.type.dtype
    value = builder.reshape(value, (math.prod(sizes[:-2]), *sizes[-2:]))
    return value if is_complex(dtype) or dtype == "f64" else builder.convert(value, "f32")


def _part_of(builder: Builder, part: str, value: Value) -> Value:
    """Return the real or imaginary parts of complex numbers. `part` is "real" or "imag"."""
    return builder.emit(part, [value], TensorType(value.type.shape, real_dtype(value.type.dtype)))


def _conjugate(builder: Builder, value: Value) -> Value:
    """Return the complex conjugate of `value`. Real values are returned unchanged."""
    if not is_complex(value.type.dtype):
        return value
    negated = builder.elementwise("negate", _part_of(builder, "imag", value))
    return builder.emit("complex", [_part_of(builder, "real", value), negated], value.type)


def _transposed(builder: Builder, value: Value) -> Value:
    return builder.transpose(value, (0, 2, 1))


def _cholesky(builder: Builder, node: Node) -> Value:
    x = _batched(builder, node.operands[0])
    x = x if node.attrs.lower else _conjugate(builder, _transposed(builder, x))
    batch, size, _ = x.type.sizes
    is_real = not is_complex(x.type.dtype)

    def step(b: Builder, iteration: Value, carried: list[Value]) -> list[Value]:
        rest, factor = carried
        column = _slice_at(b, rest, (None, None, iteration))
        pivot = _slice_at(b, rest, (None, iteration, iteration))
        pivot = pivot if is_real else _part_of(b, "real", pivot)
        positive = b.compare("GT", pivot, b.splat(0, pivot.type))
        safe = b.emit("select", [positive, pivot, b.splat(math.nan, pivot.type)], pivot.type)
        root = b.convert(b.elementwise("sqrt", safe), x.type.dtype)
        divided = b.elementwise("divide", column, b.spread(b.reshape(root, (batch,)), column.type.shape, (0,)))
        rows = b.emit("iota", [], TensorType(column.type.shape, "i32"), dim=1)
        diagonal = b.spread(iteration, column.type.shape)
        column = b.emit("select", [b.compare("GE", rows, diagonal), divided, b.splat(0, column.type)], column.type)
        flat = b.reshape(column, (batch, size))
        both = (flat, 1), (_conjugate(b, flat), 2)
        outer = b.elementwise("multiply", *(b.spread(vector, rest.type.shape, (0, dim)) for vector, dim in both))
        return [b.elementwise("subtract", rest, outer), _with_part(b, factor, column, (None, None, iteration))]

    _, lower = _loop(builder, size, [x, builder.splat(0, x.type)], step)
    return lower if node.attrs.lower else _conjugate(builder, _transposed(builder, lower))


def _solution(builder: Builder, node: Node) -> Value:
    """Solve op(a) x = b, or solve x op(a) = b through the transposed system."""
    attrs = node.attrs
    a, right = (_batched(builder, value) for value in node.operands)
    lower = bool(attrs.lower)
    if (attrs.transpose_a != "NO_TRANSPOSE") == bool(attrs.left_side):
        a, lower = _transposed(builder, a), not lower
    if attrs.transpose_a == "ADJOINT":
        a = _conjugate(builder, a)
    right = right if attrs.left_side else _transposed(builder, right)
    size = a.type.sizes[-1]

    def step(b: Builder, iteration: Value, carried: list[Value]) -> list[Value]:
        rest, solved = carried
        row_index = iteration if lower else b.elementwise("subtract", b.splat(size - 1, _INDEX), iteration)
        row = _slice_at(b, rest, (None, row_index, None))
        if not attrs.unit_diagonal:
            pivot = b.reshape(_slice_at(b, a, (None, row_index, row_index)), (a.type.sizes[0],))
            row = b.elementwise("divide", row, b.spread(pivot, row.type.shape, (0,)))
        column = b.reshape(_slice_at(b, a, (None, None, row_index)), a.type.sizes[:2])
        flat = b.reshape(row, (row.type.sizes[0], row.type.sizes[2]))
        spread = [b.spread(column, rest.type.shape, (0, 1)), b.spread(flat, rest.type.shape, (0, 2))]
        remaining = b.elementwise("subtract", rest, b.elementwise("multiply", *spread))
        return [remaining, _with_part(b, solved, row, (None, row_index, None))]

    _, solution = _loop(builder, size, [right, builder.splat(0, right.type)], step)
    return solution if attrs.left_side else _transposed(builder, solution)


Place = Sequence[Value | None]


def _slice_at(builder: Builder, value: Value, position: Place) -> Value:
    """Slice `value` to one element along each dim for which `position` has an index. The other dims are not sliced."""
    sizes = tuple(size if at is None else 1 for size, at in zip(value.type.sizes, position, strict=True))
    starts = _starts(builder, position)
    return builder.emit("dynamic_slice", [value, *starts], value.type.with_shape(sizes), slice_sizes=sizes)


def _with_part(builder: Builder, value: Value, part: Value, position: Place) -> Value:
    return builder.emit("dynamic_update_slice", [value, part, *_starts(builder, position)], value.type)


def _starts(builder: Builder, position: Place) -> list[Value]:
    return [builder.splat(0, _INDEX) if at is None else at for at in position]


def _loop(builder: Builder, trips: int, carried: list[Value], step: Step) -> list[Value]:
    """Append a loop of `trips` iterations of `step`, and return the final carried values."""
    start = builder.splat(0, _INDEX)
    types = [_INDEX, *(value.type for value in carried)]
    condition, body = (Graph(name, [Value(kind, loc=builder.loc) for kind in types]) for name in ("condition", "body"))
    inside = Builder(condition, builder.loc)
    condition.outputs = [inside.compare("LT", condition.inputs[0], inside.splat(trips, _INDEX))]
    inside = Builder(body, builder.loc)
    iteration, *values = body.inputs
    after = step(inside, iteration, values)
    body.outputs = [inside.elementwise("add", iteration, inside.splat(1, _INDEX)), *after]
    return builder.append("while", [start, *carried], types, {}, (condition, body))[1:]
