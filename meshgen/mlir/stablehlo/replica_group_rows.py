"""Read the groups of a collective as device numbers. The text lists the numbers, or states the axes of a mesh."""

from __future__ import annotations

from xdsl.ir import Attribute, Operation

from meshgen.errors import Diagnostic, ShardingError
from meshgen.mesh import Axis, Mesh
from meshgen.mlir.dense import DenseElements
from meshgen.mlir.reader_state import Reading
from meshgen.mlir.stablehlo.mesh_axes import MeshInPlace, ReplicaGroupMeshAxes
from meshgen.spec import Sharding


def rows_of(attribute: Attribute | None) -> list[tuple[int, ...]]:
    """Return the rows of an attribute that is a dense matrix of integers, or [] for another attribute."""
    if not isinstance(attribute, DenseElements):
        return []
    array = attribute.data.array
    return [tuple(int(n) for n in row) for row in array] if array.ndim == 2 else []


def group_rows(reading: Reading, operation: Operation) -> list[tuple[int, ...]]:
    """Return the device numbers of each group. Raises ShardingError if the mesh or the axes that the text names are
    invalid.
    """
    attribute = operation.properties.get("replica_groups")
    if not isinstance(attribute, ReplicaGroupMeshAxes):
        return rows_of(attribute)
    mesh_reference, axes = attribute.data
    mesh, ids = _mesh(reading, mesh_reference)
    if not mesh.is_static:
        raise ShardingError(Diagnostic("MG0201", f"{mesh} has axes of unknown size"))
    if faults := Sharding((axes,)).faults((None,), mesh):
        raise ShardingError(*faults)
    if ids is not None and sorted(ids) != list(range(mesh.size)) and mesh.axes:
        raise ShardingError(Diagnostic("MG0201", f"{mesh} has {mesh.size} devices, but device_ids = {list(ids)}"))
    return [tuple(ids[position] for position in group) if ids else group for group in mesh.groups(axes)]


def _mesh(reading: Reading, reference: str | MeshInPlace) -> tuple[Mesh, tuple[int, ...] | None]:
    """Return the mesh to which the groups refer, and its device ids, or None if these are in ascending order."""
    if isinstance(reference, MeshInPlace):
        return Mesh(tuple(Axis(name, size) for name, size in reference.axes)), reference.device_ids
    if reference in reading.meshes:
        return reading.meshes[reference], reading.device_ids(reference)
    hint = f"declared meshes: {reading.known_meshes}"
    raise ShardingError(Diagnostic("MG0201", f"unknown mesh '@{reference}'", hint=hint))
