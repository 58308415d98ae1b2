"""Loops over time with random bodies, in JAX: `python -m tests.codegen.random_recurrences --count 300 --seed 1` compares what they become with them.

A body carries one to three tensors, some of which only add things up; it multiplies, adds, compares and reduces these and rows of its operands, along any
dims, and gives some of it for each trip.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from meshgen import api
from meshgen.compiled.executable import Executable
from meshgen.testing.oracle import check

DIMS = (2, 5, 3)  # of what is carried


class _Body:
    """The same random choices whenever it is traced."""

    def __init__(self, seed: int, trips: int) -> None:
        self._seed, self.trips = seed, trips
        random = np.random.default_rng([seed, trips])
        self.carried = int(random.integers(1, 4))
        self.rows = [self._shape(random) for _ in range(random.integers(1, 4))]
        self.is_reverse = bool(random.integers(2))
        self.dtype = ("f4", "f4", "bfloat16")[random.integers(3)]

    @staticmethod
    def _shape(random: np.random.Generator) -> tuple[int, ...]:
        """Dims of what is carried, some of them 1."""
        return tuple(size if random.integers(4) else 1 for size in DIMS)

    def __call__(self, *operands: Any) -> Any:
        start, fixed, *rows = operands
        states = tuple(start * (n + 1) for n in range(self.carried))
        return jax.lax.scan(
            lambda state, row: self._trip(state, row, fixed), states, tuple(rows), reverse=self.is_reverse
        )

    def _trip(self, states: Any, rows: Any, fixed: Any) -> Any:
        random = np.random.default_rng([self._seed, self.trips, 1])
        values = [*states, *rows, fixed]
        for _ in range(random.integers(2, 7)):
            values.append(self._value(random, values))
        after = [self._next(random, n, state, values) for n, state in enumerate(states)]
        given = [values[random.integers(len(values))] for _ in range(random.integers(1, 4))]
        return tuple(after), tuple(given)

    def _value(self, random: np.random.Generator, values: list[Any]) -> Any:
        one, other = (values[random.integers(len(values))] for _ in range(2))
        kinds: list[Callable[[], Any]] = [
            lambda: one * other,
            lambda: one * 0.5 + other,
            lambda: jnp.tanh(one - other),
            lambda: jnp.where(one > other, one, other * 0.25),
            lambda: one.sum(int(random.integers(3)), keepdims=True),
            lambda: one.max(2, keepdims=True),
            lambda: jnp.einsum("bcs,bcs->bc", jnp.broadcast_to(one, DIMS), jnp.broadcast_to(other, DIMS))[..., None],
            lambda: jnp.swapaxes(jnp.swapaxes(one, 0, 1), 0, 1) * jnp.asarray(0.5, one.dtype),
        ]
        return kinds[random.integers(len(kinds))]()

    def _next(self, random: np.random.Generator, number: int, state: Any, values: list[Any]) -> Any:
        term = jnp.broadcast_to(values[random.integers(len(values))], DIMS)
        is_sum = number and random.integers(2)
        return (state + term * 0.125 if is_sum else state * 0.5 + term * 0.25).astype(state.dtype)

    def text(self) -> str:
        shapes = [DIMS, self._shape(np.random.default_rng(self._seed)), *((self.trips, *row) for row in self.rows)]
        return jax.jit(self).lower(*(jax.ShapeDtypeStruct(shape, self.dtype) for shape in shapes)).as_text()


def planned(seed: int) -> Executable:
    """A random loop, planned for a GPU."""
    return api.plan(_Body(seed, (1, 3, 8, 11)[seed % 4]).text(), target="cuda:sm_90")


def fault(executable: Executable) -> str:
    """What is wrong with the kernels of a program; empty if nothing is. Their sources, with the proofs of their accesses, are made too."""
    assert all(source.text for source in executable.sources.values())
    found = check(next(iter(executable.stages.values())), pipeline=lambda _: executable.stages["fuse"])
    return "" if found.ok else str(found)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.codegen.random_recurrences", description=__doc__)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    found = Counter[str]()
    for seed in range(options.seed, options.seed + options.count):
        executable = planned(seed)
        found["recurrences"] += executable.passes["loop-to-recurrence"].kept > 0
        found["with rest"] += len(executable.plan.items) > 1
        if text := fault(executable):
            found["wrong"] += 1
            sys.stdout.write(f"seed {seed}: {text}\n")
    sys.stdout.write(f"{dict(found)}\n")


if __name__ == "__main__":
    main()
