"""Random kernel bodies of composed index maps, which stress index arithmetic."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from bodies import Body

from meshgen.ir.graph import DTYPES, Graph, Value

Array = np.ndarray[Any, Any]
_MAX_ELEMENTS = 1500  # maximum number of elements of a value; chosen: emulation then takes seconds


class RandomMaps:
    """A builder of a body from random index maps of values of one dtype. `at` is a start index known only at run time."""

    def __init__(self, seed: int, dtype: str) -> None:
        self.rng = np.random.default_rng([seed, len(dtype)])
        self.dtype = dtype
        self.body = Body(f"{dtype}[4,6]", f"{dtype}[2,3,5]", f"{dtype}[7]", "i32[]", "i32[3,2]")
        *values, self.at, self.indices = self.body.inputs
        self.values: list[Value] = values

    def pick(self, low: int, high: int) -> int:
        return int(self.rng.integers(low, high))

    def recent(self) -> Value:
        return self.values[self.pick(max(0, len(self.values) - 3), len(self.values))]

    def append_op(self, op: str, *operands: Value, shape: Sequence[int] | None = None, **attrs: Any) -> None:
        """Apply `op` and append the result to the values, unless it would be empty or large."""
        to = "" if shape is None else f"{self.dtype}[{','.join(map(str, shape))}]"
        if shape is not None and not 0 < math.prod(shape) <= _MAX_ELEMENTS:
            return
        self.values.append(self.body.op(op, *operands, to=to, **attrs))

    # ---- index maps

    def transpose(self, x: Value) -> None:
        self.append_op("transpose", x, perm=tuple(int(d) for d in self.rng.permutation(x.type.rank)))

    def reshape(self, x: Value) -> None:
        size, shape = x.type.size, list[int]()
        for _ in range(self.pick(0, 3)):
            factors = [f for f in range(1, size + 1) if size % f == 0]
            shape.append(factors[self.pick(0, len(factors))])
            size //= shape[-1]
        self.append_op("reshape", x, shape=(*shape, size))

    def reverse(self, x: Value) -> None:
        self.append_op("reverse", x, dims=tuple(d for d in range(x.type.rank) if self.pick(0, 3)))

    def slice(self, x: Value) -> None:
        start = [self.pick(0, n) for n in x.type.sizes]
        limit = [self.pick(a + 1, n + 1) for a, n in zip(start, x.type.sizes, strict=True)]
        stride = tuple(self.pick(1, 4) for _ in start)
        self.append_op("slice", x, start=tuple(start), limit=tuple(limit), stride=stride)

    def pad(self, x: Value) -> None:
        low, high = ([self.pick(-2, 4) for _ in x.type.sizes] for _ in range(2))
        interior = [self.pick(0, 3) for _ in x.type.sizes]
        sizes = [n + (n - 1) * i + a + z for n, i, a, z in zip(x.type.sizes, interior, low, high, strict=True)]
        if min(sizes) > 0 and math.prod(sizes) <= _MAX_ELEMENTS:
            fill = self.body.constant(7, self.dtype)
            self.append_op("pad", x, fill, low=tuple(low), high=tuple(high), interior=tuple(interior))

    def concatenate(self, x: Value) -> None:
        dim, shape = self.pick(0, x.type.rank), x.type.sizes
        fitting = [v for v in self.values if v.type.rank == x.type.rank
                   and all(n == shape[d] for d, n in enumerate(v.type.sizes) if d != dim)]  # fmt: skip
        parts = [fitting[self.pick(0, len(fitting))] for _ in range(self.pick(1, 4))]
        if sum(v.type.size for v in (*parts, x)) <= _MAX_ELEMENTS:
            self.append_op("concatenate", *parts, x, dim=dim)

    def broadcast(self, x: Value) -> None:
        new_dim, shape = self.pick(0, x.type.rank + 1), list(x.type.sizes)
        dims = tuple(d + (d >= new_dim) for d in range(x.type.rank))
        self.append_op("broadcast_in_dim", x, shape=[*shape[:new_dim], self.pick(1, 4), *shape[new_dim:]], dims=dims)

    def iota(self, x: Value) -> None:
        positions = self.body.op(
            "iota", to=f"{self.dtype}[{','.join(map(str, x.type.sizes))}]", dim=self.pick(0, x.type.rank)
        )
        self.append_op("add", x, positions)

    def start(self) -> Value:
        return self.body.op("negate", self.at) if self.pick(0, 2) else self.at

    def dynamic_slice(self, x: Value) -> None:
        sizes = tuple(self.pick(1, n + 1) for n in x.type.sizes)
        self.append_op("dynamic_slice", x, *(self.start() for _ in sizes), shape=sizes, slice_sizes=sizes)

    def dynamic_update_slice(self, x: Value) -> None:
        sizes = tuple(self.pick(1, n + 1) for n in x.type.sizes)
        window = self.body.op("slice", x, start=(0,) * len(sizes), limit=sizes, stride=(1,) * len(sizes))
        update = self.body.op("multiply", window, window)
        self.append_op("dynamic_update_slice", x, update, *(self.start() for _ in sizes))

    def gather(self, x: Value) -> None:
        indices = self.body.op("reshape", self.indices, to="i32[3,2,1]")
        window = x.type.sizes[1:]
        self.append_op("gather", x, indices, shape=(3, 2, *window), offset_dims=tuple(range(2, 2 + len(window))),
                  collapsed_slice_dims=(0,), operand_batching_dims=(), start_indices_batching_dims=(),
                  start_index_map=(0,), index_vector_dim=2, slice_sizes=(1, *window))  # fmt: skip

    def grow(self, steps: int) -> Value:
        maps: tuple[Callable[[Value], None], ...] = (
            self.transpose, self.reshape, self.reverse, self.slice, self.pad, self.pad, self.concatenate, self.broadcast,
            self.iota, self.dynamic_slice, self.dynamic_update_slice, self.gather,
        )  # fmt: skip
        for _ in range(steps):
            maps[self.pick(0, len(maps))](self.recent())
        return self.values[-1]


def random_elementwise_graph(seed: int, dtype: str = "i32") -> Graph:
    """Return an element-wise kernel body over composed index maps."""
    maps = RandomMaps(seed, dtype)
    value = maps.grow(maps.pick(2, 7))
    reversed_value = maps.body.op("reverse", value, dims=tuple(range(value.type.rank)))
    return maps.body.done(maps.body.op("add", value, reversed_value if maps.pick(0, 2) else value))


def random_reduction_graph(seed: int, dtype: str = "i32") -> Graph:
    """Return a body that sums a value over some dims, where the value is read through index maps."""
    maps = RandomMaps(seed, dtype)
    value = maps.grow(maps.pick(2, 6))
    dims = [d for d in range(value.type.rank) if maps.pick(0, 2)] or [0]
    total = maps.body.reduce("add", maps.body.op("multiply", value, value), *dims)
    return maps.body.done(maps.body.op("negate", total))


def random_gemm_graph(seed: int, dtype: str = "f32") -> Graph:
    """Return a GEMM whose operands are read through index maps."""
    maps = RandomMaps(seed, dtype)
    values = [maps.grow(maps.pick(1, 5)) for _ in range(2)]
    k = math.gcd(*(v.type.size for v in values))
    sides = [maps.body.op("reshape", v, to=f"{dtype}[{v.type.size // k},{k}]") for v in values]
    return maps.body.done(maps.body.dot(*sides, ((1,), (1,))))


def arguments(body: Graph, seed: int, start: int) -> list[Array]:
    """Return small integers, so that sums are exact in any dtype, and lookup indices both in and out of bounds."""
    rng = np.random.default_rng([seed, 2])
    args = [np.asarray(rng.integers(-3, 4, v.type.sizes)).astype(DTYPES[v.type.dtype]) for v in body.inputs]
    args[-2] = np.asarray(start, np.int32)
    args[-1] = rng.choice(np.array([-(2**31), -1, 0, 1, 2, 5, 2**31 - 1], np.int32), (3, 2))
    return args
