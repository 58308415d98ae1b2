"""Time steps of exponax: partial differential equations in Fourier space, on grids whose first dim is split."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import exponax as ex
import jax
from jax.sharding import PartitionSpec as P

from bench.models.program import Program, array


def _step(make: Callable[[int], Any], channels: int, dims: int, points: int) -> Program:
    """Return the program of one time step on a grid with `points` per dim. The coefficients of the stepper are
    arguments without annotations.
    """
    shapes = eqx.filter_eval_shape(lambda: make(points))
    coefficients, rest = eqx.partition(shapes, lambda leaf: isinstance(leaf, jax.ShapeDtypeStruct))
    state, spec = array(channels, *[points] * dims), P(None, "x")

    def step(coefficients: Any, u: Any) -> Any:
        return eqx.combine(coefficients, rest)(u)

    return Program(step, {"x": 8}, (coefficients, state), (None, spec), spec)


def flame(small: bool) -> Program:
    """Return the program of the Kuramoto-Sivashinsky equation with three dims and one field."""
    return _step(lambda n: ex.stepper.KuramotoSivashinsky(3, 100.0, n, 0.01), 1, 3, 16 if small else 256)


def burgers(small: bool) -> Program:
    """Return the program of the Burgers equation with three dims and three fields, fewer fields than devices."""
    return _step(lambda n: ex.stepper.Burgers(3, 1.0, n, 0.01), 3, 3, 16 if small else 256)


def vorticity(small: bool) -> Program:
    """Return the program of the Navier-Stokes equations with two dims."""
    return _step(lambda n: ex.stepper.NavierStokesVorticity(2, 1.0, n, 0.01), 1, 2, 16 if small else 2048)


PROGRAMS = {"spectral-flame": flame, "spectral-burgers": burgers, "spectral-vorticity": vorticity}
