"""Loaded modules with open sizes, which select or compile the specialization for given sizes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from meshgen.calls.callers import at_callers_line
from meshgen.calls.signature import Signature
from meshgen.errors import ArgumentError, Diagnostic
from meshgen.ir.graph import TensorType, dtype_name
from meshgen.mesh import Mesh
from meshgen.runtime.arguments import Arguments, Shapes, array_of, by_name
from meshgen.runtime.emulation_options import Emulation
from meshgen.runtime.module import LoadedModule
from meshgen.runtime.module_file import limits
from meshgen.runtime.module_file.container import WEIGHTS
from meshgen.runtime.module_file.manifest import Json, Manifest
from meshgen.runtime.module_file.members import Held, Members, damaged
from meshgen.runtime.module_file.open_manifest import decode_open
from meshgen.runtime.module_file.stage_texts import unpacked
from meshgen.runtime.module_file.tensors import decode
from meshgen.runtime.module_reports import Views
from meshgen.runtime.open_program import OpenProgram
from meshgen.runtime.program import load_members
from meshgen.runtime.sizes import Given, Sizes, axis_sizes, bound, require_device_count
from meshgen.runtime.validation.load_checks import reading

Array = np.ndarray[Any, Any]
# A function that compiles the program for sizes of mesh axes and shapes of inputs, and returns the members of the
# specialization.
Specialize = Callable[["OpenModule", Sizes], Mapping[str, bytes]]


class OpenModule(LoadedModule):
    """A module with open sizes, as returned by `load`.

    A call takes the sizes of tensor dims from the arguments.

    Attributes that depend on sizes (`manifest`, `schedule`, ...) belong to a specialization, which `at` returns.
    """

    def __init__(self, container: Members, program: OpenProgram, members: Mapping[str, str],
                 specialize: Specialize | None) -> None:  # fmt: skip
        """Start without loaded specializations. `members` maps the digest of a member to its name in the file."""
        self.program = program
        self._meshes = program.meshes
        self._container = container
        self._members = members
        self.specialize = specialize
        self._loaded: dict[tuple[tuple[Mesh, ...], Sizes], LoadedModule] = {}

    @property
    def manifest(self) -> Manifest:
        """Return the manifest of the only specialization that fits, if all sizes are known.

        Raises ShardingError MG0201 or ArgumentError MG0601 if sizes are missing.
        """
        return self.at().manifest

    @property
    def name(self) -> str:
        return self.program.name

    @property
    def mesh(self) -> Mesh:
        return self.meshes[0]

    @property
    def meshes(self) -> tuple[Mesh, ...]:
        return self._meshes

    @property
    def place(self) -> str:
        """Return the meshes as text, for display."""
        return " and ".join(f"@{mesh.name} {mesh}" if len(self.meshes) > 1 else str(mesh) for mesh in self.meshes)

    def record(self) -> dict[str, Any]:
        """Return an empty report, because only specializations have reports."""
        return {}

    @property
    def _views(self) -> Views:
        """Return the reports of the specialization that `at()` returns. Raises the same errors as `manifest`."""
        return self.at()._views

    @property
    def specializations(self) -> tuple[Sizes, ...]:
        """Return the sizes for which the file contains specializations."""
        return tuple(self.program.held)

    @property
    def path(self) -> Path:
        """Return the path of the module's file."""
        return self._container.path

    @property
    def text(self) -> str:
        """Return the program with open sizes as text."""
        return unpacked(self._container, self.program.text_member)

    def weights(self) -> Mapping[str, Array]:
        """Return the global arrays that the module stores, by input name.

        Raises ModuleError MG0502 if they are damaged.
        """
        if WEIGHTS not in self._container:
            return {}
        with reading(self._container.path):
            return decode(self._container[WEIGHTS])

    @property
    def call(self) -> Signature | None:
        return self.program.call

    @property
    def input_types(self) -> dict[str, TensorType]:
        return {argument.name: argument.type for argument in self.program.inputs if not argument.stored}

    @property
    def input_names(self) -> list[str]:
        return [argument.name for argument in self.program.inputs if not argument.stored]

    @at_callers_line
    def run(self, args: Arguments, device: str | Emulation = "reference") -> list[Array]:
        """Run the specialization for the shapes of `args` (see `LoadedModule.run`). Also raises the errors of `at`."""
        self.require_entry()
        converted = {name: array_of(name, value) for name, value in by_name(self.input_names, args).items()}
        if faults := [Diagnostic("MG0601", fault) for _, fault in converted.values() if fault]:
            raise ArgumentError(*faults)
        arrays = {name: array for name, (array, _) in converted.items()}
        return self.at(args={name: array.shape for name, array in arrays.items()}).run(arrays, device)

    @at_callers_line
    def at(self, mesh: Given = None, args: Shapes = None) -> LoadedModule:
        """Return the specialization for these sizes.

        It is loaded from the file, or compiled now if the file lacks it, and checked like every module.

        Args:
            mesh: sizes of open mesh axes.
            args: shapes of inputs by name. Shapes of inputs without open dims are ignored.
        Raises:
            ShardingError: MG0201, MG0202, a size of a mesh axis is missing or contradicts the module.
            ArgumentError: MG0601, a shape is missing or contradicts the module.
            MissingError: MG0602, the module has no such specialization, and the compiler is missing.
            ProgramError: the program is invalid for these sizes.
        """
        meshes = bound(self.meshes, mesh)
        sizes = self.program.sizes(meshes, args)
        if (meshes, sizes) not in self._loaded:
            module = self.held(sizes) if sizes in self.program.held else self._compiled_now(sizes)
            self._loaded[meshes, sizes] = module.at(mesh=meshes[0]) if len(meshes) == 1 else module
        return self._loaded[meshes, sizes].viewed_by(self.viewer)

    def on(self, mesh: Given, devices: int | None = None) -> LoadedModule:
        """Return the module with sizes for its meshes, as an `OpenModule` if other sizes are still open.

        Raises the errors of `at`.
        """
        module = OpenModule(self._container, self.program, self._members, self.specialize)
        module._meshes, module._loaded = bound(self.meshes, mesh, devices), self._loaded
        if devices is not None:
            require_device_count(module.meshes, devices)
        module.viewed_by(self.viewer)
        is_open = self.program.shapes or self.program.missing_axes(module.meshes)
        return module if is_open else module.at()

    def held(self, sizes: Sizes) -> LoadedModule:
        """Return the specialization for `sizes` that the file contains. Raises ModuleError or ScheduleError."""
        files = self.program.held[sizes]
        return self._checked({name: self._container[self._members[files[name]]] for name in files}, sizes)

    def _compiled_now(self, sizes: Sizes) -> LoadedModule:
        if self.specialize is None:
            raise self.program.lacking(sizes)
        return self._checked(self.specialize(self, sizes), sizes)

    def _checked(self, members: Mapping[str, bytes | memoryview], sizes: Sizes) -> LoadedModule:
        """Load a specialization from its members, and check that it fits the program and `sizes`.

        Raises:
            ModuleError: MG0502, the specialization belongs to another program or to other sizes.
        """
        path = self._container.path
        module = load_members(Held(path, members), path)
        shapes, axes = dict(sizes.shapes), axis_sizes([part.mesh for part in module.parts])
        expected = [(argument.name, argument.type.dtype, argument.stored) for argument in self.program.inputs]
        is_match = expected == [(b.name, b.type.dtype, b.stored) for b in module.bindings] and all(
            argument.takes(b.type.sizes) and shapes.get(b.name, b.type.sizes) == b.type.sizes
            for argument, b in zip(self.program.inputs, module.bindings, strict=True)
        )
        if not is_match or any(axes.get(name) != size for name, size in sizes.axes):
            raise damaged(path, f"the specialization for {sizes} belongs to another program")
        return module


def load_open(container: Members, value: Json, specialize: Specialize | None) -> OpenModule:
    """Return the open module of a checked manifest. Its specializations are checked on first use.

    Raises:
        ModuleError: MG0502, the manifest or the weights are damaged.
    """
    path = container.path
    with reading(path):
        program = decode_open(value)
    for fault in limits.open_faults(program):
        raise limits.beyond(path, fault)
    members = {digest: name for name, digest in value["files"].items()}
    module = OpenModule(container, program, members, specialize)
    weights = {name: (array.shape, dtype_name(array.dtype)) for name, array in module.weights().items()}
    stored = {each.name: (each.type.shape, each.type.dtype) for each in program.inputs if each.stored}
    if weights != stored:
        raise damaged(path, "its weights do not fit its inputs")
    return module
