"""Readers of clusters, which declare device meshes in the RFC's `mesh` dialect, and of a function's default cluster."""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.dialects import func
from xdsl.dialects.builtin import SymbolRefAttr
from xdsl.dialects.builtin import TensorType as TextType
from xdsl.ir import Operation

from meshgen.mesh import Axis, Mesh
from meshgen.mlir.attributes import integer_of, integers, name_of
from meshgen.mlir.dialect import Dialect
from meshgen.mlir.mesh.operations import MeshShardAttr
from meshgen.mlir.reader_state import Reading
from meshgen.mlir.shard.grid import declare

# Maximum number of axes of a cluster. Chosen far above any real mesh: the rank in the text is unbounded, and each axis
# is stored
_MAX_AXES = 1000
DEFAULT = ""  # the mesh symbol in attributes that name no cluster


def read_cluster(reading: Reading, op: Operation) -> None:
    """Declare the mesh of a `mesh.cluster`.

    Axes are named by their indices. An axis size that is missing or below 1 counts as unknown.
    """
    symbol = name_of(op.properties["sym_name"])
    rank, sizes = integer_of(op.properties["rank"]), integers(op.properties.get("dim_sizes"))
    if rank < len(sizes):
        reading.fault("MG0201", f"@{symbol} has rank {rank}, but {len(sizes)} dim sizes", op)
        return
    if rank > _MAX_AXES:
        reading.fault("MG0201", f"@{symbol} has rank {rank}; at most {_MAX_AXES} axes are read", op)
        return
    padded_sizes = [*sizes[:rank], *[0] * (rank - len(sizes))]
    axes = [Axis(str(index), size if size > 0 else None) for index, size in enumerate(padded_sizes)]
    declare(reading, symbol, axes, op)


def read_sub_cluster(reading: Reading, op: Operation) -> None:
    """Declare the mesh of a `mesh.sub_cluster`, which has some axes of a cluster.

    The axes keep their names, so that shardings over the sub-cluster are also shardings over the cluster.
    """
    symbol, cluster = name_of(op.properties["sym_name"]), name_of(op.properties["cluster"])
    if (parent := reading.meshes.get(cluster)) is None:
        reading.fault("MG0201", f"unknown cluster '@{cluster}' before @{symbol}", op, "declare the cluster first")
        return
    axis_indices, index = (list(integers(op.properties.get(name))) for name in ("axes", "index"))
    if unknown_axes := [axis_index for axis_index in axis_indices if not 0 <= axis_index < len(parent.axes)]:
        hint = f"its axes are numbered 0 to {len(parent.axes) - 1}"
        reading.fault("MG0202", f"@{symbol}: axis {unknown_axes[0]} is not in {parent}", op, hint)
        return
    rest = [axis for axis_index, axis in enumerate(parent.axes) if axis_index not in axis_indices]
    if index and len(index) != len(rest):
        message = f"@{symbol}: the index has {len(index)} coordinates, but {parent} has {len(rest)} other axes"
        reading.fault("MG0201", message, op)
    for axis, coordinate in zip(rest, index, strict=False):
        if not 0 <= coordinate < (axis.size or coordinate + 1):
            message = f"@{symbol}: coordinate {coordinate} is outside axis '{axis.name}' of size {axis.size}"
            reading.fault("MG0201", message, op)
    if symbol in reading.meshes or len(set(axis_indices)) != len(axis_indices):
        fault = "is declared twice" if symbol in reading.meshes else f"lists an axis twice: {axis_indices}"
        reading.fault("MG0201", f"@{symbol} {fault}", op)
        return
    reading.meshes[symbol] = Mesh(tuple(parent.axes[axis_index] for axis_index in axis_indices), symbol)
    reading.parents[symbol] = cluster
    if index and parent.is_static:
        fixed = dict(zip((axis.name for axis in rest), index, strict=False))
        positions = (
            position
            for position in range(parent.size)
            if all(parent.coordinate(position, a) == n for a, n in fixed.items())
        )
        reading.picked[symbol] = tuple(positions)


def settle_clusters(reading: Reading, top: Operation) -> None:
    """Make sub-clusters that have an index independent meshes, if the program uses no other part of their cluster."""
    if reading.picked:
        functions = (operation for operation in top.regions[0].block.ops if isinstance(operation, func.FuncOp))
        used_clusters = [symbol for function in functions for symbol in _named_clusters(function, reading)]
        reading.split_off_submeshes(list(dict.fromkeys(used_clusters)))


def _named_clusters(function: Operation, reading: Reading) -> Iterator[str]:
    """Yield the clusters that the operations and types of a function use.

    An attribute that names no cluster uses the default cluster.
    """
    cluster_attribute = function.attributes.get("mesh_cluster")
    default = (
        cluster_attribute.string_value() if isinstance(cluster_attribute, SymbolRefAttr) else reading.module.mesh.name
    )
    for operation in function.walk():
        arguments = (argument for region in operation.regions for block in region.blocks for argument in block.args)
        types = [value.type for value in (*operation.operands, *operation.results, *arguments)]
        encodings = [type.encoding for type in types if isinstance(type, TextType)]
        shard_attributes = [
            attribute
            for attribute in (*operation.attributes.values(), *encodings)
            if isinstance(attribute, MeshShardAttr)
        ]
        yield from (attribute.data[0] or default for attribute in shard_attributes)
        grid = operation.properties.get("grid")
        if isinstance(grid, SymbolRefAttr):
            yield grid.string_value()
        elif operation.name.startswith("mesh.") and not shard_attributes:
            yield default


def read_function(reading: Reading, op: Operation) -> None:
    """Read a function's default cluster from its attribute `mesh_cluster`."""
    attribute = op.attributes.get("mesh_cluster")
    if not isinstance(attribute, SymbolRefAttr):
        return
    symbol = attribute.string_value()
    if symbol in reading.meshes:
        reading.meshes[DEFAULT] = reading.meshes[symbol]
    else:
        declared = reading.known_meshes
        reading.fault("MG0201", f"unknown cluster '@{symbol}'", op, f"clusters declared before are {declared}")


PART = Dialect(
    module_ops={"mesh.cluster": read_cluster, "mesh.sub_cluster": read_sub_cluster, "func.func": read_function},
    mesh_settlers=(settle_clusters,),
)
