"""Reader of Shardy's meshes, which are declared under a name or spelled out inside a sharding."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import suppress

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, StringAttr
from xdsl.ir import Attribute, Operation

from meshgen.errors import Diagnostic, ShardingError
from meshgen.mesh import DEFAULT_NAME, Axis
from meshgen.mlir.reader_state import Reading
from meshgen.mlir.sdy.attributes import MeshAttr, ShardingAttr, ShardingPerValueAttr
from meshgen.mlir.sdy.spelling import SpelledMesh, read_spelled
from meshgen.mlir.shard.grid import declare


def symbol_of(reading: Reading, spelled: str | SpelledMesh) -> str:
    """Return the name of the mesh of a sharding. A mesh that is spelled out must equal a declared one.

    Raises:
        ShardingError: the mesh is not declared.
    """
    declared_meshes = reading.known_meshes
    if isinstance(spelled, str):
        if spelled not in reading.meshes:
            message = f"unknown mesh '@{spelled}' in a sharding"
            raise ShardingError(Diagnostic("MG0201", message, hint=f"declared meshes: {declared_meshes}"))
        return spelled
    if (symbol := find_declared_mesh(reading, spelled)) is not None:
        return symbol
    message = f"no mesh of the program has the axes of the sharding's mesh<{spelled}>"
    raise ShardingError(
        Diagnostic("MG0201", message, hint=f"declare it with a name; declared meshes: {declared_meshes}")
    )


def declare_in_place(reading: Reading, top: Operation) -> None:
    """Declare each mesh that is spelled out inside a sharding, unless an equal mesh is declared. Goes in program order."""
    for operation in reading.originals(top):
        for mesh in meshes_of(operation):
            if isinstance(mesh, str):
                continue
            symbol, suffix = DEFAULT_NAME, 0
            while symbol in reading.meshes:
                symbol, suffix = f"{DEFAULT_NAME}_{suffix}", suffix + 1
            if find_declared_mesh(reading, mesh) is None:
                _declare_mesh(reading, symbol, mesh, operation)


def meshes_of(operation: Operation) -> Iterator[str | SpelledMesh]:
    """Yield the mesh of each sharding of an operation: its name, or the mesh as it is spelled out.

    Malformed shardings are skipped: the importers that use them report them.
    """
    for attribute in _attributes(operation):
        is_one = isinstance(attribute, ShardingAttr)
        bodies = (attribute.data,) if is_one else attribute.data if isinstance(attribute, ShardingPerValueAttr) else ()
        for body in bodies:
            with suppress(ValueError):
                yield read_spelled(body).mesh


def _attributes(operation: Operation) -> Iterator[Attribute]:
    """Yield the attributes of an operation. For a function, these include the attributes of its arguments and results."""
    yield from (*operation.attributes.values(), *operation.properties.values())
    for name in ("arg_attrs", "res_attrs"):
        entries = operation.properties.get(name)
        for entry in entries.data if isinstance(entries, ArrayAttr) else ():
            yield from entry.data.values() if isinstance(entry, DictionaryAttr) else ()


def read_mesh_op(reading: Reading, operation: Operation) -> None:
    symbol, mesh = operation.properties["sym_name"], operation.properties["mesh"]
    assert isinstance(symbol, StringAttr)
    assert isinstance(mesh, MeshAttr)
    _declare_mesh(reading, symbol.data, mesh.data, operation)


def _declare_mesh(reading: Reading, symbol: str, mesh: SpelledMesh, operation: Operation) -> None:
    """Declare a mesh such as `["x"=2], device_ids=[1, 0]` under the name `symbol`."""
    axes, order = [Axis(name, size) for name, size in mesh.axes], mesh.device_ids
    if order is not None:
        count = math.prod(axis.size or 1 for axis in axes)
        if len(order) != count or len(set(order)) != count:
            message = f"@{symbol} has {count} devices, but device_ids = {list(order)}"
            reading.fault("MG0201", message, operation, "list each device once, or leave them out")
            return
        if axes:
            reading.devices[symbol] = order
        else:
            reading.single[symbol] = order[0]
    if axes:
        reading.shardy.append(symbol)
    declare(reading, symbol, axes, operation)


def find_declared_mesh(reading: Reading, spelled: SpelledMesh) -> str | None:
    """Return the name of the declared mesh that has the axes and device order of `spelled`, or None if there is none."""
    for symbol, mesh in reading.meshes.items():
        axes = tuple((axis.name, axis.size) for axis in mesh.axes)
        if symbol and axes == spelled.axes and reading.device_ids(symbol) == spelled.device_ids:
            return symbol
    return None
