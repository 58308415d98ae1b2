"""Scatters with one update for each row are choices; the numbers are those of the scatter, out of bounds too."""

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


def along(x: Array, at: Array) -> Array:
    """The gradient of a look-up in each row."""
    return jax.grad(lambda x: (jnp.take_along_axis(x, at[:, None], 1, mode="clip") * x).sum())(x)


def counted(x: Array, at: Array) -> Array:
    return jax.grad(lambda x: (x[jnp.arange(ROWS), at] ** 2).sum())(x)


def transposed(x: Array, at: Array) -> Array:
    return jnp.zeros((COLUMNS, ROWS), x.dtype).at[at, jnp.arange(ROWS)].set(x[:, 0], mode="drop")


def largest(x: Array, at: Array) -> Array:
    return jnp.full((ROWS, COLUMNS), 0.25, x.dtype).at[jnp.arange(ROWS), at].max(x[:, 1], mode="drop")


def windows(x: Array, at: Array) -> Array:
    """Whole rows of 40 elements, of which each is one of 9 of its own."""
    return jnp.zeros((ROWS, 9, COLUMNS), x.dtype).at[jnp.arange(ROWS), at].add(x, mode="drop")


def beside(x: Array, at: Array) -> Array:
    """Two numbers of each row."""
    return jnp.zeros((ROWS, 5, 7), x.dtype).at[jnp.arange(ROWS), at % 5, at % 7].add(x[:, 0])


def one(x: Array, at: Array) -> Array:
    return jnp.zeros((COLUMNS, 3), x.dtype).at[at[0]].set(x[0, :3], mode="drop")


def small_numbers(x: Array, at: Array) -> Array:
    """Indices of 8 bits for more columns than they count."""
    return jnp.zeros((ROWS, 300), x.dtype).at[jnp.arange(ROWS), at.astype("uint8")].add(x[:, 0])


def far(x: Array, at: Array) -> Array:
    """Numbers of rows that are each made of two before them, in a chain longer than Python's stack."""
    rows = jnp.arange(ROWS)
    for _ in range(400):
        rows = jnp.maximum(rows + 0 * rows, rows)
    return jnp.zeros((ROWS, COLUMNS), x.dtype).at[rows, at].add(x[:, 0])


CHOICES = [far, along, counted, transposed, largest, windows, beside, one, small_numbers]


def met(x: Array, at: Array) -> Array:
    """Updates of one row may meet."""
    return jnp.zeros((COLUMNS,), x.dtype).at[at].add(x[:, 0])


def several(x: Array, at: Array) -> Array:
    """Two updates for each row."""
    both = jnp.stack([at, at // 2], 1)
    return jnp.zeros((ROWS, COLUMNS), x.dtype).at[jnp.arange(ROWS)[:, None], both].add(x[:, :2])


def kept(x: Array, at: Array) -> Array:
    """What is updated is in memory."""
    return x.at[jnp.arange(ROWS), at].add(1)


def fewer(x: Array, at: Array) -> Array:
    """Some rows have no update."""
    return jnp.zeros((ROWS + 1, COLUMNS), x.dtype).at[jnp.arange(ROWS), at].add(x[:, 0])


def reversed_rows(x: Array, at: Array) -> Array:
    return jnp.zeros((ROWS, COLUMNS), x.dtype).at[jnp.arange(ROWS)[::-1], at].add(x[:, 0])


SCATTERS = [met, several, kept, fewer, reversed_rows]


def planned(program: Callable[..., Any]) -> Executable:
    types = jax.ShapeDtypeStruct((ROWS, COLUMNS), "float32"), jax.ShapeDtypeStruct((ROWS,), "int32")
    return api.plan(jax.jit(program).lower(*types).as_text(), target="cuda:sm_90")


def is_right(executable: Executable) -> bool:
    return check(next(iter(executable.stages.values())), pipeline=lambda _: executable.stages["fuse"]).ok


def scatters(executable: Executable) -> int:
    return sum(node.op == "scatter" for body in executable.plan.kernels.values() for node in body.nodes)


@pytest.mark.parametrize("program", CHOICES)
def test_one_update_for_each_row(program: Callable[..., Any]) -> None:
    executable = planned(program)
    assert scatters(executable) == 0 and executable.passes["scatter-to-select"].kept == 1
    assert is_right(executable)


@pytest.mark.parametrize("program", SCATTERS)
def test_others_stay(program: Callable[..., Any]) -> None:
    executable = planned(program)
    assert executable.passes["scatter-to-select"].kept == 0 and scatters(executable) == 1
    assert is_right(executable)


@pytest.mark.parametrize("at", [-41, -40, -1, 0, 39, 40, 45])
@pytest.mark.parametrize("program", [transposed, largest, windows, one, small_numbers])
def test_places_out_of_bounds(program: Callable[..., Any], at: int) -> None:
    """As JAX has them: dropped, or from the end."""
    x, where = jnp.arange(1.0, ROWS * COLUMNS + 1).reshape(ROWS, COLUMNS), jnp.full((ROWS,), at, "int32")
    found = api.compile(jax.jit(program).lower(x, where).as_text())(x, where)
    assert jnp.array_equal(jnp.asarray(found), program(x, where))


@pytest.mark.parametrize("devices", [2, 4])
@pytest.mark.parametrize("program", [along, counted, transposed, windows, met, several, reversed_rows])
def test_constant_indices_of_split_rows_give_the_same_numbers(program: Callable[..., Any], devices: int) -> None:
    """Each device has its rows of the constant, so nothing about them can be computed at compile time."""
    x, at = jnp.arange(1.0, ROWS * COLUMNS + 1).reshape(ROWS, COLUMNS), np.array([5, 1, 2, 39, 4, 0], np.int32)
    jitted = jax.jit(lambda x: program(x, jnp.asarray(at)))
    split = api.compile(jitted, {"dp": devices}, args=(x,), in_specs=[mg.P("dp")], out_specs=mg.P("dp"), target="cpu")
    assert jnp.allclose(jnp.asarray(split(x)), jitted(x), rtol=1e-6)
