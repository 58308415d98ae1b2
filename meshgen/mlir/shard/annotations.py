"""Reader and printer of annotations, sharding options and plans of the `shard` dialect.

As in upstream MLIR, `shard.shard` without `annotate_for_users` is the sharding in which the producer computes the
value, and with `annotate_for_users` the one in which users read it. In a user's program, which declares no stage, the
annotation of an argument or returned value also annotates the function's signature. In a printed program, attributes of
arguments and results state the signature (`mlir/shard/signature.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from xdsl.dialects import builtin, func
from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, StringAttr
from xdsl.dialects.shard import ShardOp
from xdsl.ir import Attribute, BlockArgument, Operation, SSAValue

from meshgen.ir.graph import Annotation, Node, NodeSharding, Value
from meshgen.ir.reduction_kinds import kind_faults
from meshgen.mlir.attributes import integer_of, integers
from meshgen.mlir.conversion import Importer
from meshgen.mlir.dialect import Dialect
from meshgen.mlir.literals import flags, listed, quoted
from meshgen.mlir.old_names import OLD_PREFIX
from meshgen.mlir.printer import TextPrinter
from meshgen.mlir.shard.attributes import PlanAttr, named, plan_text
from meshgen.mlir.shard.grid import find_mesh
from meshgen.mlir.shard.sharding import (
    definition_text,
    fitted,
    read_sharding,
    sharding_of,
    states_sharding,
    typed,
    wide_halo_faults,
)
from meshgen.mlir.shard.sharding_ops import GetShardingOp, ShardingOp
from meshgen.spec import Sharding


def import_sharding(importer: Importer, op: Operation) -> None:
    """Report the faults of a `shard.sharding`. Operations that use the sharding read it themselves."""
    assert isinstance(op, ShardingOp)
    mesh = find_mesh(importer, op.grid.string_value(), op)
    if mesh is None:
        return
    sharding, faults = read_sharding(op, mesh)
    faults += sharding.faults([None] * sharding.rank, mesh) if not faults else []
    importer.reading.refuse(faults, op)


def import_get_sharding(importer: Importer, op: Operation) -> None:
    """Check a `shard.get_sharding`, which becomes no node. If its result is used, its tensor must be annotated."""
    assert isinstance(op, GetShardingOp)
    if op.result.first_use is not None and not states_sharding(importer, op.source):
        message = "shard.get_sharding: the tensor has no sharding before propagation"
        importer.fault("MG0104", message, op, "annotate it with shard.shard first")


def import_shard(importer: Importer, op: Operation) -> None:
    assert isinstance(op, ShardOp)
    for_users = op.annotate_for_users is not None
    sharding = sharding_of(importer, op.sharding)
    if sharding is None:
        importer.bind(op.result, importer.value(op.src))
        return
    annotate(importer, op, op.src, sharding, flag(op, "required", True), not for_users, open_dims(op))


def flag(op: Operation, name: str, default: bool) -> bool:
    """Return the boolean attribute `name` of an operation, or `default` if it is missing."""
    return bool(integer_of(op.attributes.get(name), default))


def open_dims(op: Operation) -> tuple[bool, ...]:
    """Return for each dim whether the annotation `op` leaves it open (its attribute `open_dims`)."""
    return tuple(map(bool, integers(op.attributes.get("open_dims"))))


def annotate(importer: Importer, op: Operation, source: SSAValue, sharding: Sharding, required: bool, as_result: bool,
             open_dims: tuple[bool, ...] = ()) -> None:  # fmt: skip
    """Emit an `annotate` node for `op` on `source`. Reports a fault if the sharding does not fit the value's type.

    If `source` is an argument of a user's program or the result is returned, the signature gets the annotation too.
    """
    reading, kind = importer.reading, importer.type(source)
    # Upstream requires at least one list of axes, so a scalar has one empty list.
    if kind.rank == 0 and sharding.dims == ((),):
        sharding = replace(sharding, dims=(), halo=(), offsets=())
    if sharding.rank > kind.rank:
        message = f"the sharding has {sharding.rank} lists of axes, but {kind} has rank {kind.rank}"
        importer.fault("MG0204", message, op, "give at most one list per tensor dim")
        importer.bind(op.results[0], importer.value(source))
        return
    sharding = fitted(sharding, kind.rank)
    loc = reading.source.locate(op)
    mesh = reading.mesh_of(sharding)
    faults = [*sharding.faults(kind.shape, mesh), *kind_faults(sharding, kind.dtype)]
    if not faults and not is_declared(op):
        faults = wide_halo_faults(sharding, kind.shape, mesh)
    reading.refuse(faults, op)
    if not reading.faults:
        # The text has offsets for all split dims if any dim is uneven. Drop the offsets of dims with tiles of equal
        # size.
        sharding = sharding.without_even_offsets(kind.shape, mesh)
    as_result = as_result and not _only_adds_halo(importer, source, sharding)
    attrs = {"sharding": sharding, "required": required, "as_result": as_result, "open_dims": open_dims}
    node = importer.convert(op, "annotate", attrs, operands=[source])
    node.option = None
    _check_single(importer, op, source, node)
    _complete_signature(importer, op, source, Annotation(sharding, required, open_dims, loc), as_result)


def annotation_attrs(spec: Annotation, as_result: bool = True) -> dict[str, Any]:
    """Return the attributes of the `annotate` node for the annotation `spec`."""
    attrs = {"sharding": spec.sharding, "required": spec.required}
    return attrs | {"as_result": as_result, "open_dims": spec.open_dims}


def annotate_result(importer: Importer, op: Operation, result: SSAValue, attrs: Mapping[str, Any]) -> None:
    """Insert an annotation between the result of an operation and its users."""
    value = importer.value(result)
    (annotated,) = importer.emit("annotate", [value], [value.type], attrs, op)
    annotated.name, value.name = value.name, ""
    importer.bind(result, annotated)


def _annotation_of(importer: Importer, source: SSAValue) -> Node | None:
    """Return the `annotate` node that computes `source`, or None if it is computed by another node."""
    value = importer.value(source)
    producer = next((node for node in reversed(importer.graph.nodes) if value in node.results), None)
    return producer if producer is not None and producer.op == "annotate" else None


def _only_adds_halo(importer: Importer, source: SSAValue, sharding: Sharding) -> bool:
    """Whether the annotation with `sharding` only adds a halo to the sharding of the annotation before it on `source`.

    It then applies to users: the producer computes the value without the halo.
    """
    previous = _annotation_of(importer, source)
    return previous is not None and bool(sharding.halo) and previous.attrs.sharding == replace(sharding, halo=())


def _check_single(importer: Importer, op: Operation, source: SSAValue, node: Node) -> None:
    """Report a fault if the annotation `node` for the producer of `source` contradicts an earlier annotation of the
    value.

    A value may have only one annotation for its producer, and in a user's program it must come before the annotations
    for users. Upstream leaves other cases undefined. An annotation for users that follows another one for users
    reshards, as in upstream's partitioning. In printed programs, each annotation in a chain reshards.
    """
    if not (node.attrs.as_result and _is_firm(node)):
        return
    value, previous = importer.value(source), _annotation_of(importer, source)
    siblings = [
        annotation
        for annotation in importer.graph.nodes[:-1]
        if annotation.op == "annotate" and value is annotation.operands[0]
    ]
    conflicting = [
        annotation
        for annotation in (*siblings, previous)
        if annotation and annotation.attrs.as_result and _contradicts(annotation, node)
    ]
    if conflicting:
        message = f"the value is annotated for its producer with {node.attrs.sharding}, but also with {conflicting[0].attrs.sharding}"
        hint = f"annotate one of them for its users (the other is at {conflicting[0].loc})"
        importer.fault("MG0205", message, op, hint)
    elif previous and not previous.attrs.as_result and not is_declared(op) and _contradicts(previous, node):
        message = f"the value is annotated for its producer with {node.attrs.sharding}, but an annotation for users, {previous.attrs.sharding}, comes first"
        hint = f"annotate it for its producer first, then for its users (as at {previous.loc})"
        importer.fault("MG0205", message, op, hint)


def _is_firm(node: Node) -> bool:
    """Whether an annotation is required and has no open dims. Only two such annotations can contradict each other."""
    return node.attrs.required and not any(node.attrs.open_dims)


def _contradicts(other: Node, node: Node) -> bool:
    """Whether two annotations require different shardings on the same mesh. Different meshes mean a transfer of the
    value.
    """
    sharding: Sharding = other.attrs.sharding
    return _is_firm(other) and sharding != node.attrs.sharding and sharding.mesh == node.attrs.sharding.mesh


def _complete_signature(importer: Importer, op: Operation, source: SSAValue, spec: Annotation, as_result: bool) -> None:
    """Copy the annotation of an argument or a returned value to the function's signature, in a user's program."""
    reading = importer.reading
    if is_declared(op) or importer.graph is not reading.module.graph:
        return
    if as_result and isinstance(source, BlockArgument) and isinstance(source.block.parent_op(), func.FuncOp):
        _set(reading.module.in_annotations, source.index, spec)
    for use in op.results[0].uses:
        if isinstance(use.operation, func.ReturnOp):
            _set(reading.module.out_annotations, use.index, spec)


def _set(table: list[Annotation | None], index: int, spec: Annotation) -> None:
    """Set entry `index` of `table`, the annotations of arguments or results, unless an attribute has already set it."""
    if index < len(table) and table[index] is None:
        table[index] = spec


def is_declared(op: Operation) -> bool:
    """Whether the module that contains `op` declares its stage, as printed programs do."""
    top: Operation | None = op
    while top is not None and not isinstance(top, builtin.ModuleOp):
        top = top.parent_op()
    return top is not None and "meshgen.stage" in top.attributes


def write_annotate(printer: TextPrinter, node: Node) -> str:
    """Return the text of an `annotate` node: a line that defines the `shard.sharding`, and the `shard.shard`."""
    sharding = node.attrs.sharding
    handle = f"%{printer.new_name('sharding')}"  # The name %sharding leaves the names %0, %1, ... to tensors.
    definition = definition_text(sharding, node.result.type.shape, printer.mesh_of(sharding))
    attributes: dict[str, str] = {} if node.attrs.required else {"required": "false"}
    if dims := node.attrs.open_dims:
        attributes["open_dims"] = flags(dims)
    head = f"{printer.results(node)}shard.shard {printer.name(node.operands[0])} to {handle}"
    users = "" if node.attrs.as_result else " annotate_for_users"
    return f"{handle} = {definition}{printer.newline}{head}{users}{printer.attributes(node, attributes)} : {printer.type(node.result)}"


def read_option(importer: Importer, node: Node, attribute: Attribute) -> None:
    """Read the attribute `sharding = [[], [0], ["tp"]]`, the user's option: the mesh axes of each loop of the sharding
    rule.
    """
    if not isinstance(attribute, ArrayAttr):
        return
    mesh, loops = importer.reading.module.mesh, lists_of(attribute)
    if len(importer.reading.distinct) > 1 and importer.reading.module.stage == "import":
        node.option = loops  # Mesh axes are resolved only when the op has been assigned to one of the meshes.
        return
    node.option = named(Sharding(loops), mesh).dims
    faults = Sharding(node.option).faults([None] * len(loops), mesh)
    importer.reading.faults += [replace(f, message=f"option of {node.op}: {f.message}", loc=node.loc) for f in faults]


def lists_of(attribute: Attribute | None) -> tuple[tuple[str, ...], ...]:
    """Return a list of lists of axes, such as `[[0], ["tp"], []]`, with axis numbers as text."""
    lists = attribute.data if isinstance(attribute, ArrayAttr) else ()
    return tuple(tuple(_axis(item) for item in axes) if isinstance(axes, ArrayAttr) else () for axes in lists)


def _axis(item: Attribute) -> str:
    return item.data if isinstance(item, StringAttr) else str(item.value.data) if isinstance(item, IntegerAttr) else "?"


def read_plan(importer: Importer, op: Operation, attribute: Attribute) -> None:
    """Read `meshgen.plan`, the shardings that propagation chose for a node. The result types must already have theirs."""
    if not isinstance(attribute, PlanAttr):
        return
    plan, mesh, node = attribute.data, importer.reading.module.mesh, _node_of(importer, op)
    operands = tuple(named(sharding, mesh) for sharding in plan.operands)
    results = tuple(named(sharding, mesh) for sharding in plan.results)
    if not operands and not results:
        operands, results = typed(node.operands), typed(node.results)
    # In the text, a branch has only its first operand; the other operands are the values that its regions capture.
    if node.op in ("case", "if") and len(operands) < len(node.operands):
        operands = (*operands[:1], *(_producer_sharding(importer, value) for value in node.operands[1:]))
    if (len(operands), len(results)) != (len(node.operands), len(node.results)):
        message = f"meshgen.plan has {len(operands)} operands and {len(results)} results, but {node.op} has {len(node.operands)} and {len(node.results)}"
        importer.fault("MG0104", message, op)
    node.sharding = NodeSharding(operands, results, named(Sharding(plan.option), mesh).dims, plan.why)


def _producer_sharding(importer: Importer, value: Value) -> Sharding:
    """Return the sharding in which `value` is computed. A value from outside of the region is replicated."""
    graph, inputs = importer.graph, importer.reading.module.in_shardings
    index = graph.inputs.index(value) if value in graph.inputs and importer.outer is None else len(inputs)
    if index < len(inputs):
        return inputs[index]
    for node in graph.nodes:
        if value in node.results and node.sharding is not None:
            return node.sharding.results[node.results.index(value)]
    return Sharding.replicated(value.type.rank)


def _node_of(importer: Importer, op: Operation) -> Node:
    """Return the node into which `op` was converted.

    This is the last node, or for a sharding group member, which has no result, the `sharding_group` node of its
    operand.
    """
    nodes = importer.graph.nodes
    if op.results or not op.operands:
        return nodes[-1]
    value = importer.value(op.operands[0])
    return next((node for node in nodes if value in node.results and node.op == "sharding_group"), nodes[-1])


def write_node(printer: TextPrinter, node: Node) -> Mapping[str, str]:
    """Return the attributes of a node with the user's option and with the plan of propagation."""
    attributes: dict[str, str] = {}
    if node.option is not None:
        # In a program on several meshes, the axes are printed by name: an axis number would not say of which mesh.
        names = () if printer.module.meshes else printer.mesh.names
        attributes["sharding"] = listed(listed(_option_axis(axis, names) for axis in axes) for axes in node.option)
    if (plan := node.sharding) is not None:
        values = (*node.operands, *node.results)
        is_typed = all(v.sharding is not None for v in values) and (*plan.operands, *plan.results) == typed(values)
        attributes["meshgen.plan"] = plan_text(plan, is_typed=is_typed)
    return attributes


def _option_axis(axis: str, names: Sequence[str]) -> str:
    return f"{names.index(axis)} : i64" if axis in names else quoted(axis)


PART = Dialect(
    importers={
        "shard.sharding": import_sharding,
        "shard.get_sharding": import_get_sharding,
        "shard.shard": import_shard,
    },
    writers={"annotate": write_annotate},
    node_attrs={"sharding": read_option},
    result_attrs={"meshgen.plan": read_plan, f"{OLD_PREFIX}.plan": read_plan},
    node_attr_writers=(write_node,),
)
