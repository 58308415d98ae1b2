"""A mesh of devices: named axes, coordinates, groups, sub-meshes and split axes.

Devices are numbered in row-major order over the axes. An axis is referred to by name (`"x"`) or, for a part
of it, as `"x:(m)k"`: the part of size k below a more major part of size m (Shardy's sub-axis notation; the
RFC's virtual axis). So `x=8` split as 2 x 4 is `x:(1)2` and `x:(2)4`.

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

MOST_DEVICES = 1 << 20  # exact volumes of uneven tiles are computed over the devices along the axes that matter
DEFAULT_NAME = "mesh"  # of a mesh that is given without a name


@dataclass(frozen=True)
class Axis:
    """One axis: size (None: unknown until load) and the link that a ring along it uses; None: as the mesh's machine says."""

    name: str
    size: int | None
    bandwidth: float | None = None  # bytes / s, per device and direction
    latency: float | None = None  # s, per collective


def _outside(mesh: Mesh, rank: int, refs: Sequence[str]) -> tuple[int, ...]:
    """A device's coordinates without those along `refs`."""
    rest = list(mesh.coordinates(rank))
    for ref in refs:
        place = mesh.axes.index(mesh.axis(ref))
        _, pre, size = split_ref(ref)
        stride = 1 if size is None else mesh.axis_size(mesh.axis(ref).name) // (pre * size)
        rest[place] -= mesh.coordinate(rank, ref) * stride
    return tuple(rest)


@lru_cache(256)
def _groups(mesh: Mesh, refs: tuple[str, ...]) -> tuple[tuple[int, ...], ...]:
    table: dict[tuple[int, ...], dict[int, int]] = {}
    for rank in range(mesh.size):
        table.setdefault(_outside(mesh, rank, refs), {})[mesh.index(rank, refs)] = rank
    return tuple(tuple(group[i] for i in range(len(group))) for group in table.values())


@dataclass(frozen=True)
class Mesh(Shown):
    """Axes in order, major to minor. Raises ShardingError for a repeated name or a size that is not a positive integer.

    `machine` has the devices, in the order of their numbers; None: one host, whatever the size.
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
        """Without what is derived: strings hash differently in another process."""
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
        """The shape where all sizes are known. Raises ShardingError otherwise."""
        return tuple(self.axis_size(name) for name in self.names)

    @property
    def size(self) -> int:
        """Number of devices."""
        return math.prod(self.sizes)

    def with_sizes(self, sizes: Mapping[str, int | None]) -> Mesh:
        """The mesh with these sizes for these axes; names that it does not have are ignored."""
        axes = tuple(replace(axis, size=sizes.get(axis.name, axis.size)) for axis in self.axes)
        return replace(self, axes=axes)

    def completed(self, given: Mesh) -> Mesh:
        """The mesh that `given` by a user for this mesh means.

        If it names some of the axes and no others, it sets their sizes; else it replaces
        this mesh.
        """
        if not set(given.names) < set(self.names):
            return replace(given, machine=given.machine or self.machine)
        return self.with_sizes(given.by_name)

    def axis(self, ref: str) -> Axis:
        """The axis that `ref` names, or of which it names a part. Raises ShardingError for an unknown one."""
        name = split_ref(ref)[0]
        for axis in self.axes:
            if axis.name == name:
                return axis
        raise ShardingError(self.unknown_axis(name))

    def unknown_axis(self, name: str) -> Diagnostic:
        """Return the fault of an axis that the mesh does not have."""
        if not self.axes:
            hint = f"give the mesh: --mesh {name}=2 on the command line, or mesh={{'{name}': 2}} in Python"
            return Diagnostic("MG0202", f"mesh axis '{name}' is unknown, because the program has no mesh", hint=hint)
        return Diagnostic(
            "MG0202", f"mesh axis '{name}' is not in {self}", hint=f"the axes are {', '.join(self.names)}"
        )

    def axis_size(self, ref: str) -> int:
        """Devices along an axis or a part of one. Raises ShardingError if unknown or not a divisor."""
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
        """Devices in each group over the axes `refs` (1 if there are none)."""
        return math.prod(self.axis_size(ref) for ref in refs)

    def coordinates(self, rank: int) -> tuple[int, ...]:
        """The device's coordinate along each axis."""
        found: list[int] = []
        for size in reversed(self.sizes):
            rank, coordinate = divmod(rank, size)
            found.append(coordinate)
        return tuple(reversed(found))

    def rank(self, coordinates: Sequence[int]) -> int:
        """The device's number, row-major."""
        number = 0
        for coordinate, size in zip(coordinates, self.sizes, strict=True):
            number = number * size + coordinate
        return number

    def coordinate(self, rank: int, ref: str) -> int:
        """The device's coordinate along an axis or a part of one."""
        whole = self.coordinates(rank)[self.axes.index(self.axis(ref))]
        _, pre, size = split_ref(ref)
        if size is None:
            return whole
        return whole // (self.axis_size(self.axis(ref).name) // (pre * size)) % size

    def index(self, rank: int, refs: Iterable[str]) -> int:
        """The device's number within its group over `refs`: mixed radix, outer to inner."""
        number = 0
        for ref in refs:
            number = number * self.axis_size(ref) + self.coordinate(rank, ref)
        return number

    def groups(self, refs: Sequence[str]) -> tuple[tuple[int, ...], ...]:
        """Groups of devices that differ only along `refs`, each in the order that `refs` induce.

        No axis: every device is a group of its own. Groups are ordered by the coordinates of their first devices.
        """
        return _groups(self, tuple(refs))

    def sub_mesh(self, fixed: Mapping[str, int]) -> Mesh:
        """The part of the mesh where each axis of `fixed` has the given coordinate; those axes are dropped."""
        for name, coordinate in fixed.items():
            if not 0 <= coordinate < self.axis_size(name):
                raise ShardingError(
                    Diagnostic(
                        "MG0201", f"coordinate {coordinate} is outside axis '{name}' of size {self.axis_size(name)}"
                    )
                )
        return Mesh(tuple(axis for axis in self.axes if axis.name not in fixed), self.name)

    def split_axis(self, name: str, *sizes: int) -> tuple[str, ...]:
        """References to the parts of an axis, major to minor. Raises ShardingError unless they multiply to its size."""
        if math.prod(sizes) != self.axis_size(name):
            raise ShardingError(
                Diagnostic(
                    "MG0201",
                    f"axis '{name}' of size {self.axis_size(name)} cannot be split into {' x '.join(map(str, sizes))}",
                )
            )
        return tuple(f"{name}:({math.prod(sizes[:i])}){size}" for i, size in enumerate(sizes))

    def order(self, ref: str) -> tuple[int, int]:
        """Sort key of an axis reference: mesh order, then major to minor."""
        return self.axes.index(self.axis(ref)), split_ref(ref)[1]


# A user's argument: one mesh, several by name or with names, or none.
Meshes: TypeAlias = (
    Mesh | Mapping[str, int | None] | Mapping[str, Mesh | Mapping[str, int | None]] | Sequence[Mesh] | None
)


def _axis_fault(axis: Axis) -> Diagnostic | None:
    """The fault of a user's axis."""
    name, size = cast("Any", axis.name), cast("Any", axis.size)
    if fault := axis_name_fault(name):
        return fault
    if size is None or (isinstance(size, int) and not isinstance(size, bool) and size >= 1):
        return None
    text = f"mesh axis '{name}' has size {size}; expected a positive integer"
    return Diagnostic("MG0201", text, hint="use '?' (in Python None) for a size that is unknown until load")


def make_mesh(axes: Mapping[str, int | None] | Sequence[int | None], name: str = DEFAULT_NAME) -> Mesh:
    """A mesh from `{"dp": 2, "tp": 4}`, or from sizes alone: then the axes are named `"0"`, `"1"`, ...

    Args:
        axes: sizes by axis name, major to minor; None is unknown until load.
        name: of the mesh, in a program on several.
    Raises:
        ShardingError: MG0201, a size is not a positive integer, or the argument has another type.
    """
    given, called = cast("Any", axes), cast("Any", name)
    if isinstance(given, str) or not isinstance(given, (Mapping, Iterable)) or not isinstance(called, str):
        what = ("sizes of mesh axes", given) if isinstance(called, str) else ("the name of a mesh", called)
        wrong = f"expected {what[0]}, got {what[1]!r}"
        raise ShardingError(Diagnostic("MG0201", wrong, hint='write make_mesh({"dp": 2, "tp": 4})'))
    pairs = axes.items() if isinstance(axes, Mapping) else ((str(i), size) for i, size in enumerate(axes))
    return Mesh(tuple(Axis(axis, _python_integer(size)) for axis, size in pairs), name)


def _python_integer(size: Any) -> Any:
    """An integer of any kind, such as NumPy's, as Python's; anything else unchanged, for a mesh to refuse."""
    try:
        return size if isinstance(size, bool) else operator.index(size)
    except TypeError:
        return size


def meshes_of(given: Meshes) -> tuple[Mesh, ...]:
    """A user's mesh (also one of `jax.sharding`, or torch's `DeviceMesh`), several by name, or none.

    Raises UsageError for anything else, ShardingError for bad sizes.
    """
    if given is None or isinstance(given, Mesh):
        return () if given is None else (given,)
    if not isinstance(given, Mapping):
        listed: Sequence[Any] = given if isinstance(given, (list, tuple)) else [given]
        meshes = [_mesh_of_others(each) for each in listed]
        if wrong := [each for each in meshes if not isinstance(each, Mesh)]:
            hint = 'give {"dp": 2, "tp": 4}, what make_mesh returns, or several by name: {"first": {"dp": 2}, ...}'
            raise UsageError(Diagnostic("MG0001", f"expected a mesh, got {wrong[0]!r}", hint=hint))
        return tuple(meshes)
    sizes = cast("Mapping[str, Any]", given)
    sizes = {name: _mesh_of_others(each) for name, each in sizes.items()}
    if not any(isinstance(each, (Mesh, Mapping)) for each in sizes.values()):
        return (make_mesh(sizes),)
    return tuple(
        replace(each, name=name) if isinstance(each, Mesh) else make_mesh(each, name) for name, each in sizes.items()
    )


def _mesh_of_others(given: Any) -> Any:
    """A mesh of JAX, or torch's `DeviceMesh`, as a mesh, with its devices renumbered in row-major order; anything else as it is."""
    if is_mesh_of_jax(given):
        return make_mesh(dict(given.shape))
    if not hasattr(given, "mesh_dim_names"):
        return given
    return make_mesh(dict(zip(given.mesh_dim_names or map(str, range(given.ndim)), given.shape, strict=True)))


def is_mesh_of_jax(given: Any) -> bool:
    """Whether this is a `jax.sharding.Mesh` or `AbstractMesh`, by what it has: JAX need not be there."""
    return hasattr(given, "axis_names") and isinstance(getattr(given, "shape", None), Mapping)
