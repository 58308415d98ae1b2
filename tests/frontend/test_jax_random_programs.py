"""Random JAX programs on random meshes, including axes of size 1, compared with `jax.jit` on one device.

MESHGEN_TRIALS=50 python -m pytest tests/frontend/test_jax_random_programs.py
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import meshgen as mg
from tests.trials import trials

jax = pytest.importorskip("jax")
jnp, lax = jax.numpy, jax.lax

Step = Callable[[np.random.Generator, Any], Any]


def _scattered(rng: np.random.Generator, x: Any) -> Any:
    rows = rng.integers(0, x.shape[0], 3)
    kind = rng.choice(["set", "add", "max"])
    return getattr(x.at[np.unique(rows) if kind == "set" else rows], kind)(0.5)


def _scanned(rng: np.random.Generator, x: Any) -> Any:
    weight = float(rng.uniform(0.1, 0.9))
    return lax.scan(lambda carry, row: (carry * weight + row, jnp.tanh(carry)), x[0], x)[1]


def _rounded(rng: np.random.Generator, x: Any) -> Any:
    return x.astype(rng.choice([jnp.float8_e4m3fn, jnp.float8_e5m2, jnp.bfloat16])).astype(x.dtype)


def _shifted(rng: np.random.Generator, x: Any) -> Any:
    return jnp.roll(x, int(rng.integers(1, 3)), int(rng.integers(0, 2)))


STEPS: dict[str, Step] = {
    "product": lambda rng, x: x @ jnp.asarray(rng.uniform(-0.5, 0.5, (x.shape[1], x.shape[1])), x.dtype),
    "gradient": lambda rng, x: jax.grad(lambda y: (jnp.sin(y) * jnp.flip(y, 0)).sum())(x),
    "vmap": lambda rng, x: jax.vmap(lambda row, shift: row * shift + row.max(), (0, None))(x, float(rng.uniform(0, 1))),
    "vmapped scatter": lambda rng, x: jax.vmap(lambda row, i: row.at[i].add(1.0))(
        x, rng.integers(0, x.shape[1], x.shape[0])
    ),
    "sort": lambda rng, x: jnp.sort(x, axis=int(rng.integers(0, 2))),
    "order": lambda rng, x: jnp.take_along_axis(x, jnp.argsort(x, axis=1), 1),
    "scatter": _scattered,
    "scan": _scanned,
    "cumsum": lambda rng, x: jnp.cumsum(x, axis=int(rng.integers(0, 2))) / x.size,
    "softmax": lambda rng, x: jax.nn.softmax(x, axis=int(rng.integers(0, 2))),
    "narrow floats": _rounded,
    "shift": _shifted,
    "loop": lambda rng, x: lax.fori_loop(0, int(rng.integers(0, 3)), lambda i, y: jnp.cos(y) + i, x),
    "branch": lambda rng, x: lax.cond(x.sum() > 0, jnp.sin, jnp.abs, x),
}


def program(seed: int) -> tuple[Callable[[Any], Any], list[str]]:
    """Return a function of a few random steps, and the names of the steps."""
    rng = np.random.default_rng(seed)
    names = [str(name) for name in rng.choice([*STEPS], rng.integers(2, 5))]

    def function(x: Any) -> Any:
        steps = np.random.default_rng(seed)  # each trace draws the same numbers
        for name in names:
            x = STEPS[name](steps, x)
        return x, x.sum(0)

    return function, names


@pytest.mark.parametrize("wide", [False, True], ids=["f32", "f64"])
@pytest.mark.parametrize("seed", trials(6))
def test_random_jax_programs_match_jit(seed: int, wide: bool) -> None:
    rng = np.random.default_rng([seed, wide])
    mesh = {axis: int(size) for axis, size in zip("xy", rng.choice([1, 2, 3, 4], 2), strict=True)}
    spec = [str(axis) for axis in rng.permutation(["x", "y", ""])[:2]]
    x = rng.uniform(-1, 1, tuple(rng.integers(1, 9, 2))).astype(np.float64 if wide else np.float32)
    function, names = program(seed)
    with jax.enable_x64(wide):
        executable = mg.compile(
            jax.jit(function), mesh, args=(x,), in_specs=[mg.P(*(axis or None for axis in spec))], target="cpu"
        )
        expected = jax.jit(function)(x)
    rounding = 1e-5 if not wide else 1e-12
    for actual, reference in zip(executable(x), expected, strict=True):
        assert actual.dtype == reference.dtype
        np.testing.assert_allclose(
            actual, reference, rtol=rounding, atol=rounding * 10, err_msg=f"{names} {mesh} {spec}"
        )
