"""What a loaded module says of itself, as the compiled program does that it was saved from.

Collectives and memory are read off its schedule. The rest needs its program with the decisions, which the module keeps; where it keeps none,
the program, whose text it keeps, is planned again on first use, as it was for the module. `meshgen.load` gives modules the function that does both; the runtime alone has no compiler.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Self

from meshgen.calls.callers import at_callers_line
from meshgen.errors import Diagnostic, UsageError

if TYPE_CHECKING:
    from meshgen.reports.comms import Comms
    from meshgen.reports.cost import Cost
    from meshgen.reports.gathers import Gather
    from meshgen.reports.memory import Memory


class Planned(Protocol):
    """The program of a module, with its decisions."""

    @cached_property
    def cost(self) -> Cost: ...
    @property
    def warnings(self) -> list[Diagnostic]: ...
    def explain(self, what: str | int | None = None, *, verbose: bool = False) -> str: ...
    def show(self, what: str | int | None = None) -> str: ...
    def tree(self) -> str: ...
    def gathers(self) -> list[Gather]: ...
    def report(self, path: str | Path) -> None: ...


class Views(Protocol):
    """What reports read of one module."""

    @cached_property
    def comms(self) -> Comms: ...
    @cached_property
    def memory(self) -> Memory: ...
    @cached_property
    def program(self) -> Planned: ...


class Viewed:
    """A loaded module as its reports see it. Everything raises UsageError: MG0001 where `meshgen.load` did not load it, and,
    where its program is planned again, MG0002 for a module that was saved without its text."""

    viewer: Callable[[Any], Views] | None = None
    _made: Views | None = None

    def viewed_by(self, viewer: Callable[[Any], Views] | None) -> Self:
        """This module, whose reports a function makes."""
        self.viewer = viewer
        return self

    @property
    def _views(self) -> Views:
        if self.viewer is None:
            text = "a module that the runtime alone loaded has no reports"
            raise UsageError(Diagnostic("MG0001", text, hint="load it with meshgen.load"))
        self._made = self._made or self.viewer(self)
        return self._made

    @property
    def comms(self) -> Comms:
        """The collectives in the order in which they run, with the reason for each."""
        return self._views.comms

    @property
    def memory(self) -> Memory:
        """Device memory per rank: the peak and the largest buffers."""
        return self._views.memory

    @property
    def cost(self) -> Cost:
        """Floating-point operations, traffic and predicted times per device and step."""
        return self._views.program.cost

    @property
    def warnings(self) -> list[Diagnostic]:
        """Warnings about the program, as numbered diagnostics."""
        return self._views.program.warnings

    @at_callers_line
    def explain(self, what: str | int | None = None, *, verbose: bool = False) -> str:
        """A step's figures and collectives by cause (`verbose`: each, in notation), or the reasons of a value or source line."""
        return self._views.program.explain(what, verbose=verbose)

    @at_callers_line
    def show(self, what: str | int | None = None) -> str:
        """The timeline of a step; or the tiles of a value, or of those of a source line."""
        return self._views.program.show(what)

    def tree(self) -> str:
        """The collectives as a tree: the operation that needs a value, its reshard, and what moves it."""
        return self._views.program.tree()

    def gathers(self) -> list[Gather]:
        """The values that are gathered though no annotation replicates them, those that move most first."""
        return self._views.program.gathers()

    @at_callers_line
    def report(self, path: str | Path) -> None:
        """Write an HTML page: collectives, kernels, memory and the predicted timeline. Raises UsageError MG0003."""
        self._views.program.report(path)

    def _repr_html_(self) -> str:
        """What notebooks show."""
        return getattr(self._views.program, "_repr_html_")()  # noqa: B009  # as notebooks call it
