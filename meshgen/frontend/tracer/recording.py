"""The trace that records a function, user locations, and the table of operations.

A traced function runs once, as ordinary Python, on `Tensor`s. Each operation appends nodes to the graph of the
current trace and points at the user's line. The operations register themselves in `OPS`, so that operators
and methods of `Tensor` find them without an import cycle.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, NoReturn, TypeVar

from meshgen.calls.lines import INSIDE, location_of
from meshgen.errors import Diagnostic, Location, ProgramError
from meshgen.ir.graph import Graph, Value
from meshgen.mesh import Mesh
from meshgen.names import nearest_names

OPS: dict[str, Callable[..., Any]] = {}
_Function = TypeVar("_Function", bound=Callable[..., Any])


def traced(function: _Function) -> _Function:
    """Register an operation under its name (a trailing underscore avoids Python's own names)."""
    OPS[function.__name__.rstrip("_")] = function
    return function


def named(*names: str) -> Callable[[_Function], _Function]:
    """Register an operation under these names, which may have a namespace: `linalg.qr`."""

    def register(function: _Function) -> _Function:
        OPS.update(dict.fromkeys(names, function))
        return function

    return register


@dataclass
class Trace:
    """The graph that is being recorded, and the mesh or meshes if known.

    `manual` are the axes over which it is written per device: those of a function given to `mg.manual`, which is called
    in the trace `around`. `warnings` are for the program's author. `at` is the place of what is recorded, where a file says it
    and not a line of Python that is running.
    """

    graph: Graph
    mesh: Mesh | None = None
    constants: dict[tuple[str, complex, tuple[float, ...]], Value] = field(default_factory=dict)
    manual: tuple[str, ...] = ()
    meshes: tuple[Mesh, ...] = ()
    around: Trace | None = None
    warnings: list[Diagnostic] = field(default_factory=list[Diagnostic])
    at: Location | None = None

    def has(self, other: Trace | None) -> bool:
        """Whether tensors of the other trace may be used in this one: it is this one, or encloses it."""
        return other is self or (self.around is not None and self.around.has(other))

    def warn(self, warning: Diagnostic) -> None:
        """Keep a warning, once."""
        if self.around is not None:
            self.around.warn(warning)
        elif warning not in self.warnings:
            self.warnings.append(warning)


CURRENT: ContextVar[Trace | None] = ContextVar("meshgen_trace", default=None)


def current() -> Trace:
    """The trace being recorded. Raises ProgramError MG0001 outside of one."""
    if trace := CURRENT.get():
        return trace
    raise ProgramError(
        Diagnostic(
            "MG0001",
            "meshgen's operations work inside a function that is being traced",
            user_location(),
            hint="pass the function to meshgen.compile or meshgen.lower",
        )
    )


def user_location() -> Location | None:
    """The innermost line outside of meshgen and NumPy that is running, with its column; or the place that the trace is at."""
    if (trace := CURRENT.get()) is not None and trace.at is not None:
        return trace.at
    frame = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]  # CPython has no public way this cheap
    while frame and frame.f_code.co_filename.startswith(INSIDE):
        frame = frame.f_back
    return None if frame is None else location_of(frame)


class MissingNameError(ProgramError, AttributeError):
    """A name that meshgen does not have; `hasattr` and `getattr` with a default see an AttributeError."""


# What JAX users look for first, and where it is.
_ELSEWHERE = {
    "grad": "take gradients in JAX: mg.from_jax(jax.grad(f)) is a function of traced tensors",
    "value_and_grad": "take gradients in JAX: mg.from_jax(jax.value_and_grad(f)) is a function of traced tensors",
    "vmap": "mg.from_jax(jax.vmap(f)) is a function of traced tensors",
    "jit": "mg.compile(f, mesh, args=...) compiles a function",
}


def missing(name: str, place: str, known: Iterable[str]) -> MissingNameError:
    """The fault of an unknown name, with near ones; `place` is written before it: `mg.`."""
    near = nearest_names(name, [each for each in known if not each.startswith("_")], 3, 0.7)
    listed = " or ".join(f"{place}{each}" for each in near)
    hint = _ELSEWHERE.get(name) or (f"did you mean {listed}?" if near else "docs/functions.md lists all functions")
    return MissingNameError(Diagnostic("MG0105", f"unknown name {place}{name}", user_location(), hint=hint))


def refuse(message: str, hint: str = "", code: str = "MG0104") -> NoReturn:
    """Raise a ProgramError at the user's line."""
    raise ProgramError(Diagnostic(code, message, user_location(), hint=hint))
