"""A mesh of devices: named axes, coordinates, groups, submeshes and subaxes.

Devices are numbered in row-major order over the axes. An axis reference is a name (`"x"`) or a subaxis `"x:(m)k"`: the
part of size k below a more major part of size m (Shardy's subaxis notation, the RFC's virtual axis). So `x=8` split as
2 x 4 is `x:(1)2` and `x:(2)4`.

Source: `shard` dialect, "Device Groups" and "In-group Devices".
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any, TypeAlias, cast

from meshgen.axis_refs import contains as contains
from meshgen.axis_refs import nests as nests
from meshgen.axis_refs import overlaps as overlaps
from meshgen.axis_refs import split_ref as split_ref
from meshgen.errors import Diagnostic, ShardingError, UsageError
from meshgen.machine.profiles import Machine
from meshgen.names import axis_name_fault, mesh_name_faults
from meshgen.printable import Shown

# chosen: largest number of devices; volumes of uneven tiles are computed by enumerating the devices along the relevant
# axes
MOST_DEVICES = 1 << 20
DEFAULT_NAME = "mesh"  # name of a mesh without a name in texts


@dataclass(frozen=True)
class Axis:
    """A mesh axis: its size (None if unknown until load), and its link rates (None for the rates of the mesh's
    machine).
    """

    name: str
    size: int | None
    bandwidth: float | None = None  # bytes per second, per device and direction
    latency: float | None = None  # seconds per collective


def _group_coordinates(mesh: Mesh, rank: int, refs: Sequence[str]) -> tuple[int, ...]:
    """Return the coordinates of device `rank` with the coordinates along `refs` set to 0. They identify the device's
    group.
    """
    coordinates = list(mesh.coordinates(rank))
    for ref in refs:
        axis_index = mesh.axes.index(mesh.axis(ref))
        _, pre, size = split_ref(ref)
        stride = 1 if size is None else mesh.axis_size(mesh.axis(ref).name) // (pre * size)
        coordinates[axis_index] -= mesh.coordinate(rank, ref) * stride
    return tuple(coordinates)


@lru_cache(256)
def _groups(mesh: Mesh, refs: tuple[str, ...]) -> tuple[tuple[int, ...], ...]:
    table: dict[tuple[int, ...], dict[int, int]] = {}
    for rank in range(mesh.size):
        table.setdefault(_group_coordinates(mesh, rank, refs), {})[mesh.index(rank, refs)] = rank
    return tuple(tuple(group[i] for i in range(len(group))) for group in table.values())


@dataclass(frozen=True)
class Mesh(Shown):
    """Mesh axes in order, major to minor. Repeated names and sizes that are not positive integers raise ShardingError.

    `machine` describes the hosts and links of the devices, in the order of their numbers. None stands for one host of
    any size.
    """

    axes: tuple[Axis, ...]
    name: str = DEFAULT_NAME
    machine: Machine | None = None

    def __post_init__(self) -> None:
        faults = [fault for axis in self.axes if (fault := _axis_fault(axis))]
        if faults:
            raise ShardingError(*faults)
        count = math.prod(axis.size or 1 for axis in self.axes)
        if count > MOST_DEVICES:
            faults.append(Diagnostic("MG0201", f"the mesh has {count:,} devices; the limit is {MOST_DEVICES:,}"))
        faults += mesh_name_faults(self.name)
        names = [axis.name for axis in self.axes]
        faults += [
            Diagnostic("MG0201", f"mesh axis '{n}' is declared twice") for i, n in enumerate(names) if n in names[:i]
        ]
        if faults:
            raise ShardingError(*faults)

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash((self.axes, self.name))

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in ("_hash", "sizes")}

    def __str__(self) -> str:
        sizes = (f"{axis.name}={'?' if axis.size is None else axis.size}" for axis in self.axes)
        return f"Mesh({', '.join(sizes)})"

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(axis.name for axis in self.axes)

    @property
    def shape(self) -> tuple[int | None, ...]:
        return tuple(axis.size for axis in self.axes)

    @property
    def by_name(self) -> dict[str, int | None]:
        return {axis.name: axis.size for axis in self.axes}

    @property
    def is_static(self) -> bool:
        return None not in self.shape

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Return the size of each axis. Raises ShardingError if one is unknown."""
        return tuple(self.axis_size(name) for name in self.names)

    @property
    def size(self) -> int:
        """Return the number of devices."""
        return math.prod(self.sizes)

    def with_sizes(self, sizes: Mapping[str, int | None]) -> Mesh:
        """Return the mesh with the axis sizes `sizes`. Other names than those of its axes are ignored."""
        axes = tuple(replace(axis, size=sizes.get(axis.name, axis.size)) for axis in self.axes)
        return replace(self, axes=axes)

    def completed(self, user_mesh: Mesh) -> Mesh:
        """Combine this mesh, which the program declares, with a user's mesh.

        A user's mesh with a proper subset of the axes sets the sizes of these axes. Any other mesh replaces this one.
        """
        if not set(user_mesh.names) < set(self.names):
            return replace(user_mesh, machine=user_mesh.machine or self.machine)
        return self.with_sizes(user_mesh.by_name)

    def axis(self, ref: str) -> Axis:
        """Return the axis to which `ref` refers, entirely or in part. Raises ShardingError if the mesh has no such
        axis.
        """
        name = split_ref(ref)[0]
        for axis in self.axes:
            if axis.name == name:
                return axis
        raise ShardingError(self.unknown_axis(name))

    def unknown_axis(self, name: str) -> Diagnostic:
        """Return the diagnostic for an axis that the mesh does not have."""
        if not self.axes:
            hint = f"give the mesh: --mesh {name}=2 on the command line, or mesh={{'{name}': 2}} in Python"
            return Diagnostic("MG0202", f"mesh axis '{name}' is unknown, because the program has no mesh", hint=hint)
        return Diagnostic(
            "MG0202", f"mesh axis '{name}' is not in {self}", hint=f"the axes are {', '.join(self.names)}"
        )

    def axis_size(self, ref: str) -> int:
        """Return the number of devices along an axis or subaxis.

        Raises ShardingError if the axis is unknown, or if the subaxis does not divide it.
        """
        axis = self.axis(ref)
        _, pre, size = split_ref(ref)
        if size is not None:
            if min(pre, size) < 1:
                raise ShardingError(Diagnostic("MG0201", f"'{ref}' is not a sub-axis: it has {pre} x {size} devices"))
            if axis.size is not None and axis.size % (pre * size):
                raise ShardingError(
                    Diagnostic(
                        "MG0201",
                        f"'{ref}' is not a sub-axis of '{axis.name}' of size {axis.size} ({axis.size} % {pre * size} = {axis.size % (pre * size)})",
                    )
                )
            return size
        if axis.size is None:
            raise ShardingError(
                Diagnostic("MG0201", f"the size of mesh axis '{ref}' is unknown until load", hint="give it with --mesh")
            )
        return axis.size

    def group_size(self, refs: Iterable[str]) -> int:
        """Return the number of devices in each group over the axes `refs`, or 1 for no axes."""
        return math.prod(self.axis_size(ref) for ref in refs)

    def coordinates(self, rank: int) -> tuple[int, ...]:
        """Return the coordinates of device `rank`, one along each axis."""
        reversed_coordinates: list[int] = []
        for size in reversed(self.sizes):
            rank, coordinate = divmod(rank, size)
            reversed_coordinates.append(coordinate)
        return tuple(reversed(reversed_coordinates))

    def rank(self, coordinates: Sequence[int]) -> int:
        """Return the row-major number (rank) of the device at `coordinates`."""
        rank = 0
        for coordinate, size in zip(coordinates, self.sizes, strict=True):
            rank = rank * size + coordinate
        return rank

    def coordinate(self, rank: int, ref: str) -> int:
        """Return the coordinate of device `rank` along an axis or subaxis."""
        axis_coordinate = self.coordinates(rank)[self.axes.index(self.axis(ref))]
        _, pre, size = split_ref(ref)
        if size is None:
            return axis_coordinate
        return axis_coordinate // (self.axis_size(self.axis(ref).name) // (pre * size)) % size

    def index(self, rank: int, refs: Iterable[str]) -> int:
        """Return the index of device `rank` within its group over `refs`. The first reference is the most major."""
        position = 0
        for ref in refs:
            position = position * self.axis_size(ref) + self.coordinate(rank, ref)
        return position

    def groups(self, refs: Sequence[str]) -> tuple[tuple[int, ...], ...]:
        """Return the groups of devices that differ only along `refs`. A group is in row-major order over `refs`.

        Without axes every device is a group of its own. Groups are ordered by the coordinates of their first devices.
        """
        return _groups(self, tuple(refs))

    def sub_mesh(self, fixed: Mapping[str, int]) -> Mesh:
        """Return the submesh of the devices whose coordinates are `fixed`. It has only the other axes."""
        for name, coordinate in fixed.items():
            if not 0 <= coordinate < self.axis_size(name):
                raise ShardingError(
                    Diagnostic(
                        "MG0201", f"coordinate {coordinate} is outside axis '{name}' of size {self.axis_size(name)}"
                    )
                )
        return Mesh(tuple(axis for axis in self.axes if axis.name not in fixed), self.name)

    def split_axis(self, name: str, *sizes: int) -> tuple[str, ...]:
        """Split an axis into subaxes of the sizes `sizes`, major to minor, and return references to them.

        Raises ShardingError if the product of the sizes is not the size of the axis.
        """
        if math.prod(sizes) != self.axis_size(name):
            raise ShardingError(
                Diagnostic(
                    "MG0201",
                    f"axis '{name}' of size {self.axis_size(name)} cannot be split into {' x '.join(map(str, sizes))}",
                )
            )
        return tuple(f"{name}:({math.prod(sizes[:i])}){size}" for i, size in enumerate(sizes))

    def order(self, ref: str) -> tuple[int, int]:
        """Return the key that sorts axis references by the order of the axes in the mesh, then from major to minor."""
        return self.axes.index(self.axis(ref)), split_ref(ref)[1]


# The type of arguments that take meshes: one mesh, several by name or with names, or None.
Meshes: TypeAlias = (
    Mesh | Mapping[str, int | None] | Mapping[str, Mesh | Mapping[str, int | None]] | Sequence[Mesh] | None
)


def _axis_fault(axis: Axis) -> Diagnostic | None:
    name, size = cast("Any", axis.name), cast("Any", axis.size)
    if fault := axis_name_fault(name):
        return fault
    if size is None or (isinstance(size, int) and not isinstance(size, bool) and size >= 1):
        return None
    text = f"mesh axis '{name}' has size {size}; expected a positive integer"
    return Diagnostic("MG0201", text, hint="use '?' (in Python None) for a size that is unknown until load")


def make_mesh(axes: Mapping[str, int | None] | Sequence[int | None], name: str = DEFAULT_NAME) -> Mesh:
    """Make a mesh from `{"dp": 2, "tp": 4}`, or from sizes alone; the axes are then named `"0"`, `"1"`, ...

    Args:
        axes: sizes by axis name, major to minor; None stands for a size that is unknown until load.
        name: name of the mesh, for programs on several meshes.
    Raises:
        ShardingError: MG0201, a size is not a positive integer, or the argument has another type.
    """
    untyped_axes, untyped_name = cast("Any", axes), cast("Any", name)
    if (
        isinstance(untyped_axes, str)
        or not isinstance(untyped_axes, (Mapping, Iterable))
        or not isinstance(untyped_name, str)
    ):
        expectation = (
            ("sizes of mesh axes", untyped_axes)
            if isinstance(untyped_name, str)
            else ("the name of a mesh", untyped_name)
        )
        message = f"expected {expectation[0]}, got {expectation[1]!r}"
        raise ShardingError(Diagnostic("MG0201", message, hint='write make_mesh({"dp": 2, "tp": 4})'))
    pairs = axes.items() if isinstance(axes, Mapping) else ((str(i), size) for i, size in enumerate(axes))
    return Mesh(tuple(Axis(axis, _python_integer(size)) for axis, size in pairs), name)


def _python_integer(size: Any) -> Any:
    """Convert an integer of any type, such as `numpy.int64`, to `int`. Return other values, which `Mesh` rejects."""
    try:
        return size if isinstance(size, bool) else operator.index(size)
    except TypeError:
        return size


def meshes_of(mesh_argument: Meshes) -> tuple[Mesh, ...]:
    """Convert a user's argument to a sequence of meshes. It may be one mesh (also of `jax.sharding` or PyTorch),
    several meshes by name, or None.

    Raises UsageError if the argument is not a mesh, ShardingError if a size is invalid.
    """
    if mesh_argument is None or isinstance(mesh_argument, Mesh):
        return () if mesh_argument is None else (mesh_argument,)
    if not isinstance(mesh_argument, Mapping):
        listed: Sequence[Any] = mesh_argument if isinstance(mesh_argument, (list, tuple)) else [mesh_argument]
        meshes = [_convert_foreign_mesh(item) for item in listed]
        if invalid := [item for item in meshes if not isinstance(item, Mesh)]:
            hint = 'give {"dp": 2, "tp": 4}, what make_mesh returns, or several by name: {"first": {"dp": 2}, ...}'
            raise UsageError(Diagnostic("MG0001", f"expected a mesh, got {invalid[0]!r}", hint=hint))
        return tuple(meshes)
    sizes = cast("Mapping[str, Any]", mesh_argument)
    sizes = {name: _convert_foreign_mesh(item) for name, item in sizes.items()}
    if not any(isinstance(item, (Mesh, Mapping)) for item in sizes.values()):
        return (make_mesh(sizes),)
    return tuple(
        replace(item, name=name) if isinstance(item, Mesh) else make_mesh(item, name) for name, item in sizes.items()
    )


def _convert_foreign_mesh(foreign: Any) -> Any:
    """Convert a mesh of JAX or PyTorch to a `Mesh`, with the devices renumbered in row-major order. Returns other
    values unchanged.
    """
    if is_mesh_of_jax(foreign):
        return make_mesh(dict(foreign.shape))
    if not hasattr(foreign, "mesh_dim_names"):
        return foreign
    return make_mesh(dict(zip(foreign.mesh_dim_names or map(str, range(foreign.ndim)), foreign.shape, strict=True)))


def is_mesh_of_jax(candidate: Any) -> bool:
    """Whether this is a `jax.sharding.Mesh` or `AbstractMesh`, judging by its attributes: JAX may not be installed."""
    return hasattr(candidate, "axis_names") and isinstance(getattr(candidate, "shape", None), Mapping)
