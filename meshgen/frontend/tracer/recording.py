"""The trace that records a function, the user's source locations, and the table of operations.

A traced function runs once, as ordinary Python, on `Tensor`s. Each operation appends nodes to the graph of the current
trace, located at the user's line. The operations register themselves in `OPS`; operators and methods of `Tensor` look
them up there, which avoids an import cycle.
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
    """Register a function as an operation, under the function's name without a trailing underscore."""
    OPS[function.__name__.rstrip("_")] = function
    return function


def named(*names: str) -> Callable[[_Function], _Function]:
    """Return a decorator that registers a function as an operation under these names, which may be dotted: `linalg.qr`."""

    def register(function: _Function) -> _Function:
        OPS.update(dict.fromkeys(names, function))
        return function

    return register


@dataclass
class Trace:
    """A graph under construction, and the mesh or meshes of the program if they are already known.

    Attributes:
        constants: the scalar constants of the graph, by dtype, value and signs.
        manual: the mesh axes over which the graph is per-device code (see `mg.manual`); empty outside.
        around: the enclosing trace, if this one records a region or the function of `mg.manual`.
        warnings: diagnostics for the author of the program.
        at: the location of new nodes if a file provides it. If it is None, nodes are located at the running Python
            line.
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
        """Whether tensors of the trace `other` may be used here, because `other` is this trace or encloses it."""
        return other is self or (self.around is not None and self.around.has(other))

    def warn(self, warning: Diagnostic) -> None:
        """Record a warning in the outermost trace, unless that trace has it already."""
        if self.around is not None:
            self.around.warn(warning)
        elif warning not in self.warnings:
            self.warnings.append(warning)


CURRENT: ContextVar[Trace | None] = ContextVar("meshgen_trace", default=None)


def current() -> Trace:
    """Return the trace under construction. Raises ProgramError MG0001 if there is none."""
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
    """Return the location of the current trace, or the innermost running line outside of meshgen and NumPy."""
    if (trace := CURRENT.get()) is not None and trace.at is not None:
        return trace.at
    # CPython's public functions for frames are slower.
    frame = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    while frame and frame.f_code.co_filename.startswith(INSIDE):
        frame = frame.f_back
    return None if frame is None else location_of(frame)


class MissingNameError(ProgramError, AttributeError):
    """Error for an unknown name `mg.NAME`. It is also an AttributeError, as `hasattr` and `getattr` require."""


# Names that users know from JAX, with hints about what to use instead.
_ELSEWHERE = {
    "grad": "take gradients in JAX: mg.from_jax(jax.grad(f)) is a function of traced tensors",
    "value_and_grad": "take gradients in JAX: mg.from_jax(jax.value_and_grad(f)) is a function of traced tensors",
    "vmap": "mg.from_jax(jax.vmap(f)) is a function of traced tensors",
    "jit": "mg.compile(f, mesh, args=...) compiles a function",
}


def missing(name: str, place: str, known: Iterable[str]) -> MissingNameError:
    """Return the error for an unknown name, with suggestions from `known`.

    `place` is the prefix of the name, such as `mg.`.
    """
    similar = nearest_names(name, [candidate for candidate in known if not candidate.startswith("_")], 3, 0.7)
    suggestions = " or ".join(f"{place}{candidate}" for candidate in similar)
    hint = _ELSEWHERE.get(name) or (
        f"did you mean {suggestions}?" if similar else "docs/functions.md lists all functions"
    )
    return MissingNameError(Diagnostic("MG0105", f"unknown name {place}{name}", user_location(), hint=hint))


def refuse(message: str, hint: str = "", code: str = "MG0104") -> NoReturn:
    """Raise a ProgramError with this message, located at the user's line."""
    raise ProgramError(Diagnostic(code, message, user_location(), hint=hint))
