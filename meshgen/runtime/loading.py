"""Load a `.mgx` file. Needs NumPy only: no compiler, no Triton. Everything is checked before it is used."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from meshgen.errors import Diagnostic, UsageError, listed
from meshgen.runtime import copies as copies  # loaded modules can be pickled
from meshgen.runtime.entries import load_entries
from meshgen.runtime.module import LoadedModule
from meshgen.runtime.module_file.container import Container, path_of
from meshgen.runtime.module_file.manifest import Json
from meshgen.runtime.module_file.members import Members
from meshgen.runtime.open_module import Specialise, load_open
from meshgen.runtime.program import load_checked
from meshgen.runtime.signatures import require_signature
from meshgen.runtime.sizes import Given, refuse_launched
from meshgen.runtime.validation.checked import checked_manifest
from meshgen.runtime.views import Views


def load(path: str | Path, mesh: Given = None, *, entry: str = "", devices: int | None = None, mmap: bool = False,
         specialise: Specialise | None = None, runs: bool = True, verify_key: str | Path | None = None,
         viewer: Callable[[LoadedModule], Views] | None = None) -> LoadedModule:  # fmt: skip
    """Read a module file once and check all of it; of a program on several meshes a `LoadedProgram`, with a part for each.

    Later changes of the file have no effect, unless its weights are mapped.

    A module with open sizes is an `OpenModule` until all are known; its specialisations are checked on first use.

    Of a module with several entry functions it is the one of that name, else `main`; without `main` it must be chosen
    before anything runs (see `entries`).

    Args:
        mesh: sizes of open mesh axes; others must be as compiled.
        entry: the entry function, of a module that has several.
        devices: their number, which determines the last open axis; default: the processes
            of a launcher (torchrun, mpiexec, srun).
        mmap: map the weights instead of reading them, so that processes share their memory. Writing into the
            file then changes results, and truncating it kills the process: only for files that are replaced, never changed.
        specialise: compiles an open module for sizes without a specialisation.
        runs: whether it will run here; a module can be inspected from any process of a launcher.
        verify_key: a PEM file with an ed25519 public key, by which the module must be signed.
        viewer: makes the reports of a module (`comms`, `explain`, ...); without one it has none.
    Raises:
        UsageError: MG0002, the file is missing or cannot be read; MG0001, unknown entry function.
        ShardingError: MG0201, MG0202, the mesh is not the module's.
        MissingError: MG0603, the devices do not fill the mesh; MG0602, an open module was not compiled for this mesh.
        ModuleError: MG0501, it is not a module; MG0502, it is damaged; MG0503, it is of a newer or older meshgen; MG0506, it is
            not signed, or not by this key.
        ScheduleError: its schedule has a race or can deadlock.
    """
    path = path_of(path)
    container = Container(path, mapped=mmap)
    if verify_key is not None:
        require_signature(container, verify_key)
    value = checked_manifest(container, path)
    if "entries" not in value:
        module = _module(container, value, specialise)
        modules = {module.name: module}
    else:
        modules = load_entries(container, value, lambda held: _module(held, checked_manifest(held, path), specialise))
    modules = {name: module.viewed_by(viewer).on(mesh, devices) for name, module in modules.items()}
    found = _chosen_entry(modules, entry, path)
    if runs and mesh is None and devices is None:
        refuse_launched(found.meshes)
    return found


def _module(members: Members, value: Json, specialise: Specialise | None) -> LoadedModule:
    """The module of a checked manifest: with open sizes, or an ordinary one."""
    return (
        load_open(members, value, specialise)
        if "specialisations" in value
        else load_checked(members, members.path, value)
    )


def _chosen_entry(modules: Mapping[str, LoadedModule], entry: str, path: Path) -> LoadedModule:
    """The entry function of this name, else `main` or the only one, else the first, marked as not chosen."""
    if entry and entry not in modules:
        text = f"unknown entry function '{entry}' of '{path}'"
        raise UsageError(Diagnostic("MG0001", text, hint=f"known entry functions are {listed([*modules])}"))
    for name, module in modules.items():
        module.among(modules, len(modules) == 1 or name == (entry or "main"))
    return modules[entry or ("main" if "main" in modules else next(iter(modules)))]
