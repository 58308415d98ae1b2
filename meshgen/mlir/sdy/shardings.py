"""Reader of Shardy's shardings, on arguments and results, in sharding constraints and in collectives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from xdsl.ir import Attribute, Operation, SSAValue

from meshgen.errors import Diagnostic, ShardingError
from meshgen.ir.graph import TOKEN, Annotation, TensorType
from meshgen.mesh import Mesh, split_ref
from meshgen.mlir.conversion import Importer
from meshgen.mlir.dialect import Dialect
from meshgen.mlir.reader_state import Reading, Slot
from meshgen.mlir.sdy.attributes import ShardingAttr, ShardingPerValueAttr
from meshgen.mlir.sdy.collective_checks import Axes, changed_kind_fault, check_collective, sub_axis_fault
from meshgen.mlir.sdy.meshes import declare_in_place, read_mesh_op, symbol_of
from meshgen.mlir.sdy.operations import COLLECTIVES, ManualComputation
from meshgen.mlir.sdy.spelling import Spelled, read_spelled
from meshgen.mlir.shard.annotations import annotate_result, annotation_attrs
from meshgen.spec import Sharding

_RESULTS = "sdy.sharding"  # attribute of an operation with the shardings of its results


def annotation(reading: Reading, body: str, kind: TensorType) -> Annotation:
    """Return the annotation for a value of type `kind` with the sharding text `body`.

    The axes in `replicated` must not split the value. Meshgen has no such constraint per axis, so if there are any, all
    dims are closed. This forbids more than Shardy does, but never allows a forbidden split. Priorities are ignored:
    they order hints, and these annotations are required.

    Raises:
        ShardingError: the sharding is malformed or its mesh is not declared.
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
    """Raise ShardingError if a sub-axis is invalid, or if an axis in `replicated` also splits a dim or is unreduced."""
    dims, partial = spelled.dims, tuple((axis, "sum") for axis in spelled.unreduced)
    for ref in (*(axis for axes in dims for axis in axes), *spelled.unreduced, *spelled.replicated):
        if message := sub_axis_fault(ref, mesh):
            raise ShardingError(Diagnostic("MG0201", message, hint="write the entire axis, or leave it out"))
    if spelled.replicated and not Sharding(dims, partial).faults((None,) * len(dims), mesh):
        faults = Sharding((*dims, spelled.replicated), partial).faults((None,) * (len(dims) + 1), mesh)
        # Check the replicated axes as if they split one more dim: they must not overlap axes that are in use.
        if faults:
            raise ShardingError(*(replace(fault, message=f"replicated={{...}}: {fault.message}") for fault in faults))


def _unsharded_annotation(reading: Reading, symbol: str, spelled: Spelled, kind: TensorType) -> Annotation:
    """Return the annotation for a value whose sharding is over a mesh without axes. The text may omit its dims.

    Such a mesh may be a single device (Shardy's maximal sharding). The value is then replicated on all devices: XLA's
    partitioner, too, copies it to every device that uses it.
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
    """Import a constraint or collective as an `annotate` node, so that later users see the operand with the new
    sharding.
    """
    body = _stated_sharding(operation)
    assert body is not None
    source = operation.operands[0]
    kind = importer.type(source)
    faults_before, reduced_axes = len(importer.reading.faults), Axes()
    spec = checked(importer, operation, body, kind)
    attrs = annotation_attrs(spec, as_result=not _has_other_producer_sharding(operation, source, body))
    if (
        message := changed_kind_fault(source, read_spelled(body))
        if len(importer.reading.faults) == faults_before
        else ""
    ):
        importer.fault("MG0204", f"{operation.name}: {message}", operation, "name the kind, such as unreduced=max{...}")
    if "out_sharding" in operation.properties and len(importer.reading.faults) == faults_before:
        reduced_axes = check_collective(importer, operation, read_spelled(body))
    node = importer.convert(operation, "annotate", attrs, operands=[source])
    node.notes = replace(node.notes, reduces=reduced_axes)


def _has_other_producer_sharding(operation: Operation, source: SSAValue, body: str) -> bool:
    """Whether an earlier annotation already states another sharding for the producer of `source`.

    The annotation of `operation`, whose sharding text is `body`, then applies to users only.
    """
    owner = source.owner
    if isinstance(owner, Operation) and (stated := _stated_sharding(owner)) is not None:
        return stated != body
    if isinstance(owner, Operation) and _RESULTS in owner.attributes:
        return True
    other_users = (use.operation for use in source.uses if use.operation is not operation)
    differing = (user for user in other_users if _stated_sharding(user) not in (None, body))
    return any(user.parent is operation.parent and user.is_before_in_block(operation) for user in differing)


def _stated_sharding(operation: Operation) -> str | None:
    """Return the text of the sharding that a constraint or collective has, or None for other operations."""
    sharding = operation.properties.get("sharding") or operation.properties.get("out_sharding")
    return sharding.data if isinstance(sharding, ShardingAttr) else None


def checked(importer: Importer, operation: Operation, body: str, kind: TensorType) -> Annotation:
    """Return the annotation for the sharding text `body`, and report its faults at `operation`.

    Returns a replicated annotation if the text is invalid.
    """
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
    """Report each axis in `replicated` that an enclosing manual computation makes manual: there, values differ along
    it.
    """
    parent = operation.parent_op() if axes else None
    while parent is not None:
        manual = parent.manual_axes if isinstance(parent, ManualComputation) else ()
        if conflicting := [axis for axis in axes if split_ref(axis)[0] in manual]:
            message = (
                f"replicated={{...}} names {conflicting}, but {list(manual)} are manual in the computation around it"
            )
            importer.fault("MG0203", message, operation, "name other axes inside")
        parent = parent.parent_op()


def _read_argument(reading: Reading, attribute: Attribute, slot: Slot) -> None:
    if not isinstance(attribute, ShardingAttr):
        reading.faults.append(Diagnostic("MG0204", "sdy.sharding must be #sdy.sharding<...>", slot.loc))
        return
    try:
        spec = annotation(reading, attribute.data, slot.type)
    except ShardingError as error:
        side = "argument" if slot.side == "in" else "result"
        reading.faults += [
            Diagnostic(fault.code, f"{side} {slot.index}: {fault.message}", slot.loc, hint=fault.hint)
            for fault in error.diagnostics
        ]
        return
    reading.annotate(slot, Annotation(spec.sharding, True, spec.open_dims, slot.loc))


def _read_results(importer: Importer, operation: Operation, attribute: Attribute) -> None:
    """Annotate the results of an operation with the shardings in its attribute `sdy.sharding`."""
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
        **{operation.name: _import_constraint for operation in COLLECTIVES},
    },
    mesh_finders=(declare_in_place,),
    mesh_settlers=(declare_in_place,),
    module_ops={"sdy.mesh": read_mesh_op},
    slot_attrs={"sdy.sharding": _read_argument},
    result_attrs={_RESULTS: _read_results},
)
