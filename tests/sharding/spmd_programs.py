"""Random per-device programs with explicit collectives, for tests of passes over local values."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from meshgen.ir.graph import Graph, Module, TensorType, Value
from meshgen.mesh import make_mesh
from meshgen.spec import P, fit

MOST = 4096  # largest number of elements of a value; chosen: a run on all simulated ranks takes milliseconds
ATTEMPTS = 60
BINARY = ("add", "subtract", "maximum", "minimum")


class RandomSpmd:
    """A graph that grows by random ops. Arguments are sharded, replicated, or different on every device."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng([seed, 7])
        self.mesh = make_mesh({"x": int(self.rng.integers(1, 4)), "y": 2})
        self.graph = Graph("main")
        self.values: list[Value] = []

    def module(self) -> Module:
        kinds, specs = [], []
        for _ in range(3):
            shape = tuple(int(n) for n in self.rng.choice([2, 4, 6, 12], self.rng.integers(1, 3)))
            spec = fit(P(*([[(), "x", "y", ("x", "y")][self.rng.integers(4)]] if shape else [])), len(shape))
            local = TensorType(shape, "f32")
            global_shape = [size * self.mesh.group_size(axes) for size, axes in zip(shape, spec.dims, strict=True)]
            value = Value(local, f"arg{len(self.graph.inputs)}")
            self.graph.inputs.append(value)
            self.values.append(value)
            kinds.append(local.with_shape(global_shape))
            specs.append(spec)
        for _ in range(int(self.rng.integers(4, ATTEMPTS))):
            self.step()
        outputs = self.values[-3:]
        self.graph.outputs = [self.whole(value) for value in outputs]
        replicated = [fit(P(), value.type.rank) for value in self.graph.outputs]
        return Module(self.mesh, self.graph, "partition", in_types=kinds, in_shardings=specs,
                      out_types=[v.type for v in self.graph.outputs], out_shardings=replicated)  # fmt: skip

    def whole(self, value: Value) -> Value:
        """Gather the values of all devices into one value, so that every device returns the same output."""
        one = self.emit("reshape", [value], (1, *value.type.sizes))
        axes = ("x", "y")
        return self.emit("all_gather", [one], (self.mesh.group_size(axes), *value.type.sizes), axes=axes, dim=0)

    def emit(self, op: str, operands: Sequence[Value], shape: Sequence[int], **attrs: object) -> Value:
        return self.graph.add(op, operands, [operands[0].type.with_shape(shape)], attrs).result

    def step(self) -> None:
        value = self.values[int(self.rng.integers(max(0, len(self.values) - 4), len(self.values)))]
        emitters = [
            self.reduce,
            self.gather,
            self.cut,
            self.scatter,
            self.elementwise,
            self.elementwise,
            self.layout,
            self.sums,
            self.dot,
        ]
        new_value = emitters[int(self.rng.integers(len(emitters)))](value)
        if new_value is not None and new_value.type.size <= MOST:
            self.values.append(new_value)

    def axes(self) -> tuple[str, ...]:
        return (("x",), ("y",), ("x", "y"))[int(self.rng.integers(3))]

    def reduce(self, value: Value) -> Value:
        kind = str(self.rng.choice(["sum", "sum", "max"]))
        return self.emit("all_reduce", [value], value.type.sizes, axes=self.axes(), kind=kind)

    def gather(self, value: Value) -> Value | None:
        axes = self.axes()
        if not value.type.rank or value.type.size * 6 > MOST:
            return None
        dim = int(self.rng.integers(value.type.rank))
        shape = [s * self.mesh.group_size(axes) if d == dim else s for d, s in enumerate(value.type.sizes)]
        return self.emit("all_gather", [value], shape, axes=axes, dim=dim)

    def _split(self, value: Value) -> tuple[tuple[str, ...], int, list[int]] | None:
        axes = self.axes()
        count = self.mesh.group_size(axes)
        dims = [d for d, s in enumerate(value.type.sizes) if s % count == 0]
        if not dims:
            return None
        dim = int(self.rng.choice(dims))
        return axes, dim, [s // count if d == dim else s for d, s in enumerate(value.type.sizes)]

    def cut(self, value: Value) -> Value | None:
        split = self._split(value)
        return self.emit("all_slice", [value], split[2], axes=split[0], dim=split[1]) if split else None

    def scatter(self, value: Value) -> Value | None:
        split = self._split(value)
        return (
            self.emit("reduce_scatter", [value], split[2], axes=split[0], dim=split[1], kind="sum") if split else None
        )

    def elementwise(self, value: Value) -> Value:
        same_type_values = [v for v in self.values if v.type == value.type]
        other = same_type_values[int(self.rng.integers(len(same_type_values)))]
        op = str(self.rng.choice([*BINARY, "negate"]))
        operands = [value] if op == "negate" else [value, other][:: int(self.rng.choice([-1, 1]))]
        return self.emit(op, operands, value.type.sizes)

    def layout(self, value: Value) -> Value | None:
        sizes = value.type.sizes
        choice = int(self.rng.integers(4))
        if choice == 0 and len(sizes) > 1:
            perm = tuple(int(d) for d in self.rng.permutation(len(sizes)))
            return self.emit("transpose", [value], [sizes[d] for d in perm], perm=perm)
        if choice == 1:
            return self.emit(
                "reshape",
                [value],
                (value.type.size,)
                if len(sizes) > 1
                else (2, value.type.size // 2)
                if value.type.size % 2 == 0
                else sizes,
            )
        if choice == 2 and sizes and sizes[0] > 1:
            limit = (sizes[0] // 2, *sizes[1:])
            return self.emit("slice", [value], limit, start=(0,) * len(sizes), limit=limit, stride=(1,) * len(sizes))
        if choice == 3 and sizes:
            dim = int(self.rng.integers(len(sizes)))
            return self.emit(
                "concatenate", [value, value], [2 * s if d == dim else s for d, s in enumerate(sizes)], dim=dim
            )
        return None

    def sums(self, value: Value) -> Value | None:
        if not value.type.rank:
            return None
        dim, kind = int(self.rng.integers(value.type.rank)), str(self.rng.choice(["add", "maximum"]))
        start = {"add": 0.0, "maximum": -np.inf}[kind] if self.rng.random() < 0.8 else 1.0
        zero = self.graph.add("constant", [], [TensorType((), "f32")], {"value": np.array(start, np.float32)}).result
        rest = [s for d, s in enumerate(value.type.sizes) if d != dim]
        return self.emit("reduce", [value, zero], rest, dims=(dim,), kind=kind)

    def dot(self, value: Value) -> Value | None:
        candidates = [
            v
            for v in self.values
            if v.type.rank == 2 and value.type.rank == 2 and v.type.sizes[0] == value.type.sizes[1]
        ]
        if not candidates:
            return None
        other = candidates[int(self.rng.integers(len(candidates)))]
        attrs = {"lhs_batch": (), "rhs_batch": (), "lhs_contract": (1,), "rhs_contract": (0,), "precision": ()}
        return self.emit("dot_general", [value, other], (value.type.sizes[0], other.type.sizes[1]), **attrs)
