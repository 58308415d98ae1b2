"""Pickling of loaded modules.

A pickle contains the members of the module's file, which are checked again on unpickling.
"""

from __future__ import annotations

import copyreg
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from meshgen.mesh import Mesh
from meshgen.runtime.module import LoadedModule
from meshgen.runtime.module_file.members import Held
from meshgen.runtime.module_reports import Views
from meshgen.runtime.open_module import OpenModule, Specialize, load_open
from meshgen.runtime.program import LoadedProgram, load_checked
from meshgen.runtime.validation.load_checks import checked_manifest


def restored(path: Path, members: Mapping[str, bytes], meshes: Sequence[Mesh], specialize: Specialize | None,
             viewer: Callable[[LoadedModule], Views] | None) -> LoadedModule:  # fmt: skip
    """Return the unpickled module. Raises the same errors as `load`."""
    container = Held(path, members)
    value = checked_manifest(container, path)
    module = (
        load_open(container, value, specialize) if "specialisations" in value else load_checked(container, path, value)
    )
    return module.viewed_by(viewer).on(meshes)


def _pickled(module: LoadedModule) -> tuple[Callable[..., LoadedModule], tuple[Any, ...]]:
    members = {name: bytes(module.members[name]) for name in module.members}
    is_open = isinstance(module, OpenModule)
    specialize = module.specialize if is_open else None
    return restored, (module.members.path, members, module.meshes, specialize, module.viewer)


for _kind in (LoadedModule, LoadedProgram, OpenModule):
    copyreg.pickle(_kind, _pickled)
