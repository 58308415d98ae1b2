"""Tests of the `scatter-to-select` pass: scatters with one update per row become selects."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import meshgen as mg
from meshgen import api
from meshgen.compiled.executable import Executable
from meshgen.testing.oracle import check

Array = Any
ROWS, COLUMNS = 6, 40


def row_lookup_gradient(x: Array, at: Array) -> Array:
    """Return the gradient of a lookup in each row."""
    return jax.grad(lambda x: (jnp.take_along_axis(x, at[:, None], 1, mode="clip") * x).sum())(x)


def indexed_row_gradient(x: Array, at: Array) -> Array:
    return jax.grad(lambda x: (x[jnp.arange(ROWS), at] ** 2).sum())(x)


def transposed(x: Array, at: Array) -> Array:
    return jnp.zeros((COLUMNS, ROWS), x.dtype).at[at, jnp.arange(ROWS)].set(x[:, 0], mode="drop")


def maximum_update(x: Array, at: Array) -> Array:
    return jnp.full((ROWS, COLUMNS), 0.25, x.dtype).at[jnp.arange(ROWS), at].max(x[:, 1], mode="drop")


def windows(x: Array, at: Array) -> Array:
    """Scatter rows of 40 elements, each into one of 9 slots of its row."""
    return jnp.zeros((ROWS, 9, COLUMNS), x.dtype).at[jnp.arange(ROWS), at].add(x, mode="drop")


def two_indices(x: Array, at: Array) -> Array:
    """Scatter with two indices per row."""
    return jnp.zeros((ROWS, 5, 7), x.dtype).at[jnp.arange(ROWS), at % 5, at % 7].add(x[:, 0])


def single_update(x: Array, at: Array) -> Array:
    return jnp.zeros((COLUMNS, 3), x.dtype).at[at[0]].set(x[0, :3], mode="drop")


def byte_indices(x: Array, at: Array) -> Array:
    """Scatter with 8-bit indices into more columns than 8 bits can address."""
    return jnp.zeros((ROWS, 300), x.dtype).at[jnp.arange(ROWS), at.astype("uint8")].add(x[:, 0])


def long_index_chain(x: Array, at: Array) -> Array:
    """Scatter with row indices computed by a chain of binary ops that is longer than Python's stack."""
    rows = jnp.arange(ROWS)
    for _ in range(400):
        rows = jnp.maximum(rows + 0 * rows, rows)
    return jnp.zeros((ROWS, COLUMNS), x.dtype).at[rows, at].add(x[:, 0])


REWRITTEN_SCATTERS = [
    long_index_chain,
    row_lookup_gradient,
    indexed_row_gradient,
    transposed,
    maximum_update,
    windows,
    two_indices,
    single_update,
    byte_indices,
]


def colliding_updates(x: Array, at: Array) -> Array:
    """Scatter updates that may collide in one row."""
    return jnp.zeros((COLUMNS,), x.dtype).at[at].add(x[:, 0])


def two_updates_per_row(x: Array, at: Array) -> Array:
    """Scatter two updates for each row."""
    indices = jnp.stack([at, at // 2], 1)
    return jnp.zeros((ROWS, COLUMNS), x.dtype).at[jnp.arange(ROWS)[:, None], indices].add(x[:, :2])


def scatter_into_argument(x: Array, at: Array) -> Array:
    """Scatter into an argument instead of a constant."""
    return x.at[jnp.arange(ROWS), at].add(1)


def row_without_update(x: Array, at: Array) -> Array:
    """Scatter such that one row has no update."""
    return jnp.zeros((ROWS + 1, COLUMNS), x.dtype).at[jnp.arange(ROWS), at].add(x[:, 0])


def reversed_rows(x: Array, at: Array) -> Array:
    return jnp.zeros((ROWS, COLUMNS), x.dtype).at[jnp.arange(ROWS)[::-1], at].add(x[:, 0])


SCATTERS = [colliding_updates, two_updates_per_row, scatter_into_argument, row_without_update, reversed_rows]


def planned(program: Callable[..., Any]) -> Executable:
    types = jax.ShapeDtypeStruct((ROWS, COLUMNS), "float32"), jax.ShapeDtypeStruct((ROWS,), "int32")
    return api.plan(jax.jit(program).lower(*types).as_text(), target="cuda:sm_90")


def is_right(executable: Executable) -> bool:
    return check(next(iter(executable.stages.values())), pipeline=lambda _: executable.stages["fuse"]).ok


def scatters(executable: Executable) -> int:
    return sum(node.op == "scatter" for body in executable.plan.kernels.values() for node in body.nodes)


@pytest.mark.parametrize("program", REWRITTEN_SCATTERS)
def test_scatter_with_one_update_per_row_becomes_select(program: Callable[..., Any]) -> None:
    executable = planned(program)
    assert scatters(executable) == 0 and executable.passes["scatter-to-select"].kept == 1
    assert is_right(executable)


@pytest.mark.parametrize("program", SCATTERS)
def test_other_scatters_are_unchanged(program: Callable[..., Any]) -> None:
    executable = planned(program)
    assert executable.passes["scatter-to-select"].kept == 0 and scatters(executable) == 1
    assert is_right(executable)


@pytest.mark.parametrize("at", [-41, -40, -1, 0, 39, 40, 45])
@pytest.mark.parametrize("program", [transposed, maximum_update, windows, single_update, byte_indices])
def test_select_drops_updates_out_of_bounds(program: Callable[..., Any], at: int) -> None:
    """Check JAX's semantics: out-of-bounds updates are dropped, and negative indices count from the end."""
    x, indices = jnp.arange(1.0, ROWS * COLUMNS + 1).reshape(ROWS, COLUMNS), jnp.full((ROWS,), at, "int32")
    result = api.compile(jax.jit(program).lower(x, indices).as_text())(x, indices)
    assert jnp.array_equal(jnp.asarray(result), program(x, indices))


@pytest.mark.parametrize("devices", [2, 4])
@pytest.mark.parametrize(
    "program",
    [
        row_lookup_gradient,
        indexed_row_gradient,
        transposed,
        windows,
        colliding_updates,
        two_updates_per_row,
        reversed_rows,
    ],
)
def test_scatter_with_sharded_constant_indices_keeps_results(program: Callable[..., Any], devices: int) -> None:
    """Check sharded constant indices, which differ among devices and so cannot be constant-folded."""
    x, at = jnp.arange(1.0, ROWS * COLUMNS + 1).reshape(ROWS, COLUMNS), np.array([5, 1, 2, 39, 4, 0], np.int32)
    jitted = jax.jit(lambda x: program(x, jnp.asarray(at)))
    sharded = api.compile(jitted, {"dp": devices}, args=(x,), in_specs=[mg.P("dp")], out_specs=mg.P("dp"), target="cpu")
    assert jnp.allclose(jnp.asarray(sharded(x)), jitted(x), rtol=1e-6)
