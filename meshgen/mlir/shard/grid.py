"""Reader and printer of `shard.grid`, which declares a mesh, and conversion between axis names and axis numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from xdsl.dialects.builtin import ArrayAttr, FloatAttr, SymbolRefAttr, UnitAttr, f64
from xdsl.dialects.shard import GridOp, ShardAxesArrayAttr
from xdsl.ir import Attribute, Operation

from meshgen.errors import ShardingError, UsageError
from meshgen.ir.graph import Module
from meshgen.machine.profiles import Machine
from meshgen.machine.reading import machine_of_text, machine_text
from meshgen.mesh import Axis, Mesh
from meshgen.mlir.attributes import string_of, strings
from meshgen.mlir.conversion import Importer
from meshgen.mlir.dialect import Dialect
from meshgen.mlir.literals import dictionary, listed, quoted, symbol
from meshgen.mlir.reader_state import Reading

AXIS_NAMES, BANDWIDTH, LATENCY, MACHINE = "axis_names", "bandwidth", "latency", "machine"


def read_grid(reading: Reading, op: Operation) -> None:
    """Read a `shard.grid`. Its axes are named by the attribute `axis_names`, or else by their numbers."""
    assert isinstance(op, GridOp)
    sizes = [None if size < 0 else size for size in op.shape.get_values()]
    names = [*strings(op.attributes.get(AXIS_NAMES))] or [str(index) for index in range(len(sizes))]
    bandwidth = floats(op.attributes.get(BANDWIDTH)) or [None] * len(sizes)
    latency = floats(op.attributes.get(LATENCY)) or [None] * len(sizes)
    symbol = op.sym_name.data
    if not len(sizes) == len(names) == len(bandwidth) == len(latency):
        message = f"@{symbol} has {len(sizes)} axes, but {len(names)} names, {len(bandwidth)} bandwidths, {len(latency)} latencies"
        reading.fault("MG0201", message, op)
        names = [str(index) for index in range(len(sizes))]
    axes = [Axis(*axis) for axis in zip(names, sizes, bandwidth, latency, strict=False)]
    declare(reading, symbol, axes, op, _machine(reading, op))


def _machine(reading: Reading, op: Operation) -> Machine | None:
    """Return the machine in the attribute of a grid: a name, or a description in JSON.

    Returns None if there is none, or if it is invalid, which is reported.
    """
    attribute = op.attributes.get(MACHINE)
    if attribute is None:
        return None
    try:
        return machine_of_text(string_of(attribute))
    except UsageError as error:
        reading.refuse(error.diagnostics, op)
        return None


def declare(reading: Reading, symbol: str, axes: Sequence[Axis], op: Operation, machine: Machine | None = None) -> None:
    """Declare a mesh with the axes `axes`.

    If it is invalid, report its faults and declare a valid substitute, so that the rest of the module can be read.
    """
    try:
        mesh = Mesh(tuple(axes), symbol, machine)
    except ShardingError as error:
        reading.refuse(error.diagnostics, op)
        names = [axis.name for axis in axes]
        names = [name if names.count(name) == 1 else f"{name}#{n}" for n, name in enumerate(names)]
        valid_axes = (replace(a, name=n, size=1) for n, a in zip(names, axes, strict=True))
        mesh = Mesh(tuple(valid_axes), symbol)
    reading.declare_mesh(symbol, mesh, op)


def grid_text(mesh: Mesh) -> str:
    """Return the `shard.grid` that declares a mesh."""
    sizes = "x".join("?" if size is None else str(size) for size in mesh.shape)
    attributes: dict[str, str] = {}
    if mesh.names != tuple(str(value) for value in range(len(mesh.axes))):
        attributes[AXIS_NAMES] = listed(map(quoted, mesh.names))
    for name, numbers in ((BANDWIDTH, [a.bandwidth for a in mesh.axes]), (LATENCY, [a.latency for a in mesh.axes])):
        if any(value is not None for value in numbers):
            attributes[name] = listed("unit" if n is None else str(FloatAttr(n, f64)) for n in numbers)
    if mesh.machine:
        attributes[MACHINE] = quoted(machine_text(mesh.machine))
    return f"shard.grid {symbol(mesh.name)}(shape = {sizes}){f' {dictionary(attributes)}' if attributes else ''}"


def floats(attribute: Attribute | None) -> list[float | None]:
    """Return the floats in an array attribute, one per axis, or None for each `unit`, which stands for a missing float."""
    items = attribute.data if isinstance(attribute, ArrayAttr) else ()
    numbers = [item for item in items if isinstance(item, FloatAttr | UnitAttr)]
    return [float(item.value.data) if isinstance(item, FloatAttr) else None for item in numbers]


def find_mesh(importer: Importer, symbol: str, op: Operation) -> Mesh | None:
    """Return the mesh named `symbol`. Reports a fault and returns None if it is not declared."""
    meshes = importer.reading.meshes
    if symbol not in meshes:
        hint = f"declared grids: {importer.reading.known_meshes}"
        importer.fault("MG0201", f"unknown grid '@{symbol}'", op, hint)
    return meshes.get(symbol)


def mesh_of(importer: Importer, op: Operation) -> Mesh:
    """Return the mesh that an operation names.

    Reports a fault and returns the default mesh if the operation names a mesh other than that.
    """
    grid = op.properties["grid"]
    assert isinstance(grid, SymbolRefAttr)
    symbol, here = grid.string_value(), importer.reading.module.mesh
    mesh = find_mesh(importer, symbol, op)
    if mesh is None or importer.reading.whole(symbol) is here:
        return mesh or here
    message = f"{op.name} is over @{symbol}, but the values around it are on @{here.name}"
    hint = "put the grid into the types, #meshgen.split<@grid, ...>; programs of devices need a module per grid"
    importer.fault("MG0209", message, op, hint)
    return here


def axis_numbers(axes: ShardAxesArrayAttr) -> tuple[tuple[str, ...], ...]:
    """Return the axis numbers of each dim in an attribute such as `[[0], [1]]`, as text."""
    return tuple(tuple(str(number) for number in dim_axes.get_values()) for dim_axes in axes.axes)


def has_sub_axes(axes: Sequence[str], mesh: Mesh) -> bool:
    """Whether some of the axes are sub-axes, such as `x:(1)2`."""
    return any(axis not in mesh.names for axis in axes)


def axis_number(axis: str, mesh: Mesh) -> int:
    """Return the number of a mesh axis. For a sub-axis, it is the number of the axis that contains it."""
    return mesh.axes.index(mesh.axis(axis))


def numbered(dims: Sequence[Sequence[str]], mesh: Mesh) -> list[list[int]]:
    """Return the axes of each dim as numbers of mesh axes."""
    return [[axis_number(axis, mesh) for axis in axes] for axes in dims]


def numbers(partial: Sequence[tuple[str, str]], mesh: Mesh) -> tuple[tuple[str, str], ...]:
    """Return the partial axes with the names of mesh axes replaced by their numbers. Sub-axes keep their names."""
    return tuple((str(mesh.names.index(a)) if a in mesh.names else a, kind) for a, kind in partial)


def _grids(module: Module) -> list[str]:
    """Return the declarations of a module's meshes, its default mesh first."""
    meshes = [module.mesh, *(mesh for mesh in module.meshes if mesh.name != module.mesh.name)]
    return [grid_text(mesh) for mesh in meshes if mesh.axes]


PART = Dialect(module_ops={"shard.grid": read_grid}, module_op_writers=(_grids,))
