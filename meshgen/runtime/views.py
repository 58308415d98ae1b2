"""Reports of a loaded module: the same as those of the compiled program from which it was saved.

Reports on collectives and memory use only the schedule. Other reports need the program with its sharding decisions,
which most modules store. Otherwise, the stored text of the program is planned again on first use, with the same
options. `meshgen.load` passes the function that does this, because the runtime does not contain the compiler.
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
    """A module's program with its sharding decisions."""

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
    """The sources of the reports on one module."""

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
    _made: Views | None = None

    def viewed_by(self, viewer: Callable[[Any], Views] | None) -> Self:
        """Set the function that makes the reports, and return this module."""
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
        """Return the collectives in the order in which they run, with the reason for each."""
        return self._views.comms

    @property
    def memory(self) -> Memory:
        """Return the device memory per rank: the peak and the largest buffers."""
        return self._views.memory

    @property
    def cost(self) -> Cost:
        """Return floating-point operations, traffic and predicted times per device and step."""
        return self._views.program.cost

    @property
    def warnings(self) -> list[Diagnostic]:
        """Return warnings about the program, as numbered diagnostics."""
        return self._views.program.warnings

    @at_callers_line
    def explain(self, what: str | int | None = None, *, verbose: bool = False) -> str:
        """Return the metrics of a step and its collectives by cause, or the reasons for a value or source line.

        Args:
            what: name of a value, or a source line.
            verbose: list each collective in notation.
        """
        return self._views.program.explain(what, verbose=verbose)

    @at_callers_line
    def show(self, what: str | int | None = None) -> str:
        """Return the timeline of a step, or the tiles of the values that `what` names: a value or a source line."""
        return self._views.program.show(what)

    def tree(self) -> str:
        """Return the collectives as a tree: the operation that needs a value, its reshard, and the collectives for it."""
        return self._views.program.tree()

    def gathers(self) -> list[Gather]:
        """Return the values that are gathered although no annotation replicates them, largest transfers first."""
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
        # as notebooks call it
        return getattr(self._views.program, "_repr_html_")()  # noqa: B009  # as notebooks call it
