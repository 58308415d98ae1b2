"""Sizes that a module leaves open until it is loaded: sizes of mesh axes, and shapes of inputs."""

from __future__ import annotations

import math
import operator
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from meshgen.errors import Diagnostic, MissingError, ShardingError, UsageError
from meshgen.mesh import DEFAULT_NAME, Mesh, meshes_of
from meshgen.names import whole_number

# A mesh, several meshes with names, a mapping from axis to size, or a mapping from mesh name to mesh or sizes.
Given: TypeAlias = Mesh | Sequence[Mesh] | Mapping[str, int] | Mapping[str, Mesh | Mapping[str, int]] | None
# Variables in which launchers store the number of processes: torchrun, Open MPI, MPICH, srun.
LAUNCHERS = ("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS")


@dataclass(frozen=True)
class Sizes:
    """A size for each open mesh axis, and a shape for each input with open dims, both in the program's order.

    In a program on several meshes, the name of an axis is `MESH:AXIS`.
    """

    axes: tuple[tuple[str, int], ...] = ()
    shapes: tuple[tuple[str, tuple[int, ...]], ...] = ()

    def __str__(self) -> str:
        shapes = (f"{name}={'x'.join(map(str, shape))}" for name, shape in self.shapes)
        return ", ".join([*(f"{name}={size}" for name, size in self.axes), *shapes])

    def record(self) -> dict[str, Any]:
        """Return the sizes as JSON values, in the form of the arguments `mesh` and `args` of `mg.load`."""
        return {"mesh": dict(self.axes), "args": {name: list(shape) for name, shape in self.shapes}}


def sizes_text(record: Mapping[str, Any]) -> str:
    """Format the result of `Sizes.record` as text, for display."""
    shapes = {name: tuple(shape) for name, shape in record["args"].items()}
    return str(Sizes(tuple(record["mesh"].items()), tuple(shapes.items())))


def axis_names(meshes: Sequence[Mesh]) -> dict[str, tuple[Mesh, str]]:
    """Return (mesh, axis) for each name that `Sizes` uses for an axis of the program."""
    several = len(meshes) > 1
    return {f"{mesh.name}:{axis}" if several else axis: (mesh, axis) for mesh in meshes for axis in mesh.names}


def axis_sizes(meshes: Sequence[Mesh]) -> dict[str, int | None]:
    """Return the size of each mesh axis of a program, or None if it is open, by the names that `Sizes` uses."""
    return {name: mesh.axis(axis).size for name, (mesh, axis) in axis_names(meshes).items()}


def with_sizes(meshes: Sequence[Mesh], sizes: Mapping[str, int]) -> tuple[Mesh, ...]:
    """Return the meshes with sizes set for the axes that `sizes` names. The names are those that `Sizes` uses."""
    named = [(mesh, axis, sizes[name]) for name, (mesh, axis) in axis_names(meshes).items() if name in sizes]
    return tuple(mesh.with_sizes({axis: size for owner, axis, size in named if owner is mesh}) for mesh in meshes)


def bound(meshes: Sequence[Mesh], mesh_sizes: Given, devices: int | None = None) -> tuple[Mesh, ...]:
    """Return the meshes of a module with sizes for their open axes.

    If one axis remains open, its size follows from the number of devices: `devices`, or else the number of processes of
    the launcher.

    Raises:
        ShardingError: MG0201, a size contradicts the module. MG0202, an axis or mesh is unknown.
        MissingError: MG0603, the number of devices does not match the mesh.
    """
    sizes, faults = _by_mesh(meshes, mesh_sizes)
    for mesh in meshes:
        faults += _contradictions(mesh, sizes.get(mesh.name, {}))
    if faults:
        raise ShardingError(*faults)
    meshes = tuple(mesh.with_sizes(sizes.get(mesh.name, {})) for mesh in meshes)
    count = launched_processes() if devices is None else device_count(devices)
    if len(meshes) > 1 or count is None:
        return meshes
    return tuple(_filled(mesh, count) for mesh in meshes)


def require_device_count(meshes: Sequence[Mesh], count: int, of: str = "are requested") -> None:
    """Raise MissingError MG0603 if `count` differs from the number of devices of a program without open axes."""
    if not all(mesh.is_static for mesh in meshes):
        return
    expected = sum(mesh.size for mesh in meshes)
    if device_count(count) != expected:
        meshes_text = " and ".join(map(str, meshes))
        hint = f"compile the program for a mesh of {count} devices, or run it on {expected}"
        text = f"the module is for {expected} devices ({meshes_text}), but {count} {of}"
        raise MissingError(Diagnostic("MG0603", text, hint=hint))


def refuse_launched(meshes: Sequence[Mesh]) -> None:
    """Raise MissingError MG0603 if a launcher started a wrong number of processes.

    A single process is allowed, since it can simulate all devices.
    """
    count = launched_processes()
    if count is not None and count > 1:
        require_device_count(meshes, count, "processes were started by a launcher")


def device_count(devices: Any) -> int:
    """Return `devices` as an integer. Raises UsageError MG0001 for anything but a positive integer."""
    try:
        if isinstance(devices, bool):
            raise TypeError
        return operator.index(devices)
    except TypeError as error:
        hint = "write for example devices=8"
        raise UsageError(
            Diagnostic("MG0001", f"devices must be a positive integer, got {devices!r}", hint=hint)
        ) from error


def _filled(mesh: Mesh, count: int) -> Mesh:
    """Return the mesh with a size for its only open axis, so that the mesh has `count` devices."""
    open_axes = [axis.name for axis in mesh.axes if axis.size is None]
    if len(open_axes) != 1:
        return mesh
    static_devices = math.prod(size for size in mesh.shape if size is not None)
    if count < 1 or count % static_devices:
        message = f"{count} devices do not fill {mesh}: its static axes take {static_devices}, and {count} % {static_devices} = {count % static_devices}"
        hint = f"start a multiple of {static_devices}"
        raise MissingError(Diagnostic("MG0603", message, hint=hint))
    return mesh.with_sizes({open_axes[0]: count // static_devices})


def _by_mesh(meshes: Sequence[Mesh], mesh_sizes: Given) -> tuple[dict[str, dict[str, int]], list[Diagnostic]]:
    """Return the sizes in `mesh_sizes` as a map from (mesh, axis), and an error for each unknown mesh."""
    listed = [replace(mesh_sizes, name=DEFAULT_NAME)] if isinstance(mesh_sizes, Mesh) else meshes_of(mesh_sizes)
    sizes = {mesh.name: _known_axis_sizes(mesh) for mesh in listed}
    if DEFAULT_NAME in sizes and len(meshes) == 1:
        sizes = {meshes[0].name: sizes.pop(DEFAULT_NAME)} | sizes
    names = [mesh.name for mesh in meshes]
    hint = f"known meshes are {', '.join('@' + name for name in names)}"
    return sizes, [Diagnostic("MG0202", f"unknown mesh '@{n}'", hint=hint) for n in sizes if n not in names]


def _known_axis_sizes(mesh: Mesh) -> dict[str, int]:
    return {axis.name: axis.size for axis in mesh.axes if axis.size is not None}


def _contradictions(mesh: Mesh, sizes: Mapping[str, int]) -> list[Diagnostic]:
    compiled = mesh.by_name
    faults = [
        Diagnostic("MG0202", f"mesh axis '{name}' is not in the module's {mesh}")
        for name in sizes
        if name not in compiled
    ]
    return faults + [
        Diagnostic(
            "MG0201",
            f"the module was compiled for {size} devices along mesh axis '{name}', not {sizes[name]}",
            hint="compile the program again for this mesh",
        )
        for name, size in compiled.items()
        if size is not None and sizes.get(name, size) != size
    ]


def launched_processes() -> int | None:
    """Return the number of processes that the launcher started, or None without a launcher."""
    texts = (os.environ.get(name, "") for name in LAUNCHERS)
    return next((count for text in texts if (count := whole_number(text)) is not None), None)
