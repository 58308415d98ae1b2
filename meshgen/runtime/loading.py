"""Loading of `.mgx` files. It needs only NumPy, no compiler and no Triton, and checks everything before use."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from meshgen.errors import Diagnostic, UsageError, listed
from meshgen.runtime import (
    pickling as pickling,  # This import only has a side effect: it makes loaded modules picklable.
)
from meshgen.runtime.entries import load_entries
from meshgen.runtime.module import LoadedModule
from meshgen.runtime.module_file.container import Container, path_of
from meshgen.runtime.module_file.manifest import Json
from meshgen.runtime.module_file.members import Members
from meshgen.runtime.module_reports import Views
from meshgen.runtime.open_module import Specialize, load_open
from meshgen.runtime.program import load_checked
from meshgen.runtime.signatures import require_signature
from meshgen.runtime.sizes import Given, refuse_launched
from meshgen.runtime.validation.load_checks import checked_manifest


def load(path: str | Path, mesh: Given = None, *, entry: str = "", devices: int | None = None, mmap: bool = False,
         specialize: Specialize | None = None, runs: bool = True, verify_key: str | Path | None = None,
         viewer: Callable[[LoadedModule], Views] | None = None) -> LoadedModule:  # fmt: skip
    """Read and check a module file.

    Returns a `LoadedProgram` with one part per mesh for a program on several meshes.

    Later changes of the file have no effect, unless its weights are mapped. A module with unknown sizes is an
    `OpenModule` until all sizes are known; its specializations are checked on first use. If the module has several
    entry functions and neither `entry` nor a function `main` selects one, the caller must choose one before it runs
    anything (see `entries`).

    Args:
        mesh: sizes of open mesh axes. Other axes must have their compiled size.
        entry: name of the entry function, if the module has several; default: `main`.
        devices: number of devices, which determines the size of the last open axis. Default: the number of processes of
            the launcher (torchrun, mpiexec, srun).
        mmap: map the weights instead of reading them, so that processes share their memory. Writing to the file then
            changes results, and truncating it kills the process, so only use this for files that are never modified.
        specialize: function that compiles an open module for sizes that have no specialization.
        runs: the module will run in this process. If False, the module is only inspected, and any number of processes
            may be running.
        verify_key: a PEM file with an ed25519 public key; the module must be signed by this key.
        viewer: function that makes the reports (`comms`, `explain`, ...); without it, the module has none.
    Raises:
        UsageError: MG0002, the file is missing or cannot be read. MG0001, unknown entry function.
        ShardingError: MG0201, MG0202, the mesh does not match the module's.
        MissingError: MG0603, the number of devices does not match the mesh. MG0602, an open module was not compiled for
            this mesh.
        ModuleError: MG0501, the file is not a module. MG0502, it is damaged. MG0503, it was written by a newer or a
            much older meshgen. MG0506, it is not signed, or by another key.
        ScheduleError: MG0401, MG0402, its schedule can deadlock or has a race.
    """
    path = path_of(path)
    container = Container(path, mapped=mmap)
    if verify_key is not None:
        require_signature(container, verify_key)
    manifest = checked_manifest(container, path)
    if "entries" not in manifest:
        module = _module(container, manifest, specialize)
        modules = {module.name: module}
    else:
        modules = load_entries(
            container, manifest, lambda members: _module(members, checked_manifest(members, path), specialize)
        )
    modules = {name: module.viewed_by(viewer).on(mesh, devices) for name, module in modules.items()}
    chosen = _chosen_entry(modules, entry, path)
    if runs and mesh is None and devices is None:
        refuse_launched(chosen.meshes)
    return chosen


def _module(members: Members, value: Json, specialize: Specialize | None) -> LoadedModule:
    """Return the module that a checked manifest describes: an `OpenModule` if it has open sizes."""
    return (
        load_open(members, value, specialize)
        if "specialisations" in value
        else load_checked(members, members.path, value)
    )


def _chosen_entry(modules: Mapping[str, LoadedModule], entry: str, path: Path) -> LoadedModule:
    """Return the module of the entry function `entry`, by default `main`, else the first one in the file.

    The first one is marked as not chosen by the caller, unless the file has only one entry function.
    """
    if entry and entry not in modules:
        text = f"unknown entry function '{entry}' of '{path}'"
        raise UsageError(Diagnostic("MG0001", text, hint=f"known entry functions are {listed([*modules])}"))
    for name, module in modules.items():
        module.among(modules, len(modules) == 1 or name == (entry or "main"))
    return modules[entry or ("main" if "main" in modules else next(iter(modules)))]
