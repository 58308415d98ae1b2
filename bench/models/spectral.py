"""Steps of exponax: partial differential equations in Fourier space, on grids with a split first dim."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import exponax as ex
import jax
from jax.sharding import PartitionSpec as P

from bench.models.program import Program, array


def _step(make: Callable[[int], Any], channels: int, dims: int, points: int) -> Program:
    """Return the program of one step on `points` per dim. The stepper's coefficients are arguments without annotations."""
    shapes = eqx.filter_eval_shape(lambda: make(points))
    coefficients, rest = eqx.partition(shapes, lambda leaf: isinstance(leaf, jax.ShapeDtypeStruct))
    state, spec = array(channels, *[points] * dims), P(None, "x")

    def step(coefficients: Any, u: Any) -> Any:
        return eqx.combine(coefficients, rest)(u)

    return Program(step, {"x": 8}, (coefficients, state), (None, spec), spec)


def flame(small: bool) -> Program:
    """Return the program of Kuramoto-Sivashinsky in three dims, with one field."""
    return _step(lambda n: ex.stepper.KuramotoSivashinsky(3, 100.0, n, 0.01), 1, 3, 16 if small else 256)


def burgers(small: bool) -> Program:
    """Return the program of Burgers in three dims, with three fields: fewer than devices."""
    return _step(lambda n: ex.stepper.Burgers(3, 1.0, n, 0.01), 3, 3, 16 if small else 256)


def vorticity(small: bool) -> Program:
    """Return the program of Navier-Stokes in two dims."""
    return _step(lambda n: ex.stepper.NavierStokesVorticity(2, 1.0, n, 0.01), 1, 2, 16 if small else 2048)


PROGRAMS = {"spectral-flame": flame, "spectral-burgers": burgers, "spectral-vorticity": vorticity}
