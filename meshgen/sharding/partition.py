"""Partition a program: turn global tensors with shardings into the program that every device runs on its own tiles.

Before:  %h = dot_general %x, %w : f32[8,10]{x} , f32[10,4]{x} -> f32[8,4] partial sum(x)      on x=4
After:   %a = mask_padding %x, %b = mask_padding %w, %h = dot_general %a, %b : f32[8,3], f32[3,4] -> f32[8,4]

Buffers have the size of the tiles. Rows of a buffer beyond the device's range are padding with arbitrary content. No
partitioner lets padding affect a result: an op that combines rows first fills the padding with a neutral element. A
node with shardings that its rule does not allow is rejected with a located error message.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from meshgen.errors import Diagnostic, ProgramError, ShardingError
from meshgen.ir.graph import Graph, Module, Node, TensorType, Value
from meshgen.ir.node_keys import Form, form_of
from meshgen.ir.predicates import is_control, is_manual, is_optimization_barrier
from meshgen.ir.reduction_kinds import kind_faults
from meshgen.mesh import Mesh
from meshgen.ops.dead_code import live_nodes
from meshgen.ops.registry import has_rule, rule_of
from meshgen.sharding.partitioners import PARTITIONERS, LocalBuilder, Site, local_type, sharding_of
from meshgen.sharding.partitioners.legality import find_barrier_fault, find_control_fault, find_fault
from meshgen.sharding.partitioners.local_moves import cut
from meshgen.sharding.unknown_axes import for_all_sizes
from meshgen.spec import Sharding

_ShardedForm = tuple[Form, tuple[Sharding | None, ...]]  # a node's form, and the shardings of its operands and results


@for_all_sizes
def partition(module: Module, arguments: str = "local") -> Module:
    """Return the program of one device, which is the same for all devices: types are local, and positions come from
    process indices.

    Args:
        module: at stage `materialize` or `optimize`: global types, with `Value.sharding` on the values.
        arguments: "local" if a device gets its tiles. "global" if it gets the full arguments, of which
            it slices its tiles (the RFC's second mode).
    Raises:
        ShardingError: MG0206 for unsupported shardings of an op or collective, and for unknown sizes;
            all faults at once. MG0201 if the size of a mesh axis is unknown.
        ProgramError: MG0103 for a sharded op that has no partitioner.
    """
    assert arguments in ("local", "global"), arguments
    _check(module)
    graph, mesh = module.graph, module.mesh
    local = Graph(graph.name)
    builder = LocalBuilder(local, mesh=mesh)
    local_values: dict[Value, Value] = {}
    for value in graph.inputs:
        argument_type = value.type if arguments == "global" else local_type(value, mesh)
        local.inputs.append(Value(argument_type, value.name, loc=value.loc, id=value.id))
    for value, argument in zip(graph.inputs, local.inputs, strict=True):
        builder.loc = value.loc
        is_global = arguments == "global"
        local_values[value] = cut(builder, argument, sharding_of(value), value.type.sizes) if is_global else argument
        local_values[value].inherit_annotations(value)
    _write_local_nodes(graph, builder, local_values)
    local.outputs = [local_values[value] for value in graph.outputs]
    local.nodes = live_nodes(local)
    return replace(
        module,
        graph=local,
        stage="partition",
        in_types=[value.type for value in graph.inputs],
        out_types=[value.type for value in graph.outputs],
        in_shardings=[sharding_of(value) for value in graph.inputs],
        out_shardings=[sharding_of(value) for value in graph.outputs],
        arguments=arguments,
    )


def _write_local_nodes(graph: Graph, builder: LocalBuilder, local_values: dict[Value, Value]) -> None:
    """Append the local form of the nodes of `graph`; `local_values` maps global values to local ones."""
    for node in graph.nodes:
        builder.loc = node.loc
        bodies = () if is_manual(node) else tuple(local_body(body, builder.mesh, local_values) for body in node.regions)
        site = Site(
            replace(node, regions=bodies or node.regions), [local_values[value] for value in node.operands], builder
        )
        results = PARTITIONERS[node.op](site) if node.op in PARTITIONERS else site.clone()
        builder.sources.update((value, (node, site.operands)) for value in node.results)
        for value, local in zip(node.results, results, strict=True):
            local_values[value] = local
            if not local.name:
                local.name, local.id = value.name, value.id
            local.inherit_annotations(value)
            expected = local_type(value, builder.mesh)
            assert local.type == expected, f"{node.op} made {local.type} but its sharding gives {expected}"


def local_body(body: Graph, mesh: Mesh, outer: dict[Value, Value]) -> Graph:
    """Return the local form of a region's body. The body may use values of the enclosing program, which `outer`
    maps.
    """
    inputs = [Value(local_type(v, mesh), v.name, None, v.loc, v.granted, v.is_bound, v.id) for v in body.inputs]
    local = Graph(body.name, inputs)
    local_values = {**outer, **dict(zip(body.inputs, inputs, strict=True))}
    _write_local_nodes(body, LocalBuilder(local, mesh=mesh), local_values)
    local.outputs = [local_values[value] for value in body.outputs]
    return local


def _check(module: Module) -> None:
    """Raise ProgramError or ShardingError with all faults that prevent partitioning the module, if there are any."""
    _ = module.mesh.sizes  # raises if a size is unknown
    faults = [d for value in module.graph.inputs for d in _value_faults(value, module.mesh)]
    faults += graph_faults(module.graph, module.mesh)
    if faults:
        kind = ProgramError if any(d.code == "MG0103" for d in faults) else ShardingError
        raise kind(*faults)


def graph_faults(graph: Graph, mesh: Mesh, sound: set[_ShardedForm] | None = None) -> list[Diagnostic]:
    """Return the faults of a graph, with global types and shardings, that prevent partitioning.

    `sound` collects the forms of the nodes without faults, with their shardings, so that repeated layers are checked
    once.
    """
    sound = set() if sound is None else sound
    all_faults: list[Diagnostic] = []
    broken: set[Value] = set()
    for value in graph.inputs:
        if _value_faults(value, mesh):
            broken.add(value)
    for node in graph.nodes:
        bodies = () if is_manual(node) else node.regions  # bodies of manual computations are local already
        all_faults += [d for body in bodies for d in graph_faults(body, mesh, sound)]
        value_faults = [d for value in node.results for d in _value_faults(value, mesh)]
        all_faults += value_faults
        if value_faults:
            broken.update(node.results)
        elif not broken.intersection(node.operands):
            form = _sharded_form(node)
            if form is None or form not in sound:
                node_faults = _node_faults(node, mesh)
                all_faults += node_faults
                sound |= {form} if form and not node_faults else set()
    return all_faults


def _sharded_form(node: Node) -> _ShardedForm | None:
    form = form_of(node)
    return (form, tuple(value.sharding for value in (*node.operands, *node.results))) if form else None


def _value_faults(value: Value, mesh: Mesh) -> list[Diagnostic]:
    is_open = None in value.type.shape
    faults = () if is_open else _sharding_faults(value.type, sharding_of(value), mesh)
    if not is_open and not faults:
        return []
    name = f"%{value.name} ({value.type})" if value.name else str(value.type)
    if is_open:
        return [Diagnostic("MG0206", f"{name} has sizes that are unknown until load", value.loc)]
    return [Diagnostic(d.code, f"{name}: {d.message}", value.loc, d.notes, d.hint) for d in faults]


@lru_cache(1 << 12)
def _sharding_faults(tensor_type: TensorType, sharding: Sharding, mesh: Mesh) -> tuple[Diagnostic, ...]:
    """Return the faults of a sharding for values of a type; cached, since a model has few distinct types."""
    return (*sharding.faults(tensor_type.shape, mesh), *kind_faults(sharding, tensor_type.dtype))


def _node_faults(node: Node, mesh: Mesh) -> list[Diagnostic]:
    if has_rule(node.op) and node.op in PARTITIONERS:
        fault = find_fault(node, rule_of(node), mesh)
        return [Diagnostic("MG0206", f"'{node.op}': {fault}", node.loc)] if fault else []
    if is_control(node) or is_optimization_barrier(node):
        fault = find_control_fault(node, mesh) if is_control(node) else find_barrier_fault(node, mesh)
        return [Diagnostic("MG0206", f"'{node.op}': {fault}", node.loc)] if fault else []
    if node.op in PARTITIONERS or all(_is_replicated(v, mesh) for v in (*node.operands, *node.results)):
        return []
    return [Diagnostic("MG0103", f"'{node.op}' cannot be partitioned", node.loc, (), "replicate its operands")]


def _is_replicated(value: Value, mesh: Mesh) -> bool:
    return sharding_of(value).canonical(mesh).is_replicated
