"""Pickling of loaded modules: the members of their file, checked again on unpickling."""

from __future__ import annotations

import copyreg
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from meshgen.mesh import Mesh
from meshgen.runtime.module import LoadedModule
from meshgen.runtime.module_file.members import Held
from meshgen.runtime.open_module import OpenModule, Specialise, load_open
from meshgen.runtime.program import LoadedProgram, load_checked
from meshgen.runtime.validation.checked import checked_manifest
from meshgen.runtime.views import Views


def restored(path: Path, members: Mapping[str, bytes], meshes: Sequence[Mesh], specialise: Specialise | None,
             viewer: Callable[[LoadedModule], Views] | None) -> LoadedModule:  # fmt: skip
    """The unpickled module. Raises as `load`."""
    held = Held(path, members)
    value = checked_manifest(held, path)
    found = load_open(held, value, specialise) if "specialisations" in value else load_checked(held, path, value)
    return found.viewed_by(viewer).on(meshes)


def _pickled(module: LoadedModule) -> tuple[Callable[..., LoadedModule], tuple[Any, ...]]:
    members = {name: bytes(module.members[name]) for name in module.members}
    is_open = isinstance(module, OpenModule)
    specialise = module.specialise if is_open else None
    return restored, (module.members.path, members, module.meshes, specialise, module.viewer)


for _kind in (LoadedModule, LoadedProgram, OpenModule):
    copyreg.pickle(_kind, _pickled)
