"""Reports on a loaded module. They are the same as those on the compiled program that was saved.

Reports on collectives and memory use only the schedule. Other reports need the program with its sharding decisions,
which most modules store. For other modules, the stored text of the program is planned again with the same options, when
such a report is first used. `meshgen.load` passes the function that does this, because the runtime does not contain the
compiler.
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
    """A program with sharding decisions, which makes most of the reports."""

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
    """The sources of the reports on a module: collectives, memory, and the program with sharding decisions."""

    @cached_property
    def comms(self) -> Comms: ...
    @cached_property
    def memory(self) -> Memory: ...
    @cached_property
    def program(self) -> Planned: ...


class ModuleReports:
    """The report methods of a loaded module.

    All raise UsageError MG0001 if the module was not loaded with `meshgen.load`. If the program must be planned again,
    they raise MG0002 for a module that was saved without its text.
    """

    viewer: Callable[[Any], Views] | None = None
    _cached_views: Views | None = None

    def viewed_by(self, viewer: Callable[[Any], Views] | None) -> Self:
        """Set the function that returns the data for the reports, and return this module."""
        self.viewer = viewer
        return self

    @property
    def _views(self) -> Views:
        if self.viewer is None:
            text = "a module that the runtime alone loaded has no reports"
            raise UsageError(Diagnostic("MG0001", text, hint="load it with meshgen.load"))
        self._cached_views = self._cached_views or self.viewer(self)
        return self._cached_views

    @property
    def comms(self) -> Comms:
        """Return the collectives of a step in the order in which they run, with the reason for each."""
        return self._views.comms

    @property
    def memory(self) -> Memory:
        """Return the device memory per rank: the peak and the largest buffers."""
        return self._views.memory

    @property
    def cost(self) -> Cost:
        """Return floating-point operations, memory traffic and predicted times of a step, per device."""
        return self._views.program.cost

    @property
    def warnings(self) -> list[Diagnostic]:
        """Return warnings about the program, as numbered diagnostics."""
        return self._views.program.warnings

    @at_callers_line
    def explain(self, what: str | int | None = None, *, verbose: bool = False) -> str:
        """Return the metrics of a step and its collectives grouped by cause, or explain the sharding of `what`.

        Args:
            what: name of a value, or number of a source line. Default: the entire program.
            verbose: list all collectives, formulas of their bytes, and overridden annotations.
        """
        return self._views.program.explain(what, verbose=verbose)

    @at_callers_line
    def show(self, what: str | int | None = None) -> str:
        """Return the predicted timeline of a step, or how `what` is split into tiles.

        `what` is the name of a value, or the number of a source line.
        """
        return self._views.program.show(what)

    def tree(self) -> str:
        """Return a tree of the collectives: operations, the reshards that they need, and the collectives of a reshard."""
        return self._views.program.tree()

    def gathers(self) -> list[Gather]:
        """Return the values that are gathered although no annotation requires replication, largest transfers first."""
        return self._views.program.gathers()

    @at_callers_line
    def report(self, path: str | Path) -> None:
        """Write an HTML page with collectives, kernels, memory and the predicted timeline.

        Raises:
            UsageError: MG0003, the file cannot be written.
        """
        self._views.program.report(path)

    def _repr_html_(self) -> str:
        """Return the HTML that notebooks display."""
        # the method that notebooks call
        return getattr(self._views.program, "_repr_html_")()  # noqa: B009  # as notebooks call it
