"""Convert Shardy's sharding groups, barriers, data-flow edges and named computations to and from nodes.

A member of a sharding group becomes a node right after the producer of its value, so that all users of the value see
the group's sharding. A named computation is inlined. Its shardings become required annotations on the values that enter
and leave it.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Operation, SSAValue

from meshgen.ir.graph import Node, Value
from meshgen.mlir.attributes import integer_of
from meshgen.mlir.conversion import Importer
from meshgen.mlir.dialect import Dialect
from meshgen.mlir.printer import TextPrinter
from meshgen.mlir.reader_state import Reading
from meshgen.mlir.sdy.attributes import DirectionAttr, ShardingAttr, ShardingPerValueAttr
from meshgen.mlir.sdy.meshes import meshes_of
from meshgen.mlir.sdy.operations import ManualComputation, NamedComputation
from meshgen.mlir.sdy.shardings import checked
from meshgen.mlir.shard.annotations import annotation_attrs


def _find_named(reading: Reading, top: Operation) -> None:
    """Record the meshes that shardings name.

    Only needed if the program declares several meshes and one of them lists device ids.
    """
    if len(reading.meshes) < 2 or not reading.devices:
        return
    for operation in reading.originals(top):
        reading.named.update(mesh for mesh in meshes_of(operation) if isinstance(mesh, str))


def _check_groups(reading: Reading, top: Operation) -> None:
    """Report a fault for each sharding group whose members are in different manual computations, or inside and outside
    of one.

    A local tensor inside and a global tensor outside cannot have the same sharding.
    """
    first: dict[int, Operation | None] = {}
    for operation in reading.originals(top):
        if operation.name != "sdy.sharding_group":
            continue
        group, around = integer_of(operation.properties["group_id"]), _manual_around(operation)
        if first.setdefault(group, around) is not around:
            message = f"sharding group {group} has members inside and outside of a manual computation"
            hint = "use another group_id in each manual computation, and one for the program around it"
            reading.fault("MG0204", message, operation, hint)


def _manual_around(operation: Operation) -> Operation | None:
    around = operation.parent_op()
    while around is not None and not isinstance(around, ManualComputation):
        around = around.parent_op()
    return around


def _import_member(importer: Importer, operation: Operation) -> None:
    group_id = integer_of(operation.properties["group_id"])
    importer.insert_after_producer(operation.operands[0], "sharding_group", {"group": group_id}, operation)


def _write_member(printer: TextPrinter, node: Node) -> str:
    """Return the text of a sharding group member. The operation has no result, so users print the name of its operand."""
    (value,) = node.operands
    name = printer.name(value)
    printer.share_name(node.result, name)
    return f"sdy.sharding_group {name} group_id={node.attrs.group}{printer.attributes(node)} : {printer.type(value)}"


def _import_barrier(importer: Importer, operation: Operation) -> None:
    direction = operation.properties["allowed_direction"]
    assert isinstance(direction, DirectionAttr)
    importer.convert(operation, "propagation_barrier", {"direction": direction.data})


def _write_barrier(printer: TextPrinter, node: Node) -> str:
    (value,) = node.operands
    head = (
        f"{printer.results(node)}sdy.propagation_barrier {printer.name(value)} allowed_direction={node.attrs.direction}"
    )
    return f"{head}{printer.attributes(node)} : {printer.type(value)}"


def _import_edge(importer: Importer, operation: Operation) -> None:
    """Import a data-flow edge: the sharding that Shardy's propagation chose becomes a required annotation."""
    value, sharding = importer.value(operation.operands[0]), operation.properties.get("sharding")
    if isinstance(sharding, ShardingAttr):
        value = _annotate(importer, operation, value, sharding.data, as_result=True)
    importer.bind(operation.results[0], value)


def _import_named(importer: Importer, operation: Operation) -> None:
    assert isinstance(operation, NamedComputation)
    block = operation.regions[0].block
    arguments = _annotated(importer, operation, operation.operands, operation.in_shardings, as_result=False)
    if not _types_fit(importer, operation, "argument", arguments, block.args):
        return
    for argument, value in zip(block.args, arguments, strict=True):
        importer.bind(argument, value)
    outputs = importer.operations(block)
    results = _annotated(importer, operation, outputs, operation.out_shardings, as_result=True)
    if _types_fit(importer, operation, "result", results, operation.results):
        importer.bind_results(operation, results)


def _types_fit(
    importer: Importer, operation: Operation, role: str, values: Sequence[Value], targets: Sequence[SSAValue]
) -> bool:
    """Whether `values` have the types of `targets`, the arguments or results (`role`). Reports a fault if not."""
    types, target_types = [str(value.type) for value in values], [str(importer.type(target)) for target in targets]
    if types != target_types:
        outer, inner = (types, target_types) if role == "argument" else (target_types, types)
        message = f"sdy.named_computation: its {role}s have types ({', '.join(outer)}), but those of the body ({', '.join(inner)})"
        importer.fault("MG0104", message, operation)
    return types == target_types


def _annotated(importer: Importer, operation: Operation, operands: Sequence[SSAValue], shardings: ShardingPerValueAttr | None,
               as_result: bool) -> list[Value]:  # fmt: skip
    values = importer.values(operands)
    if shardings is None:
        return values
    bodies = shardings.data
    if len(bodies) != len(values):
        importer.fault("MG0104", f"there are {len(bodies)} shardings for {len(values)} values", operation)
        return values
    return [_annotate(importer, operation, value, body, as_result) for value, body in zip(values, bodies, strict=True)]


def _annotate(importer: Importer, operation: Operation, value: Value, body: str, as_result: bool) -> Value:
    """Return `value` annotated with the sharding text `body`."""
    spec = checked(importer, operation, body, value.type)
    (annotated,) = importer.emit("annotate", [value], [value.type], annotation_attrs(spec, as_result), operation)
    annotated.name = value.name
    return annotated


PART = Dialect(
    importers={
        "sdy.sharding_group": _import_member,
        "sdy.propagation_barrier": _import_barrier,
        "sdy.data_flow_edge": _import_edge,
        "sdy.func_data_flow_edge": _import_edge,
        "sdy.named_computation": _import_named,
    },
    writers={"sharding_group": _write_member, "propagation_barrier": _write_barrier},
    mesh_settlers=(_find_named, _check_groups),
)
