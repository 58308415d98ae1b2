"""Grids, shardings and annotations of the `shard` dialect, to and from graphs.

Upstream's meaning of `shard.shard`: without `annotate_for_users` it is the sharding in which the value is
made, with it the one in which its users read it. In a program as a user writes it (no stage is declared) an
annotated argument or returned value is an annotated signature too; in a printed program the signature stands
in the arguments' and results' attributes (`bridge_shard_stages.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from xdsl.dialects import builtin, func
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    I64,
    ArrayAttr,
    DenseArrayBase,
    FloatAttr,
    IntegerAttr,
    StringAttr,
    SymbolRefAttr,
    UnitAttr,
    f64,
    i1,
    i16,
    i64,
)
from xdsl.dialects.shard import GridOp, ShardAxesArrayAttr, ShardingType, ShardOp
from xdsl.ir import Attribute, BlockArgument, Operation, SSAValue

from meshgen.errors import Diagnostic, ShardingError
from meshgen.ir import bridge
from meshgen.ir.bridge import Exporter, Importer, Reading, exports, imports
from meshgen.ir.dialects.shard import SHARD, GetShardingOp, ShardingOp
from meshgen.ir.dialects.shard_attrs import PartialAttr, PlanAttr, SplitAttr, named
from meshgen.ir.graph import Annotation, Node, NodeSharding, TensorType, Value
from meshgen.mesh import NVLINK_BYTES_PER_SECOND, NVLINK_LATENCY_SECONDS, Axis, Mesh
from meshgen.spec import Sharding, fit

AXIS_NAMES, BANDWIDTH, LATENCY = "axis_names", "bandwidth", "latency"


def read_grid(reading: Reading, op: Operation) -> None:
    """`shard.grid`: axes named by `axis_names`, else by their numbers."""
    assert isinstance(op, GridOp)
    sizes = [None if size < 0 else size for size in op.shape.get_values()]
    names = strings(op.attributes.get(AXIS_NAMES)) or [str(number) for number in range(len(sizes))]
    bandwidth = floats(op.attributes.get(BANDWIDTH)) or [NVLINK_BYTES_PER_SECOND] * len(sizes)
    latency = floats(op.attributes.get(LATENCY)) or [NVLINK_LATENCY_SECONDS] * len(sizes)
    symbol = op.sym_name.data
    if not len(sizes) == len(names) == len(bandwidth) == len(latency):
        message = f"@{symbol} has {len(sizes)} axes, but {len(names)} names, {len(bandwidth)} bandwidths, {len(latency)} latencies"
        reading.fault("MG0201", message, op)
        names = [str(number) for number in range(len(sizes))]
    axes = [Axis(*axis) for axis in zip(names, sizes, bandwidth, latency, strict=False)]
    declare(reading, symbol, axes, op)


def declare(reading: Reading, symbol: str, axes: Sequence[Axis], op: Operation) -> None:
    """Add a mesh; where it is malformed, the faults, and a sound mesh so that reading goes on."""
    try:
        mesh = Mesh(tuple(axes), symbol)
    except ShardingError as error:
        reading.faults += [replace(fault, loc=reading.source.locate(op)) for fault in error.diagnostics]
        sound = (replace(axis, name=str(n), size=max(axis.size or 1, 1)) for n, axis in enumerate(axes))
        mesh = Mesh(tuple(sound), symbol)
    reading.declare_mesh(symbol, mesh, op)


def grid_op(mesh: Mesh) -> GridOp:
    """The declaration of a mesh."""
    shape = DenseArrayBase.from_list(i64, [DYNAMIC_INDEX if size is None else size for size in mesh.shape])
    op = GridOp(properties={"sym_name": StringAttr(mesh.name), "shape": shape})
    if mesh.names != tuple(str(number) for number in range(len(mesh.axes))):
        op.attributes[AXIS_NAMES] = ArrayAttr(StringAttr(name) for name in mesh.names)
    if any(axis.bandwidth != NVLINK_BYTES_PER_SECOND for axis in mesh.axes):
        op.attributes[BANDWIDTH] = ArrayAttr(FloatAttr(axis.bandwidth, f64) for axis in mesh.axes)
    if any(axis.latency != NVLINK_LATENCY_SECONDS for axis in mesh.axes):
        op.attributes[LATENCY] = ArrayAttr(FloatAttr(axis.latency, f64) for axis in mesh.axes)
    return op


def strings(attribute: Attribute | None) -> list[str]:
    """The strings of an array attribute."""
    items = attribute.data if isinstance(attribute, ArrayAttr) else ()
    return [item.data for item in items if isinstance(item, StringAttr)]


def floats(attribute: Attribute | None) -> list[float]:
    """The numbers of an array attribute."""
    items = attribute.data if isinstance(attribute, ArrayAttr) else ()
    return [float(item.value.data) for item in items if isinstance(item, FloatAttr)]


def find_mesh(importer: Importer, symbol: str, op: Operation) -> Mesh | None:
    """The mesh that an operation names; collects a fault if there is none."""
    meshes = importer.reading.meshes
    if symbol not in meshes:
        known = ", ".join(f"@{name}" for name in meshes) or "none"
        importer.fault("MG0201", f"there is no grid @{symbol}", op, f"declared grids: {known}")
    return meshes.get(symbol)


@imports("shard.sharding")
def import_sharding(importer: Importer, op: Operation) -> None:
    """The sharding is read where it is used; here its faults are collected."""
    assert isinstance(op, ShardingOp)
    mesh = find_mesh(importer, op.grid.string_value(), op)
    if mesh is None:
        return
    sharding, faults = read_sharding(op, mesh)
    faults += sharding.faults([None] * sharding.rank, mesh) if not faults else []
    importer.reading.faults += [replace(f, loc=importer.reading.source.locate(op)) for f in faults]


@imports("shard.get_sharding")
def import_get_sharding(importer: Importer, op: Operation) -> None:
    """A handle without a value of its own."""
    del importer, op


def sharding_of(importer: Importer, handle: SSAValue) -> Sharding | None:
    """The sharding that a `!shard.sharding` value stands for; None where it is faulty (reported at its definition)."""
    owner = handle.owner
    if isinstance(owner, GetShardingOp):
        annotated = owner.source.owner
        if isinstance(annotated, ShardOp):
            return sharding_of(importer, annotated.sharding)
        return importer.value(owner.source).sharding
    mesh = importer.reading.meshes.get(owner.grid.string_value()) if isinstance(owner, ShardingOp) else None
    if mesh is None:
        return None
    assert isinstance(owner, ShardingOp)
    sharding, faults = read_sharding(owner, mesh)
    return None if faults or sharding.faults([None] * sharding.rank, mesh) else sharding


def read_sharding(op: ShardingOp, mesh: Mesh) -> tuple[Sharding, list[Diagnostic]]:
    """The sharding that `shard.sharding` defines, over as many dims as it has lists, and its faults."""
    faults: list[Diagnostic] = []
    halo_sizes = constants(op.static_halo_sizes, op.dynamic_halo_sizes, "halo size", faults)
    offsets = constants(op.static_sharded_dims_offsets, op.dynamic_sharded_dims_offsets, "offset", faults)
    sharding = named(Sharding(split_axes(op), () if op.partial is None else op.partial.data), mesh)
    if faults or sharding.faults([None] * sharding.rank, mesh):
        return sharding, faults
    if halo_sizes and offsets:
        return sharding, [Diagnostic("MG0204", "halo sizes and offsets exclude each other, but both are given")]
    if halo_sizes:
        return _with_halo(sharding, halo_sizes)
    return _with_offsets(sharding, offsets, mesh) if offsets else (sharding, [])


def split_axes(op: ShardingOp) -> tuple[tuple[str, ...], ...]:
    """Axes per dim: `axes` where it is given (parts of axes), else `split_axes`."""
    if isinstance(lists := op.attributes.get("axes"), ArrayAttr):
        return tuple(tuple(strings(each)) for each in lists)
    return axis_numbers(op.split_axes)


def axis_numbers(axes: ShardAxesArrayAttr) -> tuple[tuple[str, ...], ...]:
    """Numbers of axes per dim, as text."""
    return tuple(tuple(str(number) for number in each.get_values()) for each in axes.axes)


def constants(
    static: DenseArrayBase[I64], dynamic: Sequence[SSAValue], what: str, faults: list[Diagnostic]
) -> list[int]:
    """A list of numbers, some of which are constants of the program; collects a fault where one is not known."""
    rest, found = list(dynamic), list[int]()
    for number in static.get_values():
        if number != DYNAMIC_INDEX:
            found.append(int(number))
        elif (known := constant(rest.pop(0))) is not None:
            found.append(known)
        else:
            faults.append(Diagnostic("MG0103", f"{what} is not known at compile time", hint="use a constant"))
    return found


def constant(value: SSAValue) -> int | None:
    """The integer that an `arith.constant` defines."""
    owner = value.owner
    number = owner.properties.get("value") if isinstance(owner, Operation) and owner.name == "arith.constant" else None
    return number.value.data if isinstance(number, IntegerAttr) else None


def _with_halo(sharding: Sharding, sizes: Sequence[int]) -> tuple[Sharding, list[Diagnostic]]:
    """Two sizes per split dim."""
    split = [dim for dim, axes in enumerate(sharding.dims) if axes]
    if len(sizes) != 2 * len(split):
        message = (
            f"{len(split)} split dims need {2 * len(split)} halo sizes (before, after), but there are {len(sizes)}"
        )
        return sharding, [Diagnostic("MG0204", message, hint="a dim that is not split has no halo")]
    halo = [(0, 0)] * sharding.rank
    for place, dim in enumerate(split):
        halo[dim] = (sizes[2 * place], sizes[2 * place + 1])
    return replace(sharding, halo=tuple(halo)), []


def _with_offsets(sharding: Sharding, flat: Sequence[int], mesh: Mesh) -> tuple[Sharding, list[Diagnostic]]:
    """One more offset per split dim than it has shards."""
    try:
        counts = [sharding.parts(dim, mesh) + 1 if axes else 0 for dim, axes in enumerate(sharding.dims)]
    except ShardingError as error:
        return sharding, list(error.diagnostics)
    if sum(counts) != len(flat):
        needed = " + ".join(str(count) for count in counts if count) or "none"
        message = f"the split dims need {needed} offsets (one more than shards), but there are {len(flat)}"
        return sharding, [Diagnostic("MG0204", message)]
    starts = [sum(counts[:dim]) for dim in range(len(counts))]
    rows = tuple(tuple(flat[start : start + count]) for start, count in zip(starts, counts, strict=True))
    return replace(sharding, offsets=rows), []


@imports("shard.shard")
def import_shard(importer: Importer, op: Operation) -> None:
    assert isinstance(op, ShardOp)
    for_users = op.annotate_for_users is not None
    sharding = sharding_of(importer, op.sharding)
    if sharding is None:
        importer.bind(op.result, importer.value(op.src))
        return
    annotate(importer, op, op.src, sharding, flag(op, "required", True), not for_users, open_dims(op))


def flag(op: Operation, name: str, default: bool) -> bool:
    """A boolean attribute."""
    value = op.attributes.get(name)
    return bool(value.value.data) if isinstance(value, IntegerAttr) else default


def open_dims(op: Operation) -> tuple[bool, ...]:
    """The `open_dims` of an annotation."""
    return booleans(op.attributes.get("open_dims"))


def booleans(attribute: Attribute | None) -> tuple[bool, ...]:
    """The booleans of a dense array or an array."""
    if isinstance(attribute, DenseArrayBase):
        return tuple(bool(item) for item in attribute.get_values())
    items = attribute.data if isinstance(attribute, ArrayAttr) else ()
    return tuple(bool(item.value.data) for item in items if isinstance(item, IntegerAttr))


def annotate(importer: Importer, op: Operation, source: SSAValue, sharding: Sharding, required: bool, as_result: bool,
             open_dims: tuple[bool, ...] = ()) -> None:  # fmt: skip
    """An annotation node for `op`; checks that the sharding fits, and completes the signature."""
    reading, kind = importer.reading, importer.type(source)
    if sharding.rank > kind.rank:
        message = f"the sharding has {sharding.rank} lists of axes, but {kind} has rank {kind.rank}"
        importer.fault("MG0204", message, op, "give at most one list per tensor dim")
        importer.bind(op.results[0], importer.value(source))
        return
    sharding = fitted(sharding, kind.rank)
    loc = reading.source.locate(op)
    reading.faults += [replace(f, loc=loc) for f in sharding.faults(kind.shape, reading.module.mesh)]
    attrs = {"sharding": sharding, "required": required, "as_result": as_result, "open_dims": open_dims}
    node = importer.convert(op, "annotate", attrs, operands=[source])
    node.attrs.pop("sharding_option", None)
    _check_single(importer, op, source, node)
    _complete_signature(importer, op, source, Annotation(sharding, required, open_dims, loc), as_result)


def fitted(sharding: Sharding, rank: int) -> Sharding:
    """The sharding over `rank` dims: those left out are not split."""
    missing = rank - sharding.rank
    halo = sharding.halo + ((0, 0),) * missing if sharding.halo else ()
    offsets = sharding.offsets + ((),) * missing if sharding.offsets else ()
    return replace(fit(sharding, rank), halo=halo, offsets=offsets)


def _check_single(importer: Importer, op: Operation, source: SSAValue, node: Node) -> None:
    """A value is made in one sharding only: a second annotation for its maker must say the same."""
    if not node.attrs["as_result"] or not node.attrs["required"]:
        return
    value = importer.value(source)
    for other in importer.graph.nodes[:-1]:
        same = other.op == "annotate" and other.attrs["as_result"] and other.attrs["required"]
        if same and value in (other.operands[0], other.result) and other.attrs["sharding"] != node.attrs["sharding"]:
            message = f"the value is annotated as made {node.attrs['sharding']}, but also {other.attrs['sharding']}"
            importer.fault(
                "MG0205", message, op, f"annotate one of them for its users (the other stands at {other.loc})"
            )
            return


def _complete_signature(importer: Importer, op: Operation, source: SSAValue, wish: Annotation, as_result: bool) -> None:
    """In a user's program, what is said of an argument or a returned value is said of the signature."""
    reading = importer.reading
    if is_declared(op) or importer.graph is not reading.module.graph:
        return
    if as_result and isinstance(source, BlockArgument) and isinstance(source.block.parent_op(), func.FuncOp):
        _set(reading.module.in_annotations, source.index, wish)
    for use in op.results[0].uses:
        if isinstance(use.operation, func.ReturnOp):
            _set(reading.module.out_annotations, use.index, wish)


def _set(table: list[Annotation | None], index: int, wish: Annotation) -> None:
    """What an argument's own attribute says stands."""
    if index < len(table) and table[index] is None:
        table[index] = wish


def is_declared(op: Operation) -> bool:
    """Whether the operation's module says which stage it is at, as printed ones do."""
    top: Operation | None = op
    while top is not None and not isinstance(top, builtin.ModuleOp):
        top = top.parent_op()
    return top is not None and "meshgen.stage" in top.attributes


@exports("annotate")
def export_annotate(exporter: Exporter, node: Node) -> Operation:
    """`shard.shard`; its `shard.sharding` is put before it by `shardings_before`."""
    definition = sharding_op(node.attrs["sharding"], exporter.module.mesh)
    exporter.before(definition)
    exporter.names[definition.result] = "sharding"  # numbers stay free for values that are called so
    for_users = None if node.attrs["as_result"] else UnitAttr()
    op = ShardOp(exporter.ssa(node.operands[0]), definition.result, for_users)
    if not node.attrs["required"]:
        op.attributes["required"] = IntegerAttr(0, i1)
    if dims := node.attrs.get("open_dims"):
        op.attributes["open_dims"] = DenseArrayBase.from_list(i1, [int(dim) for dim in dims])
    return op


def sharding_op(sharding: Sharding, mesh: Mesh) -> ShardingOp:
    """The definition of a sharding, numbers of axes as upstream writes them."""
    halo = [size for dim, pair in enumerate(sharding.halo) if sharding.dims[dim] for size in pair]
    offsets = [offset for row in sharding.offsets for offset in row]
    op = ShardingOp(
        operands=[[], []],
        result_types=[ShardingType()],
        properties={
            "grid": SymbolRefAttr(mesh.name),
            "split_axes": numbered(sharding.dims or ((),), mesh),
            "partial": PartialAttr(numbers(sharding.partial, mesh)) if sharding.partial else None,
            "static_halo_sizes": DenseArrayBase.from_list(i64, halo),
            "static_sharded_dims_offsets": DenseArrayBase.from_list(i64, offsets),
        },
    )
    if has_parts(sharding.split_axes, mesh):
        op.attributes["axes"] = ArrayAttr(ArrayAttr(StringAttr(axis) for axis in axes) for axes in sharding.dims)
    return op


def has_parts(axes: Sequence[str], mesh: Mesh) -> bool:
    """Whether some of the axes are parts of mesh axes."""
    return any(axis not in mesh.names for axis in axes)


def axis_number(axis: str, mesh: Mesh) -> int:
    """Number of the mesh axis that a reference names, or of which it names a part."""
    return mesh.axes.index(mesh.axis(axis))


def numbered(dims: Sequence[Sequence[str]], mesh: Mesh) -> ShardAxesArrayAttr:
    """Axes per dim as upstream's attribute."""
    lists = ([axis_number(axis, mesh) for axis in axes] for axes in dims)
    return ShardAxesArrayAttr(ArrayAttr(DenseArrayBase.from_list(i16, axes) for axes in lists))


def numbers(partial: Sequence[tuple[str, str]], mesh: Mesh) -> tuple[tuple[str, str], ...]:
    """Whole axes by number, parts by name."""
    return tuple((str(mesh.names.index(a)) if a in mesh.names else a, kind) for a, kind in partial)


def decode_split(reading: Reading, attribute: Attribute, kind: TensorType) -> Sharding:
    """`#shard.split`: the sharding over the mesh's axis names; one that does not fit is a fault."""
    assert isinstance(attribute, SplitAttr)
    symbol, sharding = attribute.data
    mesh = reading.meshes.get(symbol, reading.module.mesh)
    sharding = named(sharding, mesh)
    if sharding.rank < kind.rank:
        sharding = fitted(sharding, kind.rank)
    faults = [replace(f, message=f"encoding of {kind}: {f.message}") for f in sharding.faults(kind.shape, mesh)]
    reading.faults += [fault for fault in faults if fault not in reading.faults]
    return sharding if not faults else Sharding.replicated(kind.rank)


def encode_split(sharding: Sharding, mesh: Mesh) -> Attribute:
    """The encoding of a tensor type on the module's mesh."""
    return SplitAttr((mesh.name, sharding))


def read_option(importer: Importer, node: Node, attribute: Attribute) -> None:
    """`sharding = [[], [0], ["tp"]]` on an operation: axes per loop of its rule."""
    if not isinstance(attribute, ArrayAttr):
        return
    mesh, loops = importer.reading.module.mesh, lists_of(attribute)
    node.attrs["sharding_option"] = named(Sharding(loops), mesh).dims
    faults = Sharding(node.attrs["sharding_option"]).faults([None] * len(loops), mesh)
    importer.reading.faults += [replace(f, message=f"option of {node.op}: {f.message}", loc=node.loc) for f in faults]


def lists_of(attribute: Attribute | None) -> tuple[tuple[str, ...], ...]:
    """Lists of axes, `[[0], ["tp"], []]`, as text."""
    lists = attribute.data if isinstance(attribute, ArrayAttr) else ()
    return tuple(tuple(_axis(item) for item in axes) if isinstance(axes, ArrayAttr) else () for axes in lists)


def _axis(item: Attribute) -> str:
    return item.data if isinstance(item, StringAttr) else str(item.value.data) if isinstance(item, IntegerAttr) else "?"


def read_plan(importer: Importer, op: Operation, attribute: Attribute) -> None:
    """What propagation decided for the last node. Called when its results have their types' shardings."""
    if not isinstance(attribute, PlanAttr):
        return
    plan, mesh, node = attribute.data, importer.reading.module.mesh, importer.graph.nodes[-1]
    operands = tuple(named(sharding, mesh) for sharding in plan.operands)
    results = tuple(named(sharding, mesh) for sharding in plan.results)
    if not operands and not results:
        operands, results = typed(node.operands), typed(node.results)
    if (len(operands), len(results)) != (len(node.operands), len(node.results)):
        message = f"shard.plan has {len(operands)} operands and {len(results)} results, but {node.op} has {len(node.operands)} and {len(node.results)}"
        importer.fault("MG0104", message, op)
    node.sharding = NodeSharding(operands, results, named(Sharding(plan.option), mesh).dims, plan.why)


def typed(values: Sequence[Value]) -> tuple[Sharding, ...]:
    """Shardings of values; one without is replicated."""
    return tuple(value.sharding or Sharding.replicated(value.type.rank) for value in values)


def write_node(exporter: Exporter, node: Node) -> Mapping[str, Attribute]:
    """The option that the user gave, and what propagation decided."""
    found: dict[str, Attribute] = {}
    if (option := node.attrs.get("sharding_option")) is not None:
        mesh = exporter.module.mesh
        found["sharding"] = ArrayAttr(ArrayAttr(_option_axis(axis, mesh) for axis in axes) for axes in option)
    if (plan := node.sharding) is not None:
        values = (*node.operands, *node.results)
        is_typed = all(v.sharding is not None for v in values) and (*plan.operands, *plan.results) == typed(values)
        found["shard.plan"] = PlanAttr(replace(plan, operands=(), results=()) if is_typed else plan)
    return found


def _option_axis(axis: str, mesh: Mesh) -> Attribute:
    return IntegerAttr(mesh.names.index(axis), i64) if axis in mesh.names else StringAttr(axis)


bridge.DIALECTS.append(SHARD)
bridge.MODULE_OPS["shard.grid"] = read_grid
bridge.MODULE_HEAD.append(lambda module: [grid_op(module.mesh)] if module.mesh.axes else [])
bridge.TYPE_DECODERS[SplitAttr.name] = decode_split
bridge.TYPE_ENCODERS.append(encode_split)
bridge.NODE_ATTRS["sharding"] = read_option
bridge.RESULT_ATTRS["shard.plan"] = read_plan
bridge.NODE_ATTR_WRITERS.append(write_node)
