"""Reports of a loaded module (see `meshgen/runtime/module_reports.py`), computed from its schedule or from its program.

If the module has no saved decisions, the program is compiled again from its text.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

from meshgen.compiled.executable import Executable
from meshgen.reports.comms import Comms, comms_of
from meshgen.reports.memory import Memory, memory_of
from meshgen.runtime.module import LoadedModule


class ModuleViews:
    """Reports of a loaded module with known sizes. `replan` returns the module's program, restored or compiled again."""

    def __init__(self, module: LoadedModule, replan: Callable[[LoadedModule], Executable]) -> None:
        module.require_sizes()
        self._module, self._replan = module, replan

    @cached_property
    def comms(self) -> Comms:
        """Return the collectives of all meshes, mesh by mesh."""
        parts = self._module.parts
        comms_by_mesh = [
            (part.mesh.name if len(parts) > 1 else "", comms_of(part.schedule, part.mesh)) for part in parts
        ]
        return Comms(tuple(row._replace(mesh=mesh) for mesh, rows in comms_by_mesh for row in rows))

    @cached_property
    def memory(self) -> Memory:
        """Return the memory report of the mesh whose devices need the most memory."""
        return max((memory_of(part.schedule) for part in self._module.parts), key=lambda report: report.peak_bytes)

    @cached_property
    def program(self) -> Executable:
        """Return the compiled program of the module, without kernel binaries."""
        return self._replan(self._module)
