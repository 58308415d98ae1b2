"""Annotations, options and plans of the `shard` dialect, to and from graphs.

Upstream's meaning of `shard.shard`: without `annotate_for_users` it is the sharding in which the value is
made, with it the one in which its users read it. In a program as a user writes it (no stage is declared) an
annotated argument or returned value is an annotated signature too; in a printed program the signature stands
in the arguments' and results' attributes (`mlir/shard/signature.py`).
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
from meshgen.ir.partial_kinds import kind_faults
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
    is_said,
    read_sharding,
    sharding_of,
    typed,
    wide_halo_faults,
)
from meshgen.mlir.shard.sharding_ops import GetShardingOp, ShardingOp
from meshgen.spec import Sharding


def import_sharding(importer: Importer, op: Operation) -> None:
    """The sharding is read where it is used; here its faults are collected."""
    assert isinstance(op, ShardingOp)
    mesh = find_mesh(importer, op.grid.string_value(), op)
    if mesh is None:
        return
    sharding, faults = read_sharding(op, mesh)
    faults += sharding.faults([None] * sharding.rank, mesh) if not faults else []
    importer.reading.refuse(faults, op)


def import_get_sharding(importer: Importer, op: Operation) -> None:
    """A handle without a runtime value; annotations with it need a known sharding."""
    assert isinstance(op, GetShardingOp)
    if op.result.first_use is not None and not is_said(importer, op.source):
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
    """A boolean attribute."""
    return bool(integer_of(op.attributes.get(name), default))


def open_dims(op: Operation) -> tuple[bool, ...]:
    """The `open_dims` of an annotation."""
    return tuple(map(bool, integers(op.attributes.get("open_dims"))))


def annotate(importer: Importer, op: Operation, source: SSAValue, sharding: Sharding, required: bool, as_result: bool,
             open_dims: tuple[bool, ...] = ()) -> None:  # fmt: skip
    """An annotation node for `op`; checks that the sharding fits, and completes the signature."""
    reading, kind = importer.reading, importer.type(source)
    if kind.rank == 0 and sharding.dims == ((),):  # upstream wants at least one list
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
        sharding = sharding.without_even_offsets(kind.shape, mesh)  # written beside uneven ones
    as_result = as_result and not _widens(importer, source, sharding)
    attrs = {"sharding": sharding, "required": required, "as_result": as_result, "open_dims": open_dims}
    node = importer.convert(op, "annotate", attrs, operands=[source])
    node.option = None
    _check_single(importer, op, source, node)
    _complete_signature(importer, op, source, Annotation(sharding, required, open_dims, loc), as_result)


def annotation_attrs(spec: Annotation, as_result: bool = True) -> dict[str, Any]:
    """The attributes of an annotation node."""
    said = {"sharding": spec.sharding, "required": spec.required}
    return said | {"as_result": as_result, "open_dims": spec.open_dims}


def annotate_result(importer: Importer, op: Operation, result: SSAValue, attrs: Mapping[str, Any]) -> None:
    """Put an annotation between a bound result and its uses."""
    value = importer.value(result)
    (annotated,) = importer.emit("annotate", [value], [value.type], attrs, op)
    annotated.name, value.name = value.name, ""
    importer.bind(result, annotated)


def _maker(importer: Importer, source: SSAValue) -> Node | None:
    """The annotation of which a value is the result."""
    value = importer.value(source)
    maker = next((node for node in reversed(importer.graph.nodes) if value in node.results), None)
    return maker if maker is not None and maker.op == "annotate" else None


def _widens(importer: Importer, source: SSAValue, sharding: Sharding) -> bool:
    """Whether an annotation adds halo rows to what another one has split in the same way: the value is made without them."""
    maker = _maker(importer, source)
    return maker is not None and bool(sharding.halo) and maker.attrs.sharding == replace(sharding, halo=())


def _check_single(importer: Importer, op: Operation, source: SSAValue, node: Node) -> None:
    """Check that a value has one annotation for its producer, and none after annotations for users.

    Upstream leaves other cases undefined. An annotation for users of a value annotated for users reshards, as its
    partition does. Printed programs may chain annotations: each reshards.
    """
    if not (node.attrs.as_result and _is_firm(node)):
        return
    value, maker = importer.value(source), _maker(importer, source)
    others = [each for each in importer.graph.nodes[:-1] if each.op == "annotate" and value is each.operands[0]]
    made = [each for each in (*others, maker) if each and each.attrs.as_result and _contradicts(each, node)]
    if made:
        message = f"the value is annotated for its producer with {node.attrs.sharding}, but also with {made[0].attrs.sharding}"
        hint = f"annotate one of them for its users (the other is at {made[0].loc})"
        importer.fault("MG0205", message, op, hint)
    elif maker and not maker.attrs.as_result and not is_declared(op) and _contradicts(maker, node):
        message = f"the value is annotated for its producer with {node.attrs.sharding}, but an annotation for users, {maker.attrs.sharding}, comes first"
        hint = f"annotate it for its producer first, then for its users (as at {maker.loc})"
        importer.fault("MG0205", message, op, hint)


def _is_firm(node: Node) -> bool:
    """Whether an annotation is required without open dims; open dims cannot contradict."""
    return node.attrs.required and not any(node.attrs.open_dims)


def _contradicts(other: Node, node: Node) -> bool:
    """Whether two annotations say different things of a value; on another mesh it crosses in between."""
    said: Sharding = other.attrs.sharding
    return _is_firm(other) and said != node.attrs.sharding and said.mesh == node.attrs.sharding.mesh


def _complete_signature(importer: Importer, op: Operation, source: SSAValue, spec: Annotation, as_result: bool) -> None:
    """In a user's program, an annotation of an argument or a returned value becomes one of the signature."""
    reading = importer.reading
    if is_declared(op) or importer.graph is not reading.module.graph:
        return
    if as_result and isinstance(source, BlockArgument) and isinstance(source.block.parent_op(), func.FuncOp):
        _set(reading.module.in_annotations, source.index, spec)
    for use in op.results[0].uses:
        if isinstance(use.operation, func.ReturnOp):
            _set(reading.module.out_annotations, use.index, spec)


def _set(table: list[Annotation | None], index: int, spec: Annotation) -> None:
    """Set an annotation, unless the argument's own attribute has set one."""
    if index < len(table) and table[index] is None:
        table[index] = spec


def is_declared(op: Operation) -> bool:
    """Whether the operation's module says which stage it is at, as printed ones do."""
    top: Operation | None = op
    while top is not None and not isinstance(top, builtin.ModuleOp):
        top = top.parent_op()
    return top is not None and "meshgen.stage" in top.attributes


def write_annotate(printer: TextPrinter, node: Node) -> str:
    """`shard.shard`, behind the line of its `shard.sharding`."""
    sharding = node.attrs.sharding
    handle = f"%{printer.new_name('sharding')}"  # numbers stay free for values that are called so
    definition = definition_text(sharding, node.result.type.shape, printer.mesh_of(sharding))
    said: dict[str, str] = {} if node.attrs.required else {"required": "false"}
    if dims := node.attrs.open_dims:
        said["open_dims"] = flags(dims)
    head = f"{printer.results(node)}shard.shard {printer.name(node.operands[0])} to {handle}"
    users = "" if node.attrs.as_result else " annotate_for_users"
    return f"{handle} = {definition}{printer.newline}{head}{users}{printer.attributes(node, said)} : {printer.type(node.result)}"


def read_option(importer: Importer, node: Node, attribute: Attribute) -> None:
    """`sharding = [[], [0], ["tp"]]` on an operation: axes per loop of its rule."""
    if not isinstance(attribute, ArrayAttr):
        return
    mesh, loops = importer.reading.module.mesh, lists_of(attribute)
    if len(importer.reading.distinct) > 1 and importer.reading.module.stage == "import":
        node.option = loops  # of which mesh the axes are is known when the op is placed
        return
    node.option = named(Sharding(loops), mesh).dims
    faults = Sharding(node.option).faults([None] * len(loops), mesh)
    importer.reading.faults += [replace(f, message=f"option of {node.op}: {f.message}", loc=node.loc) for f in faults]


def lists_of(attribute: Attribute | None) -> tuple[tuple[str, ...], ...]:
    """Lists of axes, `[[0], ["tp"], []]`, as text."""
    lists = attribute.data if isinstance(attribute, ArrayAttr) else ()
    return tuple(tuple(_axis(item) for item in axes) if isinstance(axes, ArrayAttr) else () for axes in lists)


def _axis(item: Attribute) -> str:
    return item.data if isinstance(item, StringAttr) else str(item.value.data) if isinstance(item, IntegerAttr) else "?"


def read_plan(importer: Importer, op: Operation, attribute: Attribute) -> None:
    """Read the decision of propagation for a node. Called when its results have their types' shardings."""
    if not isinstance(attribute, PlanAttr):
        return
    plan, mesh, node = attribute.data, importer.reading.module.mesh, _node_of(importer, op)
    operands = tuple(named(sharding, mesh) for sharding in plan.operands)
    results = tuple(named(sharding, mesh) for sharding in plan.results)
    if not operands and not results:
        operands, results = typed(node.operands), typed(node.results)
    if node.op in ("case", "if") and len(operands) < len(node.operands):  # its text names no operand but the first
        operands = (*operands[:1], *(_producer_sharding(importer, value) for value in node.operands[1:]))
    if (len(operands), len(results)) != (len(node.operands), len(node.results)):
        message = f"meshgen.plan has {len(operands)} operands and {len(results)} results, but {node.op} has {len(node.operands)} and {len(node.results)}"
        importer.fault("MG0104", message, op)
    node.sharding = NodeSharding(operands, results, named(Sharding(plan.option), mesh).dims, plan.why)


def _producer_sharding(importer: Importer, value: Value) -> Sharding:
    """The sharding of a value at its producer; captured values are replicated."""
    graph, inputs = importer.graph, importer.reading.module.in_shardings
    number = graph.inputs.index(value) if value in graph.inputs and importer.outer is None else len(inputs)
    if number < len(inputs):
        return inputs[number]
    for node in graph.nodes:
        if value in node.results and node.sharding is not None:
            return node.sharding.results[node.results.index(value)]
    return Sharding.replicated(value.type.rank)


def _node_of(importer: Importer, op: Operation) -> Node:
    """The last node; for an operation without results the value that its operand has become."""
    nodes = importer.graph.nodes
    if op.results or not op.operands:
        return nodes[-1]
    value = importer.value(op.operands[0])
    return next((node for node in nodes if value in node.results and node.op == "sharding_group"), nodes[-1])


def write_node(printer: TextPrinter, node: Node) -> Mapping[str, str]:
    """Write the user's option, and the decision of propagation."""
    found: dict[str, str] = {}
    if node.option is not None:
        names = () if printer.module.meshes else printer.mesh.names  # of several meshes it says not which one
        found["sharding"] = listed(listed(_option_axis(axis, names) for axis in axes) for axes in node.option)
    if (plan := node.sharding) is not None:
        values = (*node.operands, *node.results)
        is_typed = all(v.sharding is not None for v in values) and (*plan.operands, *plan.results) == typed(values)
        found["meshgen.plan"] = plan_text(plan, is_typed=is_typed)
    return found


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
