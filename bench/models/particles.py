"""Physics in plain JAX: gravity between bodies, diffusion of heat on a plate, and the equilibrium temperature by JAX's
conjugate gradients.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax.scipy.sparse.linalg import cg
from jax.sharding import PartitionSpec as P

from bench.models.program import Program, array


def bodies(small: bool) -> Program:
    """Return a program with time steps of bodies that attract each other. Each step computes all pairs; the bodies are
    split over `x`.
    """
    count, steps = (64, 3) if small else (16384, 10)

    def pull(x: Any) -> Any:
        away = x[:, None] - x[None]
        return -(away * (((away**2).sum(-1) + 1e-3) ** -1.5)[..., None]).sum(1)

    def simulated(x: Any, v: Any) -> Any:
        def step(_: Any, state: Any) -> Any:
            x, v = state
            v = v + 1e-3 * pull(x)
            return x + 1e-3 * v, v

        return jax.lax.fori_loop(0, steps, step, (x, v))

    spec = P("x")
    return Program(simulated, {"x": 8}, (array(count, 3),) * 2, (spec, spec), (spec, spec))


def heat(small: bool) -> Program:
    """Return a program with time steps of heat diffusion by a five-point stencil. The plate is split in both dims, and
    its edge has a fixed temperature.
    """
    side, steps = (16, 3) if small else (4096, 1000)

    def simulated(t: Any) -> Any:
        def step(t: Any, _: Any) -> Any:
            inner = t[1:-1, 1:-1]
            moved = inner + 0.2 * (t[2:, 1:-1] + t[:-2, 1:-1] + t[1:-1, 2:] + t[1:-1, :-2] - 4 * inner)
            return jax.lax.dynamic_update_slice(t, moved, (1, 1)), jnp.abs(moved - inner).max()

        return jax.lax.scan(step, t, None, steps)

    spec = P("x", "y")
    return Program(simulated, {"x": 4, "y": 2}, (array(side, side),), (spec,), (spec, P()))


def equilibrium(small: bool) -> Program:
    """Return a program that computes the equilibrium temperature of a plate with a heat source. The plate is split in
    both dims, and its edge has temperature zero.
    """
    side = 16 if small else 4096

    def difference(t: Any) -> Any:
        p = jnp.pad(t, 1)
        return 4 * t - p[2:, 1:-1] - p[:-2, 1:-1] - p[1:-1, 2:] - p[1:-1, :-2]

    def solve(heat: Any) -> Any:
        return cg(difference, heat, maxiter=100)[0]

    spec = P("x", "y")
    return Program(solve, {"x": 4, "y": 2}, (array(side, side),), (spec,), spec)


PROGRAMS = {"n-body": bodies, "heat": heat, "heat-cg": equilibrium}
