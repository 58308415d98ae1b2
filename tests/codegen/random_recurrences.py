"""Random time loops in JAX, to compare compiled recurrences with them.

Run it by `python -m tests.codegen.random_recurrences --count 300 --seed 1`. A body carries one to three tensors, some
of which only accumulate. It multiplies, adds, compares and reduces these and rows of its operands along any dims, and
stacks some results per iteration.
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

DIMS = (2, 5, 3)  # sizes of the dims of carried tensors


class _Body:
    """A loop with a random body. Tracing it repeats the same random choices."""

    def __init__(self, seed: int, trips: int) -> None:
        self._seed, self.trips = seed, trips
        random = np.random.default_rng([seed, trips])
        self.carried = int(random.integers(1, 4))
        self.rows = [self._shape(random) for _ in range(random.integers(1, 4))]
        self.is_reverse = bool(random.integers(2))
        self.dtype = ("f4", "f4", "bfloat16")[random.integers(3)]

    @staticmethod
    def _shape(random: np.random.Generator) -> tuple[int, ...]:
        """Return the dims of a carried tensor, some of them replaced by 1."""
        return tuple(size if random.integers(4) else 1 for size in DIMS)

    def __call__(self, *operands: Any) -> Any:
        start, fixed, *rows = operands
        states = tuple(start * (n + 1) for n in range(self.carried))
        return jax.lax.scan(
            lambda state, row: self._iteration(state, row, fixed), states, tuple(rows), reverse=self.is_reverse
        )

    def _iteration(self, states: Any, rows: Any, fixed: Any) -> Any:
        random = np.random.default_rng([self._seed, self.trips, 1])
        values = [*states, *rows, fixed]
        for _ in range(random.integers(2, 7)):
            values.append(self._value(random, values))
        next_states = [self._next(random, n, state, values) for n, state in enumerate(states)]
        stacked = [values[random.integers(len(values))] for _ in range(random.integers(1, 4))]
        return tuple(next_states), tuple(stacked)

    def _value(self, random: np.random.Generator, values: list[Any]) -> Any:
        left, right = (values[random.integers(len(values))] for _ in range(2))
        kinds: list[Callable[[], Any]] = [
            lambda: left * right,
            lambda: left * 0.5 + right,
            lambda: jnp.tanh(left - right),
            lambda: jnp.where(left > right, left, right * 0.25),
            lambda: left.sum(int(random.integers(3)), keepdims=True),
            lambda: left.max(2, keepdims=True),
            lambda: jnp.einsum("bcs,bcs->bc", jnp.broadcast_to(left, DIMS), jnp.broadcast_to(right, DIMS))[..., None],
            lambda: jnp.swapaxes(jnp.swapaxes(left, 0, 1), 0, 1) * jnp.asarray(0.5, left.dtype),
        ]
        return kinds[random.integers(len(kinds))]()

    def _next(self, random: np.random.Generator, index: int, state: Any, values: list[Any]) -> Any:
        term = jnp.broadcast_to(values[random.integers(len(values))], DIMS)
        is_sum = index and random.integers(2)
        return (state + term * 0.125 if is_sum else state * 0.5 + term * 0.25).astype(state.dtype)

    def text(self) -> str:
        shapes = [DIMS, self._shape(np.random.default_rng(self._seed)), *((self.trips, *row) for row in self.rows)]
        return jax.jit(self).lower(*(jax.ShapeDtypeStruct(shape, self.dtype) for shape in shapes)).as_text()


def planned(seed: int) -> Executable:
    """Return the plan of a random loop for a GPU."""
    return api.plan(_Body(seed, (1, 3, 8, 11)[seed % 4]).text(), target="cuda:sm_90")


def fault(executable: Executable) -> str:
    """Return what is wrong with the kernels of a program, or an empty string.

    Also generates their sources, which proves the accesses.
    """
    assert all(source.text for source in executable.sources.values())
    report = check(next(iter(executable.stages.values())), pipeline=lambda _: executable.stages["fuse"])
    return "" if report.ok else str(report)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.codegen.random_recurrences", description=__doc__)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    counts = Counter[str]()
    for seed in range(options.seed, options.seed + options.count):
        executable = planned(seed)
        counts["recurrences"] += executable.passes["loop-to-recurrence"].kept > 0
        counts["with rest"] += len(executable.plan.items) > 1
        if text := fault(executable):
            counts["wrong"] += 1
            sys.stdout.write(f"seed {seed}: {text}\n")
    sys.stdout.write(f"{dict(counts)}\n")


if __name__ == "__main__":
    main()
