"""A random graph that grows op by op: the vocabulary of the generated programs.

Ops whose result jumps (compare) only see values that every partition computes to the same bits: those that
no sum across devices went into.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from meshgen.ir.graph import DTYPES, Graph, TensorType, Value, is_float

MAX_SIZE = 13
MAX_ELEMENTS = 4096
_SMOOTH = ("negate", "abs", "tanh", "logistic", "sine", "cosine")
_ARITHMETIC = ("add", "subtract", "multiply", "maximum", "minimum")
_REDUCTIONS = {
    "f32": ("add", "add", "maximum", "minimum"),
    "bf16": ("maximum", "minimum"),
    "i32": ("add", "maximum", "minimum", "multiply", "and", "or", "xor"),
    "i1": ("and", "or"),
}


@dataclass
class Writer:
    """A graph under construction. `exact` holds the values with the same bits however they are partitioned."""

    rng: np.random.Generator
    graph: Graph = field(default_factory=lambda: Graph("main"))
    values: list[Value] = field(default_factory=list[Value])
    exact: list[Value] = field(default_factory=list[Value])

    def integer(self, low: int, high: int) -> int:
        return int(self.rng.integers(low, high))

    def chance(self, probability: float) -> bool:
        return bool(self.rng.random() < probability)

    def one_of(self, options: Sequence[Any]) -> Any:
        return options[self.integer(0, len(options))]

    def shape(self, rank: int) -> tuple[int, ...]:
        sizes = [self.integer(1, MAX_SIZE + 1) for _ in range(rank)]
        while math.prod(sizes) > MAX_ELEMENTS // 4:
            sizes[sizes.index(max(sizes))] //= 2
        return tuple(sizes)

    def new_input(self, kind: TensorType | None = None) -> Value:
        kind = kind or TensorType(self.shape(self.integer(0, 4)), self.one_of(("f32", "f32", "f32", "bf16", "i32")))
        value = Value(kind, f"arg{len(self.graph.inputs)}")
        self.graph.inputs.append(value)
        self.exact.append(value)
        self.values.append(value)
        return value

    def pick(self, accept: Callable[[Value], bool] = lambda value: True) -> Value | None:
        """One of the values that fit, late ones more often: chains more than bushes."""
        fitting = [value for value in self.values if accept(value)]
        return fitting[max(self.integer(0, len(fitting)), self.integer(0, len(fitting)))] if fitting else None

    def partner(self, value: Value, among: Sequence[Value] | None = None) -> Value:
        """Another operand of the same type: one that exists, the value itself included, or a new input."""
        alike = [v for v in (self.values if among is None else among) if v.type == value.type]
        return self.one_of(alike) if alike and self.chance(0.7) else self.new_input(value.type)

    def add(
        self,
        op: str,
        operands: list[Value],
        kind: TensorType,
        attrs: dict[str, Any] | None = None,
        *,
        rounds: bool = False,
    ) -> Value:
        """Append an op; `rounds`: the last bits of its result depend on how devices share the work."""
        node = self.graph.add(op, operands, [kind], attrs, name=f"v{len(self.graph.nodes)}")
        self.values.append(node.result)
        if not rounds and all(v in self.exact for v in operands):
            self.exact.append(node.result)
        return node.result

    def constant(self, kind: TensorType) -> Value:
        shape = kind.sizes if self.chance(0.5) else (1,) * kind.rank
        value = np.asarray(self.rng.integers(1, 5, shape)).astype(DTYPES[kind.dtype])
        return self.add("constant", [], kind, {"value": np.broadcast_to(value, kind.sizes)})


def _has_numbers(value: Value) -> bool:
    return value.type.dtype != "i1"


def _has_rank(low: int) -> Callable[[Value], bool]:
    return lambda value: value.type.rank >= low


def _unary(writer: Writer) -> None:
    if value := writer.pick(lambda v: is_float(v.type.dtype)):
        writer.add(writer.one_of(_SMOOTH), [value], value.type)


def _binary(writer: Writer) -> None:
    if value := writer.pick(_has_numbers):
        operands = [value, writer.partner(value)]
        writer.add(writer.one_of(_ARITHMETIC), operands if writer.chance(0.5) else operands[::-1], value.type)


def _divide(writer: Writer) -> None:
    if value := writer.pick(lambda v: is_float(v.type.dtype)):
        writer.add("divide", [value, writer.constant(value.type)], value.type)


def _select(writer: Writer) -> None:
    if value := writer.pick(lambda v: v in writer.exact and v.type.dtype in ("f32", "i32")):
        other = writer.partner(value, writer.exact)
        attrs = {"direction": writer.one_of(("GT", "LE", "NE")), "compare_type": ""}
        mask = writer.add("compare", [value, other], TensorType(value.type.shape, "i1"), attrs)
        writer.add("select", [mask, value, writer.partner(value)], value.type)


def _clamp(writer: Writer) -> None:
    if value := writer.pick(lambda v: v.type.dtype == "f32"):
        bounds = [
            writer.add("constant", [], TensorType((), "f32"), {"value": np.array(x, np.float32)}) for x in (-0.75, 0.75)
        ]
        writer.add("clamp", [bounds[0], value, bounds[1]], value.type)


def _convert(writer: Writer) -> None:
    if value := writer.pick(lambda v: v.type.dtype in ("bf16", "i32", "i1")):
        writer.add("convert", [value], TensorType(value.type.shape, "f32"))


def _iota(writer: Writer) -> None:
    if value := writer.pick(lambda v: v.type.rank > 0 and v.type.dtype in ("f32", "i32")):
        counted = writer.add("iota", [], value.type, {"dim": writer.integer(0, value.type.rank)})
        writer.add("add", [value, counted], value.type)


def _broadcast(writer: Writer) -> None:
    if value := writer.pick(lambda v: v.type.rank < 3 and v.type.size <= MAX_ELEMENTS // MAX_SIZE):
        at = writer.integer(0, value.type.rank + 1)
        sizes = [*value.type.sizes]
        sizes.insert(at, writer.integer(1, MAX_SIZE + 1))
        dims = tuple(d for d in range(len(sizes)) if d != at)
        writer.add("broadcast_in_dim", [value], value.type.with_shape(sizes), {"dims": dims})


def _transpose(writer: Writer) -> None:
    if value := writer.pick(_has_rank(2)):
        perm = tuple(int(d) for d in writer.rng.permutation(value.type.rank))
        writer.add("transpose", [value], value.type.with_shape(value.type.sizes[d] for d in perm), {"perm": perm})


def _reshape(writer: Writer) -> None:
    """Two neighbouring dims joined, or one cut in two."""
    if value := writer.pick(_has_rank(1)):
        sizes = [*value.type.sizes]
        at = writer.integer(0, len(sizes))
        if at + 1 < len(sizes) and writer.chance(0.5):
            sizes[at : at + 2] = [sizes[at] * sizes[at + 1]]
        else:
            major = writer.one_of([f for f in range(1, sizes[at] + 1) if sizes[at] % f == 0])
            sizes[at : at + 1] = [major, sizes[at] // major]
        if len(sizes) < 5:
            writer.add("reshape", [value], value.type.with_shape(sizes))


def _slice(writer: Writer) -> None:
    if value := writer.pick(_has_rank(1)):
        dim, sizes = writer.integer(0, value.type.rank), value.type.sizes
        start = [0] * value.type.rank
        start[dim] = writer.integer(0, sizes[dim])
        stride = [2 if d == dim and writer.chance(0.3) else 1 for d in range(value.type.rank)]
        shape = [-(-(n - a) // s) for a, n, s in zip(start, sizes, stride, strict=True)]
        attrs = {"start": tuple(start), "limit": sizes, "stride": tuple(stride)}
        writer.add("slice", [value], value.type.with_shape(shape), attrs)


def _pad(writer: Writer) -> None:
    if value := writer.pick(lambda v: v.type.rank > 0 and _has_numbers(v)):
        dim = writer.integer(0, value.type.rank)
        low, high, interior = (tuple(writer.integer(0, 3) * (d == dim) for d in range(value.type.rank)) for _ in "lhi")
        parts = zip(value.type.sizes, low, high, interior, strict=True)
        shape = [a + n + b + (n - 1) * i for n, a, b, i in parts]
        scalar = writer.constant(TensorType((), value.type.dtype))
        writer.add(
            "pad", [value, scalar], value.type.with_shape(shape), {"low": low, "high": high, "interior": interior}
        )


def _concatenate(writer: Writer) -> None:
    if value := writer.pick(lambda v: v.type.rank > 0 and v.type.size < MAX_ELEMENTS // 2):
        dim = writer.integer(0, value.type.rank)
        shape = [2 * n if d == dim else n for d, n in enumerate(value.type.sizes)]
        writer.add("concatenate", [value, writer.partner(value)], value.type.with_shape(shape), {"dim": dim})


def _reverse(writer: Writer) -> None:
    if value := writer.pick(_has_rank(1)):
        writer.add("reverse", [value], value.type, {"dims": (writer.integer(0, value.type.rank),)})


def _reduce(writer: Writer) -> None:
    if value := writer.pick(lambda v: v.type.dtype in _REDUCTIONS):
        dims = tuple(d for d in range(value.type.rank) if writer.chance(0.5))
        kind = writer.one_of(_REDUCTIONS[value.type.dtype])
        init = writer.constant(TensorType((), value.type.dtype))
        shape = [n for d, n in enumerate(value.type.sizes) if d not in dims]
        rounds = value.type.dtype == "f32" and kind == "add"
        writer.add("reduce", [value, init], value.type.with_shape(shape), {"dims": dims, "kind": kind}, rounds=rounds)


def _dot(writer: Writer) -> None:
    """Contracts one dim with a new operand that has up to one batch dim and a free dim."""
    if value := writer.pick(lambda v: v.type.rank > 0 and v.type.dtype in ("f32", "i32", "bf16")):
        dims = [int(d) for d in writer.rng.permutation(value.type.rank)]
        contracted, batch = dims[:1], dims[1:2] if writer.chance(0.4) else []
        sizes = value.type.sizes
        columns = writer.shape(1) if writer.chance(0.8) else ()
        other = writer.new_input(value.type.with_shape([*(sizes[d] for d in batch), sizes[contracted[0]], *columns]))
        free = [d for d in range(len(sizes)) if d not in contracted + batch]
        shape = [*(sizes[d] for d in batch), *(sizes[d] for d in free), *columns]
        if math.prod(shape) > MAX_ELEMENTS:
            return
        attrs = {
            "lhs_batch": tuple(batch), "rhs_batch": tuple(range(len(batch))), "lhs_contract": tuple(contracted),
            "rhs_contract": (len(batch),), "precision": ("DEFAULT", "DEFAULT"),
        }  # fmt: skip
        writer.add("dot_general", [value, other], value.type.with_shape(shape), attrs, rounds=value.type.dtype != "i32")


def _look_up(writer: Writer) -> None:
    """An embedding look-up along one dim."""
    if value := writer.pick(lambda v: 0 < v.type.rank < 3 and v.type.size < MAX_ELEMENTS // MAX_SIZE):
        count, dim, sizes = writer.integer(1, MAX_SIZE + 1), writer.integer(0, value.type.rank), value.type.sizes
        places = writer.new_input(TensorType((count, 1), "i32"))
        attrs = {
            "offset_dims": tuple(range(1, value.type.rank)), "collapsed_slice_dims": (dim,), "operand_batching_dims": (),
            "start_indices_batching_dims": (), "start_index_map": (dim,), "index_vector_dim": 1,
            "slice_sizes": tuple(1 if d == dim else n for d, n in enumerate(sizes)), "indices_are_sorted": False,
        }  # fmt: skip
        shape = [count, *(n for d, n in enumerate(sizes) if d != dim)]
        writer.add("gather", [value, places], value.type.with_shape(shape), attrs)


OPS: tuple[Callable[[Writer], None], ...] = (
    _unary, _unary, _binary, _binary, _divide, _select, _clamp, _convert, _iota, _broadcast, _transpose, _reshape,
    _slice, _pad, _concatenate, _reverse, _reduce, _reduce, _dot, _dot, _look_up,
)  # fmt: skip
