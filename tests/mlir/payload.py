"""Test cases for upstream's payload dialects: a function body, run with and without shardings, must match NumPy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from meshgen.ir.graph import Module, dtype_name
from meshgen.mlir.text import parse_text
from meshgen.ops.evaluate.evaluator import evaluate
from meshgen.sharding.analyze import analyze
from meshgen.sharding.materialize import materialize
from meshgen.sharding.optimize import optimize
from meshgen.sharding.partition import partition
from meshgen.sharding.propagate import propagate
from meshgen.testing.oracle import check

Array = np.ndarray[Any, Any]


def normal(*shape: int, seed: int = 0) -> Array:
    """Return normally distributed f32 numbers."""
    return np.random.default_rng([seed, *shape]).normal(size=shape).astype("f4")


def whole(*shape: int, seed: int = 0, dtype: str = "i4", low: int = -9, high: int = 10) -> Array:
    """Return small random integers."""
    return np.random.default_rng([seed, *shape]).integers(low, high, shape).astype(dtype)


def tensor(array: Array) -> str:
    """Return the MLIR type of an array."""
    return "tensor<" + "".join(f"{size}x" for size in array.shape) + dtype_name(array.dtype) + ">"


@dataclass
class Case:
    """A function of `arguments` whose `body` defines its result `%r` (or `%r0, %r1, ...`).

    `expected` computes the same results with NumPy.
    """

    arguments: Mapping[str, Array]
    body: str
    expected: Callable[..., Any]
    before: str = ""
    tolerance: float = 2e-5
    shapes: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def expected_arrays(self) -> list[Array]:
        results = self.expected(*self.arguments.values())
        arrays = [np.asarray(result) for result in (results if isinstance(results, tuple) else (results,))]
        return [array.astype("f4") if array.dtype == np.float64 else array for array in arrays]

    def text(self, grid: str = "", splits: Mapping[str, str] | None = None) -> str:
        """Return the program of the case, sharded over the mesh `grid` if there is one.

        `splits` maps names of arguments, and of results (`r`, `r0`, ...), to their `split_axes`.
        """
        splits = splits or {}
        types = {name: self.shapes.get(name) or tensor(array) for name, array in self.arguments.items()}
        outputs = ["r"] if len(self.expected_arrays) == 1 else [f"r{n}" for n in range(len(self.expected_arrays))]
        types |= {name: tensor(array) for name, array in zip(outputs, self.expected_arrays, strict=True)}
        lines = [self.before, f"shard.grid @g(shape = {grid})"] if grid else [self.before]
        arguments = ", ".join(f"%{name}{'_in' * (name in splits)}: {types[name]}" for name in self.arguments)
        lines.append(f"func.func @main({arguments}) -> ({', '.join(types[name] for name in outputs)}) {{")
        lines += [
            f"  %s_{name} = shard.sharding @g split_axes = {axes} : !shard.sharding" for name, axes in splits.items()
        ]
        lines += [f"  %{n} = shard.shard %{n}_in to %s_{n} : {types[n]}" for n in self.arguments if n in splits]
        lines.append(self.body)
        lines += [f"  %{n}_out = shard.shard %{n} to %s_{n} : {types[n]}" for n in outputs if n in splits]
        values = ", ".join(f"%{name}{'_out' * (name in splits)}" for name in outputs)
        lines.append(f"  return {values} : {', '.join(types[name] for name in outputs)}\n}}")
        return "\n".join(lines)

    def matches(self) -> Module:
        """Check that the program computes the same results as NumPy, and return its module."""
        module = parse_text(self.text())
        results = evaluate(module.graph, list(self.arguments.values()))
        for result, reference in zip(results, self.expected_arrays, strict=True):
            assert result.shape == reference.shape, (result.shape, reference.shape)
            if reference.dtype.kind == "f":
                size = np.abs(reference[np.isfinite(reference)]).max(initial=1.0)
                np.testing.assert_allclose(result, reference, rtol=self.tolerance, atol=self.tolerance * size)
            else:
                np.testing.assert_array_equal(result, reference)
        return module

    def moved(self, grid: str, splits: Mapping[str, str]) -> dict[str, int]:
        """Return the number of collectives of each kind on the mesh `grid`. Also checks the sharded results."""
        module = parse_text(self.text(grid, splits))
        arguments = list(self.arguments.values())
        assert check(module, pipeline=lowered, args=arguments).ok
        counts: dict[str, int] = {}
        for record in analyze(lowered(module)).collectives:
            counts[record.kind] = counts.get(record.kind, 0) + record.times
        return counts


def lowered(module: Module) -> Module:
    return partition(optimize(materialize(propagate(module))))


def convolve(image: Array, kernel: Array, equation: str, strides: tuple[int, ...], dilations: tuple[int, ...]) -> Array:
    """Convolve with `einsum` over windows of `image`.

    In `equation`, image and kernel share the letters of spatial dims.
    """
    windows, (left, rest) = windows_of(image, equation, kernel.shape, strides, dilations), equation.split(",")
    right, out = rest.split("->")
    spatial = [x for x in left if x in "dhw"]
    inner = "".join(x.upper() if x in spatial else x for x in right)
    return np.einsum(f"{left}{''.join(x.upper() for x in spatial)},{inner}->{out}", windows, kernel)


def windows_of(image: Array, equation: str, kernel: tuple[int, ...], strides: tuple[int, ...], dilations: tuple[int, ...]
               ) -> Array:  # fmt: skip
    """Return a view of `image` to which the dims of its windows are appended."""
    left, right = equation.split("->")[0].split(",")
    view = image
    for letter, stride, dilation in zip([x for x in left if x in "dhw"], strides, dilations, strict=True):
        axis, taps = left.index(letter), kernel[right.index(letter)]
        view = np.lib.stride_tricks.sliding_window_view(view, (taps - 1) * dilation + 1, axis)[..., ::dilation]
        view = view[(slice(None),) * axis + (slice(None, None, stride),)]
    return view
