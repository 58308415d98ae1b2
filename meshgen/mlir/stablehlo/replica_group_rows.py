"""The devices of a collective's groups: as StableHLO lists their numbers, or by the axes of a mesh."""

from __future__ import annotations

from xdsl.ir import Attribute, Operation

from meshgen.errors import Diagnostic, ShardingError
from meshgen.mesh import Axis, Mesh
from meshgen.mlir.dense import DenseElements
from meshgen.mlir.reading import Reading
from meshgen.mlir.stablehlo.mesh_axes import MeshInPlace, ReplicaGroupMeshAxes
from meshgen.spec import Sharding


def rows_of(attribute: Attribute | None) -> list[tuple[int, ...]]:
    """The rows of a dense matrix of integers."""
    if not isinstance(attribute, DenseElements):
        return []
    array = attribute.data.array
    return [tuple(int(n) for n in row) for row in array] if array.ndim == 2 else []


def group_rows(reading: Reading, operation: Operation) -> list[tuple[int, ...]]:
    """A row of numbers per group. Raises ShardingError where axes are not those of the mesh that is named."""
    attribute = operation.properties.get("replica_groups")
    if not isinstance(attribute, ReplicaGroupMeshAxes):
        return rows_of(attribute)
    said, axes = attribute.data
    mesh, ids = _mesh(reading, said)
    if not mesh.is_static:
        raise ShardingError(Diagnostic("MG0201", f"{mesh} has axes of unknown size"))
    if wrong := Sharding((axes,)).faults((None,), mesh):
        raise ShardingError(*wrong)
    if ids is not None and sorted(ids) != list(range(mesh.size)) and mesh.axes:
        raise ShardingError(Diagnostic("MG0201", f"{mesh} has {mesh.size} devices, but device_ids = {list(ids)}"))
    return [tuple(ids[place] for place in group) if ids else group for group in mesh.groups(axes)]


def _mesh(reading: Reading, said: str | MeshInPlace) -> tuple[Mesh, tuple[int, ...] | None]:
    """The mesh that is meant, and its devices where they are not in order."""
    if isinstance(said, MeshInPlace):
        return Mesh(tuple(Axis(name, size) for name, size in said.axes)), said.device_ids
    if said in reading.meshes:
        return reading.meshes[said], reading.device_ids(said)
    hint = f"declared meshes: {reading.known_meshes}"
    raise ShardingError(Diagnostic("MG0201", f"unknown mesh '@{said}'", hint=hint))
