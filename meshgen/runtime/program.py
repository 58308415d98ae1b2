"""Loaded programs on several meshes. Each mesh has its own module."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from meshgen.calls.signature import Signature
from meshgen.calls.state import State
from meshgen.runtime.kernel_code import no_kernel
from meshgen.runtime.module import LoadedModule
from meshgen.runtime.module_file import limits
from meshgen.runtime.module_file.call_json import require_fit, require_state
from meshgen.runtime.module_file.manifest import Binding, Parts
from meshgen.runtime.module_file.manifest_reading import parts_from_json
from meshgen.runtime.module_file.members import Folder, Members, damaged
from meshgen.runtime.sizes import Given, bound, require_device_count
from meshgen.runtime.validation.load_checks import checked_manifest, load_part, reading
from meshgen.runtime.validation.multi_mesh_checker import check_parts

Array = np.ndarray[Any, Any]


class LoadedProgram(LoadedModule):
    """A program on several meshes that is ready to run, as returned by `load`.

    The attributes `manifest`, `mesh` and `schedule` are those of the first mesh.
    """

    def __init__(self, container: Members, described: Parts, parts: Sequence[LoadedModule]) -> None:
        super().__init__(container, parts[0].manifest, {}, {})
        self.described = described
        self._parts = tuple(parts)

    @property
    def parts(self) -> tuple[LoadedModule, ...]:
        """Return the module of each mesh."""
        return self._parts

    @property
    def name(self) -> str:
        return self.described.name

    def record(self) -> dict[str, Any]:
        """Return the compiler's report (see `LoadedModule.record`)."""
        return {name: value for name, value in self.described.report.items() if name != "planned"}

    @property
    def planned(self) -> Mapping[str, Any]:
        """Return the planning options (see `LoadedModule.planned`)."""
        return self.described.report.get("planned", {})

    @property
    def call(self) -> Signature | None:
        return self.described.call

    @property
    def state(self) -> State | None:
        """Return the next values of donated arguments (see `LoadedModule.state`)."""
        return self.described.state

    @property
    def bindings(self) -> tuple[Binding, ...]:
        """Return all arguments of the program."""
        return self._all(1)

    @property
    def outputs(self) -> tuple[Binding, ...]:
        return self._all(2)

    def _all(self, side: int) -> tuple[Binding, ...]:
        """Return the arguments (`side` 1) or results (`side` 2) of all parts in the program's order."""
        table: dict[int, Binding] = {}
        for row, part in zip(self.described.parts, self.parts, strict=True):
            bindings = part.manifest.outputs if side == 2 else [_in_program(b, row[2]) for b in part.manifest.inputs]
            table.update(zip((row[1], row[2])[side - 1], bindings, strict=True))
        return tuple(table[number] for number in sorted(table))

    @property
    def place(self) -> str:
        """Return ranks and meshes as text, for display."""
        return " and ".join(f"{part.place} (@{part.mesh.name})" for part in self.parts)

    def on(self, mesh: Given, devices: int | None = None) -> LoadedModule:
        """Check that `mesh` and `devices` match this program, whose meshes have no open sizes, and return the program.

        Raises:
            ShardingError: the meshes have other sizes.
            MissingError: MG0603, the number of devices differs.
        """
        meshes = bound(self.meshes, mesh, devices)
        if devices is not None:
            require_device_count(meshes, devices)
        return self

    @property
    def ranks(self) -> int:
        return sum(part.ranks for part in self.parts)

    def source(self, kernel: str, arch: str = "") -> str:
        """Return the Triton source of kernel `MESH/KERNEL`, or its version for `arch`.

        Returns "" if the kernel has none.
        """
        part, name = self._owner(kernel)
        return part.source(name, arch)

    def cubin(self, kernel: str, arch: str) -> bytes:
        """Return the binary of `MESH/KERNEL`."""
        part, name = self._owner(kernel)
        return part.cubin(name, arch)

    def ptx(self, kernel: str, arch: str) -> str:
        """Return the PTX of `MESH/KERNEL`."""
        part, name = self._owner(kernel)
        return part.ptx(name, arch)

    def _owner(self, kernel: str) -> tuple[LoadedModule, str]:
        """Return the part that contains kernel `MESH/KERNEL`, and the kernel's name in this part.

        Raises UsageError MG0001.
        """
        for part in self.parts:
            name = kernel.removeprefix(f"{part.mesh.name}/")
            if name != kernel and name in part.manifest.kernels:
                return part, name
        raise no_kernel(kernel, self.kernel_names)

    @property
    def kernel_names(self) -> list[str]:
        return [f"{part.mesh.name}/{name}" for part in self.parts for name in part.kernel_names]

    def _in_order(self, results: Sequence[list[Array]]) -> list[Array]:
        table: dict[int, Array] = {}
        for (_, _, numbers), part_results in zip(self.described.parts, results, strict=True):
            table.update(zip(numbers, part_results, strict=True))
        return [table[number] for number in sorted(table)]


def _in_program(binding: Binding, outputs: Sequence[int]) -> Binding:
    """Return an argument of a part. Its `donated_to` is changed from the part's output index to the program's."""
    return binding if binding.donated_to is None else binding._replace(donated_to=outputs[binding.donated_to])


def load_parts(container: Members, value: dict[str, Any]) -> LoadedProgram:
    """Return the program that a checked manifest describes.

    Checks each part like a module, then all parts together.
    """
    path = container.path
    with reading(path):
        described = parts_from_json(value)
    for fault in limits.over("meshes", len(described.parts)):
        raise limits.beyond(path, fault)
    parts: list[LoadedModule] = []
    for index in range(len(described.parts)):
        folder = Folder(container, f"parts/{index:02}")
        parts.append(load_part(folder, path, checked_manifest(folder, path)))
    program = LoadedProgram(container, described, parts)
    for (name, ins, outs), part in zip(described.parts, parts, strict=True):
        has_counts = (len(ins), len(outs)) == (len(part.manifest.inputs), len(part.manifest.outputs))
        if name != part.mesh.name or not has_counts or not part.mesh.is_static:
            raise damaged(path, f"the part of @{name} does not match the manifest")
    if len({binding.name for binding in (*program.inputs,)}) != len(program.inputs):
        raise damaged(path, "names of inputs must be distinct")
    with reading(path):
        require_state(described.state, {b.name: b.type for b in program.bindings}, [b.type for b in program.outputs])
    if described.call is not None:
        with reading(path):
            require_fit(described.call, [binding.name for binding in program.bindings], len(program.outputs))
    check_parts([part.schedule for part in parts], [part.mesh for part in parts])
    return program


def load_members(members: Members, path: Path) -> LoadedModule:
    """Return the module whose members are `members`, as `load` does. The module has no open sizes."""
    return load_checked(members, path, checked_manifest(members, path))


def load_checked(members: Members, path: Path, value: dict[str, Any]) -> LoadedModule:
    """Return the module that a checked manifest describes, for one mesh or several meshes."""
    return load_parts(members, value) if "parts" in value else load_part(members, path, value)
