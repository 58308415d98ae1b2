"""Open sizes of a module at load: numbers of devices along mesh axes, and shapes of inputs."""

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

# One mesh, several distinguished by their names, or sizes by axis, or those by mesh.
Given: TypeAlias = Mesh | Sequence[Mesh] | Mapping[str, int] | Mapping[str, Mesh | Mapping[str, int]] | None
# Which launcher says in which variable how many processes it has started: torchrun, Open MPI, MPICH, srun.
LAUNCHERS = ("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS")


@dataclass(frozen=True)
class Sizes:
    """A number for each open mesh axis, and a shape for each input with open dims; both in the program's order.

    An axis of a program on several meshes is called `MESH:AXIS`.
    """

    axes: tuple[tuple[str, int], ...] = ()
    shapes: tuple[tuple[str, tuple[int, ...]], ...] = ()

    def __str__(self) -> str:
        shapes = (f"{name}={'x'.join(map(str, shape))}" for name, shape in self.shapes)
        return ", ".join([*(f"{name}={size}" for name, size in self.axes), *shapes])

    def record(self) -> dict[str, Any]:
        """JSON values, as `mesh` and `args` take them."""
        return {"mesh": dict(self.axes), "args": {name: list(shape) for name, shape in self.shapes}}


def sizes_text(record: Mapping[str, Any]) -> str:
    """The text of `Sizes.record`, for display."""
    shapes = {name: tuple(shape) for name, shape in record["args"].items()}
    return str(Sizes(tuple(record["mesh"].items()), tuple(shapes.items())))


def axis_names(meshes: Sequence[Mesh]) -> dict[str, tuple[Mesh, str]]:
    """The name of each axis of a program, with its mesh and position."""
    several = len(meshes) > 1
    return {f"{mesh.name}:{axis}" if several else axis: (mesh, axis) for mesh in meshes for axis in mesh.names}


def axis_sizes(meshes: Sequence[Mesh]) -> dict[str, int | None]:
    """The size of each axis of a program, by its name."""
    return {name: mesh.axis(axis).size for name, (mesh, axis) in axis_names(meshes).items()}


def with_sizes(meshes: Sequence[Mesh], sizes: Mapping[str, int]) -> tuple[Mesh, ...]:
    """The meshes with these sizes of axes, by their names."""
    named = [(mesh, axis, sizes[name]) for name, (mesh, axis) in axis_names(meshes).items() if name in sizes]
    return tuple(mesh.with_sizes({axis: size for owner, axis, size in named if owner is mesh}) for mesh in meshes)


def bound(meshes: Sequence[Mesh], given: Given, devices: int | None = None) -> tuple[Mesh, ...]:
    """A module's meshes with the sizes that are given for axes that it leaves open.

    Where one axis is still open then, it follows from the number of devices: `devices`, else the processes that a
    launcher has started.

    Raises:
        ShardingError: MG0201 for other sizes than the module's, MG0202 for axes and meshes that it does not have.
        MissingError: MG0603 where the devices do not fill the mesh.
    """
    own, faults = _by_mesh(meshes, given)
    for mesh in meshes:
        faults += _contradictions(mesh, own.get(mesh.name, {}))
    if faults:
        raise ShardingError(*faults)
    meshes = tuple(mesh.with_sizes(own.get(mesh.name, {})) for mesh in meshes)
    count = launched_processes() if devices is None else whole_count(devices)
    if len(meshes) > 1 or count is None:
        return meshes
    return tuple(_filled(mesh, count) for mesh in meshes)


def refuse_other_count(meshes: Sequence[Mesh], count: int, of: str = "are requested") -> None:
    """Raise MissingError MG0603 if `count` differs from the devices of a program without open axes."""
    if not all(mesh.is_static for mesh in meshes):
        return
    wanted = sum(mesh.size for mesh in meshes)
    if whole_count(count) != wanted:
        place = " and ".join(map(str, meshes))
        hint = f"compile the program for a mesh of {count} devices, or run it on {wanted}"
        text = f"the module is for {wanted} devices ({place}), but {count} {of}"
        raise MissingError(Diagnostic("MG0603", text, hint=hint))


def refuse_launched(meshes: Sequence[Mesh]) -> None:
    """The same for the number of processes of a launcher; a single one may simulate all devices."""
    count = launched_processes()
    if count is not None and count > 1:
        refuse_other_count(meshes, count, "processes were started by a launcher")


def whole_count(devices: Any) -> int:
    """A caller's number of devices. Raises UsageError MG0001 for anything but a positive integer."""
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
    """The mesh with the size of its one open axis that `count` devices give it."""
    still = [axis.name for axis in mesh.axes if axis.size is None]
    if len(still) != 1:
        return mesh
    others = math.prod(size for size in mesh.shape if size is not None)
    if count < 1 or count % others:
        message = f"{count} devices do not fill {mesh}: its static axes take {others}, and {count} % {others} = {count % others}"
        hint = f"start a multiple of {others}"
        raise MissingError(Diagnostic("MG0603", message, hint=hint))
    return mesh.with_sizes({still[0]: count // others})


def _by_mesh(meshes: Sequence[Mesh], given: Given) -> tuple[dict[str, dict[str, int]], list[Diagnostic]]:
    """The given sizes by mesh and axis, and a fault for each unknown mesh."""
    listed = [replace(given, name=DEFAULT_NAME)] if isinstance(given, Mesh) else meshes_of(given)
    found = {mesh.name: _known_axis_sizes(mesh) for mesh in listed}
    if DEFAULT_NAME in found and len(meshes) == 1:
        found = {meshes[0].name: found.pop(DEFAULT_NAME)} | found
    names = [mesh.name for mesh in meshes]
    hint = f"known meshes are {', '.join('@' + name for name in names)}"
    return found, [Diagnostic("MG0202", f"unknown mesh '@{n}'", hint=hint) for n in found if n not in names]


def _known_axis_sizes(mesh: Mesh) -> dict[str, int]:
    return {axis.name: axis.size for axis in mesh.axes if axis.size is not None}


def _contradictions(mesh: Mesh, wanted: Mapping[str, int]) -> list[Diagnostic]:
    have = mesh.by_name
    faults = [
        Diagnostic("MG0202", f"mesh axis '{name}' is not in the module's {mesh}") for name in wanted if name not in have
    ]
    return faults + [
        Diagnostic(
            "MG0201",
            f"the module was compiled for {size} devices along mesh axis '{name}', not {wanted[name]}",
            hint="compile the program again for this mesh",
        )
        for name, size in have.items()
        if size is not None and wanted.get(name, size) != size
    ]


def launched_processes() -> int | None:
    """The number of processes of the launcher of this one; None without a launcher."""
    found = (os.environ.get(name, "") for name in LAUNCHERS)
    return next((number for text in found if (number := whole_number(text)) is not None), None)
