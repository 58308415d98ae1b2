"""Shardy's groups, barriers and named computations to and from nodes.

A member of a group is a node after the producer, so that all uses see the value with the group's sharding. A named
computation is part of the program around it; its shardings are required of its operands and results.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Operation, SSAValue

from meshgen.ir.graph import Node, Value
from meshgen.mlir.attributes import integer_of
from meshgen.mlir.conversion import Importer
from meshgen.mlir.dialect import Dialect
from meshgen.mlir.printer import TextPrinter
from meshgen.mlir.reading import Reading
from meshgen.mlir.sdy.attributes import DirectionAttr, ShardingAttr, ShardingPerValueAttr
from meshgen.mlir.sdy.meshes import meshes_of
from meshgen.mlir.sdy.operations import ManualComputation, NamedComputation
from meshgen.mlir.sdy.shardings import checked
from meshgen.mlir.shard.annotations import annotation_attrs


def _find_named(reading: Reading, top: Operation) -> None:
    """Note which meshes shardings name, where one of several says its devices: it matters which ones are in use."""
    if len(reading.meshes) < 2 or not reading.devices:
        return
    for operation in reading.originals(top):
        reading.named.update(mesh for mesh in meshes_of(operation) if isinstance(mesh, str))


def _check_groups(reading: Reading, top: Operation) -> None:
    """Collect a fault for each member of a group outside of the manual computation that has the first: their dims are not the same dims."""
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
    number = integer_of(operation.properties["group_id"])
    importer.put_behind(operation.operands[0], "sharding_group", {"group": number}, operation)


def _write_member(printer: TextPrinter, node: Node) -> str:
    """It has no result in text: its result is printed under the name of its operand."""
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
    """The sharding that Shardy's propagation found, as a required annotation."""
    value, sharding = importer.value(operation.operands[0]), operation.properties.get("sharding")
    if isinstance(sharding, ShardingAttr):
        value = _asked(importer, operation, value, sharding.data, as_result=True)
    importer.bind(operation.results[0], value)


def _import_named(importer: Importer, operation: Operation) -> None:
    assert isinstance(operation, NamedComputation)
    block = operation.regions[0].block
    taken = _annotated(importer, operation, operation.operands, operation.in_shardings, as_result=False)
    if not _types_fit(importer, operation, "argument", taken, block.args):
        return
    for argument, value in zip(block.args, taken, strict=True):
        importer.bind(argument, value)
    ends = importer.operations(block)
    made = _annotated(importer, operation, ends, operation.out_shardings, as_result=True)
    if _types_fit(importer, operation, "result", made, operation.results):
        importer.bind_results(operation, made)


def _types_fit(
    importer: Importer, operation: Operation, what: str, values: Sequence[Value], places: Sequence[SSAValue]
) -> bool:
    """Whether the values are as many, and of the types, as what stands for them; else a fault."""
    here, there = [str(value.type) for value in values], [str(importer.type(place)) for place in places]
    if here != there:
        message = f"sdy.named_computation: its {what}s have types ({', '.join(here)}), but those of the body ({', '.join(there)})"
        importer.fault("MG0104", message, operation)
    return here == there


def _annotated(importer: Importer, operation: Operation, operands: Sequence[SSAValue], said: ShardingPerValueAttr | None,
               as_result: bool) -> list[Value]:  # fmt: skip
    values = importer.values(operands)
    if said is None:
        return values
    bodies = said.data
    if len(bodies) != len(values):
        importer.fault("MG0104", f"there are {len(bodies)} shardings for {len(values)} values", operation)
        return values
    return [_asked(importer, operation, value, body, as_result) for value, body in zip(values, bodies, strict=True)]


def _asked(importer: Importer, operation: Operation, value: Value, body: str, as_result: bool) -> Value:
    """The value, annotated as a sharding says."""
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
