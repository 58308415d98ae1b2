"""Cholesky's factor and the solution of triangular systems become loops over columns and rows, of which kernels are generated.

    before   %l = cholesky %x                                 f32[n, n]
    after    %_, %l = while (%rest = %x, %l = 0, %i = 0) {
               %column = %rest[:, %i] / sqrt(%rest[%i, %i]) from row %i on, 0 before
               %rest - %column * transpose %column, %l with %column, %i + 1
             }

All matrices of a batch go together, a step for each row. Of complex ones the factors are conjugated where they are transposed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from meshgen.codegen.passes.graphs import on_graphs
from meshgen.compilation import Compilation, module_pass
from meshgen.ir.attributes.linalg import Cholesky, TriangularSolve
from meshgen.ir.builder import Builder
from meshgen.ir.graph import Graph, Module, Node, TensorType, Value, is_complex, real_dtype
from meshgen.ir.rewriter import rewritten

_INDEX = TensorType((), "i32")
Step = Callable[[Builder, Value, list[Value]], list[Value]]
"""What a trip makes of the carried values, from its number."""


@module_pass("expand-linalg", "partition", enables="`jnp.linalg.cholesky`, `jax.scipy.linalg.solve_triangular`")
def expand_linalg(module: Module, context: Compilation) -> Module:
    """A local program without these factorisations."""
    return on_graphs(module, _expanded)


def _expanded(graph: Graph) -> Graph:
    return rewritten(graph, _expansion)


def _expansion(builder: Builder, node: Node) -> Sequence[Value] | None:
    if not isinstance(node.attrs, Cholesky | TriangularSolve) or not node.result.type.size:
        return None
    value = (_cholesky if isinstance(node.attrs, Cholesky) else _solution)(builder, node)
    return [builder.reshape(builder.convert(value, node.result.type.dtype), node.result.type.shape)]


def _batched(builder: Builder, value: Value) -> Value:
    """The matrices in one batch dim, in f32 at least."""
    sizes, dtype = value.type.sizes, value.type.dtype
    value = builder.reshape(value, (math.prod(sizes[:-2]), *sizes[-2:]))
    return value if is_complex(dtype) or dtype == "f64" else builder.convert(value, "f32")


def _part_of(builder: Builder, part: str, value: Value) -> Value:
    """The `real` or `imag` parts of complex numbers."""
    return builder.emit(part, [value], TensorType(value.type.shape, real_dtype(value.type.dtype)))


def _conjugate(builder: Builder, value: Value) -> Value:
    """Of real numbers they themselves."""
    if not is_complex(value.type.dtype):
        return value
    below = builder.elementwise("negate", _part_of(builder, "imag", value))
    return builder.emit("complex", [_part_of(builder, "real", value), below], value.type)


def _transposed(builder: Builder, value: Value) -> Value:
    return builder.transpose(value, (0, 2, 1))


def _cholesky(builder: Builder, node: Node) -> Value:
    x = _batched(builder, node.operands[0])
    x = x if node.attrs.lower else _conjugate(builder, _transposed(builder, x))
    batch, size, _ = x.type.sizes
    is_real = not is_complex(x.type.dtype)

    def step(b: Builder, number: Value, carried: list[Value]) -> list[Value]:
        rest, found = carried
        column = _slice_at(b, rest, (None, None, number))
        pivot = _slice_at(b, rest, (None, number, number))
        pivot = pivot if is_real else _part_of(b, "real", pivot)
        positive = b.compare("GT", pivot, b.splat(0, pivot.type))
        safe = b.emit("select", [positive, pivot, b.splat(math.nan, pivot.type)], pivot.type)
        root = b.convert(b.elementwise("sqrt", safe), x.type.dtype)
        divided = b.elementwise("divide", column, b.spread(b.reshape(root, (batch,)), column.type.shape, (0,)))
        rows = b.emit("iota", [], TensorType(column.type.shape, "i32"), dim=1)
        here = b.spread(number, column.type.shape)
        column = b.emit("select", [b.compare("GE", rows, here), divided, b.splat(0, column.type)], column.type)
        flat = b.reshape(column, (batch, size))
        both = (flat, 1), (_conjugate(b, flat), 2)
        outer = b.elementwise("multiply", *(b.spread(each, rest.type.shape, (0, dim)) for each, dim in both))
        return [b.elementwise("subtract", rest, outer), _with_part(b, found, column, (None, None, number))]

    _, lower = _loop(builder, size, [x, builder.splat(0, x.type)], step)
    return lower if node.attrs.lower else _conjugate(builder, _transposed(builder, lower))


def _solution(builder: Builder, node: Node) -> Value:
    """Of op(a) x = b; of x op(a) = b transposed."""
    attrs = node.attrs
    a, right = (_batched(builder, value) for value in node.operands)
    lower = bool(attrs.lower)
    if (attrs.transpose_a != "NO_TRANSPOSE") == bool(attrs.left_side):
        a, lower = _transposed(builder, a), not lower
    if attrs.transpose_a == "ADJOINT":
        a = _conjugate(builder, a)
    right = right if attrs.left_side else _transposed(builder, right)
    size = a.type.sizes[-1]

    def step(b: Builder, number: Value, carried: list[Value]) -> list[Value]:
        rest, found = carried
        place = number if lower else b.elementwise("subtract", b.splat(size - 1, _INDEX), number)
        row = _slice_at(b, rest, (None, place, None))
        if not attrs.unit_diagonal:
            pivot = b.reshape(_slice_at(b, a, (None, place, place)), (a.type.sizes[0],))
            row = b.elementwise("divide", row, b.spread(pivot, row.type.shape, (0,)))
        column = b.reshape(_slice_at(b, a, (None, None, place)), a.type.sizes[:2])
        flat = b.reshape(row, (row.type.sizes[0], row.type.sizes[2]))
        spread = [b.spread(column, rest.type.shape, (0, 1)), b.spread(flat, rest.type.shape, (0, 2))]
        taken = b.elementwise("subtract", rest, b.elementwise("multiply", *spread))
        return [taken, _with_part(b, found, row, (None, place, None))]

    _, found = _loop(builder, size, [right, builder.splat(0, right.type)], step)
    return found if attrs.left_side else _transposed(builder, found)


Place = Sequence[Value | None]


def _slice_at(builder: Builder, value: Value, place: Place) -> Value:
    """One element along the dims that have a number, all along the others."""
    sizes = tuple(n if at is None else 1 for n, at in zip(value.type.sizes, place, strict=True))
    starts = _starts(builder, place)
    return builder.emit("dynamic_slice", [value, *starts], value.type.with_shape(sizes), slice_sizes=sizes)


def _with_part(builder: Builder, value: Value, part: Value, place: Place) -> Value:
    return builder.emit("dynamic_update_slice", [value, part, *_starts(builder, place)], value.type)


def _starts(builder: Builder, place: Place) -> list[Value]:
    return [builder.splat(0, _INDEX) if at is None else at for at in place]


def _loop(builder: Builder, trips: int, carried: list[Value], step: Step) -> list[Value]:
    """The carried values after a number of steps."""
    start = builder.splat(0, _INDEX)
    types = [_INDEX, *(value.type for value in carried)]
    condition, body = (Graph(name, [Value(each, loc=builder.loc) for each in types]) for name in ("condition", "body"))
    inside = Builder(condition, builder.loc)
    condition.outputs = [inside.compare("LT", condition.inputs[0], inside.splat(trips, _INDEX))]
    inside = Builder(body, builder.loc)
    number, *values = body.inputs
    after = step(inside, number, values)
    body.outputs = [inside.elementwise("add", number, inside.splat(1, _INDEX)), *after]
    return builder.append("while", [start, *carried], types, {}, (condition, body))[1:]
