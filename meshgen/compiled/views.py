"""The reports of a loaded module (`meshgen/runtime/views.py`): off its schedule, or of its program, planned again."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

from meshgen.compiled.executable import Executable
from meshgen.reports.comms import Comms, comms_of
from meshgen.reports.memory import Memory, memory_of
from meshgen.runtime.module import LoadedModule


class ModuleViews:
    """Of one module of known sizes; `replan` plans its program again."""

    def __init__(self, module: LoadedModule, replan: Callable[[LoadedModule], Executable]) -> None:
        module.require_sizes()
        self._module, self._replan = module, replan

    @cached_property
    def comms(self) -> Comms:
        """Those of all meshes, one mesh after the other."""
        parts = self._module.parts
        found = [(part.mesh.name if len(parts) > 1 else "", comms_of(part.schedule, part.mesh)) for part in parts]
        return Comms(tuple(row._replace(mesh=mesh) for mesh, rows in found for row in rows))

    @cached_property
    def memory(self) -> Memory:
        """That of the mesh whose devices need most."""
        return max((memory_of(part.schedule) for part in self._module.parts), key=lambda each: each.peak_bytes)

    @cached_property
    def program(self) -> Executable:
        """The program, without binaries."""
        return self._replan(self._module)
