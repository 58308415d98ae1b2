"""Reader of Shardy's shardings of arguments and results, and of constraints."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from xdsl.ir import Attribute, Operation, SSAValue

from meshgen.errors import Diagnostic, ShardingError
from meshgen.ir.graph import TOKEN, Annotation, TensorType
from meshgen.mesh import Mesh, split_ref
from meshgen.mlir.conversion import Importer
from meshgen.mlir.dialect import Dialect
from meshgen.mlir.reading import Reading, Slot
from meshgen.mlir.sdy.attributes import ShardingAttr, ShardingPerValueAttr
from meshgen.mlir.sdy.collective_checks import Axes, check_collective, kept_kind_fault, part_fault
from meshgen.mlir.sdy.meshes import declare_in_place, read_mesh_op, symbol_of
from meshgen.mlir.sdy.operations import COLLECTIVES, ManualComputation
from meshgen.mlir.sdy.spelling import Spelled, read_spelled
from meshgen.mlir.shard.annotations import annotate_result, annotation_attrs
from meshgen.spec import Sharding

_RESULTS = "sdy.sharding"  # on an operation: how its results are made


def annotation(reading: Reading, body: str, kind: TensorType) -> Annotation:
    """The annotation that a sharding makes. Raises ShardingError if it names another mesh or is malformed.

    `replicated` axes must not split the value: open dims are closed then, which forbids more than it should,
    but never allows what it must not. Priorities decide between hints and mean nothing for what is required.
    """
    try:
        spelled = read_spelled(body)
    except ValueError as error:
        raise ShardingError(Diagnostic("MG0204", str(error))) from error
    if kind == TensorType(*TOKEN) and (spelled.dims or spelled.replicated or spelled.unreduced):
        message = f"<{spelled}>: a token has no dims, and is the same on all devices"
        raise ShardingError(Diagnostic("MG0204", message, hint="write an empty list of dims, or leave it out"))
    symbol = symbol_of(reading, spelled.mesh)
    if symbol in reading.refused:
        raise ShardingError(reading.refused[symbol])
    if not reading.meshes[symbol].axes:
        return _unsharded_annotation(reading, symbol, spelled, kind)
    _check_spelled(reading.meshes[symbol], spelled)
    dims = tuple(reading.axes(symbol, axes) for axes in spelled.dims)
    if kind == TensorType(*TOKEN):
        dims = dims or ((),)
    partial = tuple(
        (axis, how)
        for ref, how in zip(spelled.unreduced, spelled.kinds, strict=True)
        for axis in reading.axes(symbol, (ref,))
    )
    is_open = spelled.open_dims if any(spelled.open_dims) and not spelled.replicated else ()
    return Annotation(reading.on(symbol, Sharding(dims, partial)), required=True, open_dims=is_open)


def _check_spelled(mesh: Mesh, spelled: Spelled) -> None:
    """Parts of axes are none that Shardy spells otherwise; replicated axes neither split the value nor leave it unreduced."""
    dims, partial = spelled.dims, tuple((axis, "sum") for axis in spelled.unreduced)
    for ref in (*(axis for axes in dims for axis in axes), *spelled.unreduced, *spelled.replicated):
        if message := part_fault(ref, mesh):
            raise ShardingError(Diagnostic("MG0201", message, hint="write the whole axis, or leave it out"))
    if spelled.replicated and not Sharding(dims, partial).faults((None,) * len(dims), mesh):
        wrong = Sharding((*dims, spelled.replicated), partial).faults((None,) * (len(dims) + 1), mesh)
        if wrong:  # they exclude each other as the axes of dims do
            raise ShardingError(*(replace(each, message=f"replicated={{...}}: {each.message}") for each in wrong))


def _unsharded_annotation(reading: Reading, symbol: str, spelled: Spelled, kind: TensorType) -> Annotation:
    """A value over a mesh without axes, whose dims need not be written. Where the mesh is one device (Shardy's maximal
    sharding), all devices have the value, as XLA's partitioner gives it to all where it is used.
    """
    device, mesh = reading.single.get(symbol, 0), reading.module.mesh
    if mesh.is_static and device >= mesh.size:
        message = f"@{symbol} is device {device}, but the program is on {mesh.size} devices, 0 to {mesh.size - 1}"
        raise ShardingError(Diagnostic("MG0209", message, hint="name one of them, or declare a larger mesh"))
    if any(spelled.dims) or spelled.unreduced or spelled.replicated:
        message = f"<{spelled}>: @{symbol} has no axes, so values over it are not sharded"
        raise ShardingError(Diagnostic("MG0204", message, hint=f"write <@{symbol}, []>"))
    if spelled.dims and len(spelled.dims) != kind.rank:
        raise ShardingError(Sharding(spelled.dims).faults(kind.shape, mesh)[0])
    return Annotation(reading.on(mesh.name, Sharding.replicated(kind.rank)), required=True)


def _import_constraint(importer: Importer, operation: Operation) -> None:
    """The annotation of the operand from here on, as a node."""
    body = _stated(operation)
    assert body is not None
    source = operation.operands[0]
    kind = importer.type(source)
    count, reduces = len(importer.reading.faults), Axes()
    spec = checked(importer, operation, body, kind)
    attrs = annotation_attrs(spec, as_result=not _is_made_otherwise(operation, source, body))
    if message := kept_kind_fault(source, read_spelled(body)) if len(importer.reading.faults) == count else "":
        importer.fault("MG0204", f"{operation.name}: {message}", operation, "name the kind, such as unreduced=max{...}")
    if "out_sharding" in operation.properties and len(importer.reading.faults) == count:
        reduces = check_collective(importer, operation, read_spelled(body))
    node = importer.convert(operation, "annotate", attrs, operands=[source])
    node.notes = replace(node.notes, reduces=reduces)


def _is_made_otherwise(operation: Operation, source: SSAValue, body: str) -> bool:
    """Whether an annotation before this one says how the value is made: then this is how it is read from here on."""
    owner = source.owner
    if isinstance(owner, Operation) and (stated := _stated(owner)) is not None:
        return stated != body
    if isinstance(owner, Operation) and _RESULTS in owner.attributes:
        return True
    others = (use.operation for use in source.uses if use.operation is not operation)
    same = (each for each in others if _stated(each) not in (None, body))
    return any(each.parent is operation.parent and each.is_before_in_block(operation) for each in same)


def _stated(operation: Operation) -> str | None:
    """The sharding of the operand from here on, by a constraint or a collective."""
    found = operation.properties.get("sharding") or operation.properties.get("out_sharding")
    return found.data if isinstance(found, ShardingAttr) else None


def checked(importer: Importer, operation: Operation, body: str, kind: TensorType) -> Annotation:
    """The annotation; its faults are collected with the place of the operation."""
    reading = importer.reading
    try:
        spec = annotation(reading, body, kind)
    except ShardingError as error:
        reading.refuse(error.diagnostics, operation)
        return Annotation(Sharding.replicated(kind.rank))
    reading.refuse(spec.sharding.faults(kind.shape, reading.mesh_of(spec.sharding)), operation, f"{kind}: ")
    _check_replicated(importer, operation, read_spelled(body).replicated)
    return spec


def _check_replicated(importer: Importer, operation: Operation, axes: Sequence[str]) -> None:
    """Inside a manual computation each device has its own values along the manual axes; of the others they are replicated."""
    around = operation.parent_op() if axes else None
    while around is not None:
        manual = around.manual_axes if isinstance(around, ManualComputation) else ()
        if named := [axis for axis in axes if split_ref(axis)[0] in manual]:
            message = f"replicated={{...}} names {named}, but {list(manual)} are manual in the computation around it"
            importer.fault("MG0203", message, operation, "name other axes inside")
        around = around.parent_op()


def _read_argument(reading: Reading, attribute: Attribute, slot: Slot) -> None:
    if not isinstance(attribute, ShardingAttr):
        reading.faults.append(Diagnostic("MG0204", "sdy.sharding must be #sdy.sharding<...>", slot.loc))
        return
    try:
        spec = annotation(reading, attribute.data, slot.type)
    except ShardingError as error:
        side = "argument" if slot.side == "in" else "result"
        reading.faults += [
            Diagnostic(found.code, f"{side} {slot.index}: {found.message}", slot.loc, hint=found.hint)
            for found in error.diagnostics
        ]
        return
    reading.annotate(slot, Annotation(spec.sharding, True, spec.open_dims, slot.loc))


def _read_results(importer: Importer, operation: Operation, attribute: Attribute) -> None:
    """`sdy.sharding` on an operation annotates its results."""
    bodies = attribute.data if isinstance(attribute, ShardingPerValueAttr) else None
    if bodies is None or len(bodies) != len(operation.results):
        message = (
            f"{operation.name}: sdy.sharding must be #sdy.sharding_per_value<[...]> with one sharding for each result"
        )
        importer.fault("MG0204", message, operation)
        return
    for result, body in zip(operation.results, bodies, strict=True):
        spec = checked(importer, operation, body, importer.value(result).type)
        annotate_result(importer, operation, result, annotation_attrs(spec))


PART = Dialect(
    importers={
        "sdy.sharding_constraint": _import_constraint,
        "sdy.reshard": _import_constraint,
        **{each.name: _import_constraint for each in COLLECTIVES},
    },
    mesh_finders=(declare_in_place,),
    mesh_settlers=(declare_in_place,),
    module_ops={"sdy.mesh": read_mesh_op},
    slot_attrs={"sdy.sharding": _read_argument},
    result_attrs={_RESULTS: _read_results},
)
