"""Clusters of the RFC's `mesh` dialect as meshes, and the default one."""

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
from meshgen.mlir.reading import Reading
from meshgen.mlir.shard.grid import declare

_MAX_AXES = 1000  # of a cluster (chosen: far more than any has; a rank may be any number, and each axis is made)
DEFAULT = ""  # the symbol of attributes that name no cluster


def read_cluster(reading: Reading, op: Operation) -> None:
    """`mesh.cluster`: axes are named by their numbers; a size that is missing or below 1 is unknown."""
    symbol = name_of(op.properties["sym_name"])
    rank, sizes = integer_of(op.properties["rank"]), integers(op.properties.get("dim_sizes"))
    if rank < len(sizes):
        reading.fault("MG0201", f"@{symbol} has rank {rank}, but {len(sizes)} dim sizes", op)
        return
    if rank > _MAX_AXES:
        reading.fault("MG0201", f"@{symbol} has rank {rank}; at most {_MAX_AXES} axes are read", op)
        return
    known = [*sizes[:rank], *[0] * (rank - len(sizes))]
    axes = [Axis(str(number), size if size > 0 else None) for number, size in enumerate(known)]
    declare(reading, symbol, axes, op)


def read_sub_cluster(reading: Reading, op: Operation) -> None:
    """A mesh of some of a cluster's axes: they keep their names, so that shardings over it are shardings over the cluster."""
    symbol, cluster = name_of(op.properties["sym_name"]), name_of(op.properties["cluster"])
    if (parent := reading.meshes.get(cluster)) is None:
        reading.fault("MG0201", f"unknown cluster '@{cluster}' before @{symbol}", op, "declare the cluster first")
        return
    numbers, index = (list(integers(op.properties.get(name))) for name in ("axes", "index"))
    if wrong := [number for number in numbers if not 0 <= number < len(parent.axes)]:
        hint = f"its axes are numbered 0 to {len(parent.axes) - 1}"
        reading.fault("MG0202", f"@{symbol}: axis {wrong[0]} is not in {parent}", op, hint)
        return
    rest = [axis for number, axis in enumerate(parent.axes) if number not in numbers]
    if index and len(index) != len(rest):
        message = f"@{symbol}: the index has {len(index)} coordinates, but {parent} has {len(rest)} other axes"
        reading.fault("MG0201", message, op)
    for axis, coordinate in zip(rest, index, strict=False):
        if not 0 <= coordinate < (axis.size or coordinate + 1):
            message = f"@{symbol}: coordinate {coordinate} is outside axis '{axis.name}' of size {axis.size}"
            reading.fault("MG0201", message, op)
    if symbol in reading.meshes or len(set(numbers)) != len(numbers):
        what = "is declared twice" if symbol in reading.meshes else f"lists an axis twice: {numbers}"
        reading.fault("MG0201", f"@{symbol} {what}", op)
        return
    reading.meshes[symbol] = Mesh(tuple(parent.axes[number] for number in numbers), symbol)
    reading.parents[symbol] = cluster
    if index and parent.is_static:
        fixed = dict(zip((axis.name for axis in rest), index, strict=False))
        places = (
            place for place in range(parent.size) if all(parent.coordinate(place, a) == n for a, n in fixed.items())
        )
        reading.picked[symbol] = tuple(places)


def settle_clusters(reading: Reading, top: Operation) -> None:
    """Sub-clusters by their index become meshes of their own where the program is on such alone."""
    if reading.picked:
        functions = (each for each in top.regions[0].block.ops if isinstance(each, func.FuncOp))
        named = [symbol for function in functions for symbol in _named_clusters(function, reading)]
        reading.part_ways(list(dict.fromkeys(named)))


def _named_clusters(function: Operation, reading: Reading) -> Iterator[str]:
    """The clusters that a function names; where it does not say which one it means, its own or the first."""
    own = function.attributes.get("mesh_cluster")
    default = own.string_value() if isinstance(own, SymbolRefAttr) else reading.module.mesh.name
    for operation in function.walk():
        arguments = (argument for region in operation.regions for block in region.blocks for argument in block.args)
        types = [value.type for value in (*operation.operands, *operation.results, *arguments)]
        encodings = [type.encoding for type in types if isinstance(type, TextType)]
        said = [each for each in (*operation.attributes.values(), *encodings) if isinstance(each, MeshShardAttr)]
        yield from (each.data[0] or default for each in said)
        grid = operation.properties.get("grid")
        if isinstance(grid, SymbolRefAttr):
            yield grid.string_value()
        elif operation.name.startswith("mesh.") and not said:
            yield default


def read_function(reading: Reading, op: Operation) -> None:
    """The attribute `mesh_cluster` of a function: its default cluster."""
    attribute = op.attributes.get("mesh_cluster")
    if not isinstance(attribute, SymbolRefAttr):
        return
    symbol = attribute.string_value()
    if symbol in reading.meshes:
        reading.meshes[DEFAULT] = reading.meshes[symbol]
    else:
        known = reading.known_meshes
        reading.fault("MG0201", f"unknown cluster '@{symbol}'", op, f"clusters declared before are {known}")


PART = Dialect(
    module_ops={"mesh.cluster": read_cluster, "mesh.sub_cluster": read_sub_cluster, "func.func": read_function},
    mesh_settlers=(settle_clusters,),
)
