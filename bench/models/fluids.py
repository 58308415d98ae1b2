"""Navier-Stokes equations of jax-cfd on a grid with two split dims: finite-volume steps, whose pressure is solved by
FFTs.
"""

from __future__ import annotations

from typing import Any

import jax_cfd.base as cfd
import numpy as np
from jax.sharding import PartitionSpec as P
from jax_cfd import spectral

from bench.models.program import Program, array

MESH = {"x": 4, "y": 2}
STEP, VISCOSITY = 1e-3, 1e-3


def finite_volumes(small: bool) -> Program:
    side, steps = (16, 2) if small else (1024, 10)
    grid = cfd.grids.Grid((side, side), domain=((0, 2 * np.pi), (0, 2 * np.pi)))
    step = cfd.equations.semi_implicit_navier_stokes(density=1.0, viscosity=VISCOSITY, dt=STEP, grid=grid)
    steps = cfd.funcutils.repeated(step, steps)
    boundary = cfd.boundaries.periodic_boundary_conditions(2)

    def flow(u: Any, v: Any) -> Any:
        faces = [
            cfd.grids.GridArray(component, offset, grid)
            for component, offset in zip((u, v), grid.cell_faces, strict=True)
        ]
        return tuple(
            component.array.data for component in steps(tuple(cfd.grids.GridVariable(face, boundary) for face in faces))
        )

    spec = P("x", "y")
    return Program(flow, MESH, (array(side, side),) * 2, (spec, spec), (spec, spec))


def vorticity(small: bool) -> Program:
    """Return the program of the spectral form. Its state is the Fourier transform of the vorticity, with `side / 2 + 1`
    columns and split rows.
    """
    side, steps = (16, 2) if small else (1024, 10)
    grid = cfd.grids.Grid((side, side), domain=((0, 2 * np.pi), (0, 2 * np.pi)))
    equation = spectral.equations.NavierStokes2D(VISCOSITY, grid, smooth=True)
    steps = cfd.funcutils.repeated(spectral.time_stepping.crank_nicolson_rk4(equation, STEP), steps)
    state = array(side, side // 2 + 1, dtype="complex64")
    return Program(steps, {"x": 8}, (state,), (P("x"),), P("x"))


PROGRAMS = {"cfd": finite_volumes, "cfd-spectral": vorticity}
