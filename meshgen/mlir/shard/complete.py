"""Complete a program after reading: infer its stage, and set the shardings of nodes that only the types state.

A program with collectives that lacks the attribute `meshgen.stage` is past propagation. If its types have encodings,
its stage is `materialize`, and types without an encoding are replicated. If none has an encoding, the stage is
`partition`. The program then states no shardings of its signature, so it is read as if arguments and results were the
local tensors stacked along dim 0, which is valid for any program.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from meshgen.errors import Diagnostic, ProgramError
from meshgen.ir.flatten_manual import settle_manual
from meshgen.ir.graph import Annotation, Graph, Module, Node, NodeSharding, TensorType, Value
from meshgen.ir.multi_mesh import mesh_of_option, without_meshes
from meshgen.ir.op_names import BETWEEN_MESHES
from meshgen.ir.regions import all_nodes, all_values, flow_regions
from meshgen.mlir.arith.builder import drop_lazy
from meshgen.mlir.shard.groups_of_one import is_alone, without_groups_of_one
from meshgen.mlir.shard.sharding import typed
from meshgen.mlir.shard.signature import TYPED_STAGES, check_signature
from meshgen.mlir.shard.transfers import transfer_faults
from meshgen.ops.uniformity import Varying
from meshgen.spec import Sharding

MOVES = ("permute", "retile", "update_halo", *BETWEEN_MESHES)


def complete(module: Module, is_global: bool = False) -> Module:
    """Complete a module that was read. Infer the stage of a program that does not declare it.

    If `is_global`, the program is on global tensors, even if it has collectives whose groups have one device each.

    Raises:
        ProgramError: the program has both annotations and explicit collectives.
    """
    module.graph = graph = settle_manual(module.graph, module.mesh, *module.meshes)
    drop_lazy(graph)
    if module.stage in TYPED_STAGES:
        module.in_shardings = module.in_shardings or list(typed(graph.inputs))
        module.out_shardings = module.out_shardings or list(typed(graph.outputs))
    check_signature(module)
    if module.stage != "import" or not module.mesh.axes:
        return module
    _keep_used_meshes(module)
    nodes = list(_program_nodes(module.graph))
    moves = [node for node in nodes if _depends_on_device(node)]
    has_annotations = any(node.op == "annotate" for node in nodes)
    has_encodings = any(value.sharding is not None for node in nodes for value in node.results)
    has_signature_annotations = any(spec is not None for spec in (*module.in_annotations, *module.out_annotations))
    is_global = is_global or has_annotations or has_signature_annotations
    if moves and is_global and not has_encodings and all(is_alone(node, module.mesh) for node in moves):
        module.graph, moves = without_groups_of_one(module.graph, module.mesh), []
    if moves and (has_annotations or (has_signature_annotations and not has_encodings)):
        message = f"{moves[0].op}: a program cannot have both annotations and explicit collectives"
        hint = "remove the collectives, or write all of them"
        raise ProgramError(Diagnostic("MG0104", message, moves[0].loc, hint=hint))
    if moves and not has_encodings:
        complete_local(module)
    elif moves or has_encodings:
        _complete_global(module)
    else:
        _annotate_from_types(module)
    return module


def _keep_used_meshes(module: Module) -> None:
    """Drop the declared meshes that no sharding and no option uses.

    If only one mesh is left, the program becomes a program on a single mesh.
    """
    names = {sharding.mesh for sharding in _shardings(module)}
    names |= {mesh_of_option(node, module.meshes) for node in all_nodes(module.graph)}
    used = tuple(mesh for mesh in module.meshes if mesh.name in names)
    if len(used) > 1:
        module.mesh, module.meshes = used[0], used
        return
    if not module.meshes:
        return
    module.mesh, module.meshes = used[0] if used else module.mesh, ()
    module.graph = without_meshes(module.graph, module.mesh)
    for value in all_values(module.graph):
        value.sharding = value.sharding and replace(value.sharding, mesh="")
    for table in (module.in_annotations, module.out_annotations):
        table[:] = [spec and replace(spec, sharding=replace(spec.sharding, mesh="")) for spec in table]


def _shardings(module: Module) -> Iterator[Sharding]:
    """Yield the shardings in the annotations, values and node attributes of a program."""
    yield from (spec.sharding for spec in (*module.in_annotations, *module.out_annotations) if spec)
    yield from (value.sharding for value in all_values(module.graph) if value.sharding)
    yield from _attribute_shardings(module.graph)


def _attribute_shardings(graph: Graph) -> Iterator[Sharding]:
    for node in all_nodes(graph):
        for entry in node.attrs.given.values():
            items: Sequence[object] = entry if isinstance(entry, tuple) else (entry,)
            yield from (item for item in items if isinstance(item, Sharding))


def _program_nodes(graph: Graph) -> Iterator[Node]:
    """Yield all nodes of a program except those inside manual computations, which may contain collectives at stage
    `import`.
    """
    for node in graph.nodes:
        yield node
        for region in node.regions if node.op != "manual" else ():
            yield from _program_nodes(region)


def _depends_on_device(node: Node) -> bool:
    """Whether the result of a node depends on the device that runs it, as for collectives.

    False for a manual computation, which counts as one operation on global tensors.
    """
    return node.op != "manual" and ("axes" in node.attrs.given or node.op in MOVES)


def _complete_global(module: Module) -> None:
    """Set stage `materialize` for a program with encodings. Types without an encoding are replicated."""
    graph = module.graph
    _set_shardings_from_types(graph)
    module.stage = "materialize"
    module.in_shardings, module.out_shardings = list(typed(graph.inputs)), list(typed(graph.outputs))


def _set_shardings_from_types(graph: Graph) -> None:
    """Set the shardings of nodes to those in the types of their values, also in regions of loops and branches.

    The regions of other operations compute on scalars and have no shardings.
    """
    for value in graph.values():
        (value.sharding,) = typed([value])
    for node in graph.nodes:
        node.sharding = _sharding_from_types(node)
        for region in flow_regions(node):
            _set_shardings_from_types(region)


def _sharding_from_types(node: Node) -> NodeSharding | None:
    """Return the shardings in the types of a node's operands and results, or None for a collective."""
    if _depends_on_device(node):
        return None
    return NodeSharding(typed(node.operands), typed(node.results), node.option or ())


def _annotate_from_types(module: Module) -> None:
    """At stage `import`, turn the encodings in the types of arguments and results into user annotations."""
    graph = module.graph
    for table, values in ((module.in_annotations, graph.inputs), (module.out_annotations, graph.outputs)):
        for index, value in enumerate(values):
            if value.sharding is not None and index < len(table) and table[index] is None:
                table[index] = Annotation(value.sharding, loc=value.loc)
    for value in graph.inputs:
        value.sharding = None


def complete_local(module: Module) -> None:
    """Set stage `partition` for a program without a signature: global tensors are the local tensors stacked along dim
    0.
    """
    if faults := transfer_faults(module):
        raise ProgramError(*faults)
    module.stage, module.arguments = "partition", "local"
    module.in_annotations, module.out_annotations = [], []
    _append_stacked(module, module.graph.inputs, module.in_types, module.in_shardings)
    _reshape_varying_scalars(module)
    _append_stacked(module, module.graph.outputs, module.out_types, module.out_shardings)


def _append_stacked(
    module: Module, values: Sequence[Value], types: list[TensorType], shardings: list[Sharding]
) -> None:
    """Append to `types` and `shardings` the global tensors that consist of the local `values` stacked along dim 0.

    Scalars stay scalars and are replicated.
    """
    mesh = module.mesh
    count = mesh.size if mesh.is_static else None
    for value in values:
        first, *other_sizes = value.type.shape if value.type.rank else (0,)
        is_stacked = value.type.rank > 0
        rows = None if first is None or count is None else first * count
        types.append(value.type.with_shape((rows, *other_sizes)) if is_stacked else value.type)
        shardings.append(Sharding((mesh.names, *[()] * len(other_sizes)) if is_stacked else ()))


def _reshape_varying_scalars(module: Module) -> None:
    """Reshape each scalar result that may differ between devices to one element, so that it can be stacked.

    A result that is equal on all devices stays a scalar.
    """
    graph, varying = module.graph, Varying(module)
    for index, value in enumerate(graph.outputs):
        if value.type.rank == 0 and not varying.is_uniform(value, module.mesh.names):
            row = graph.add("reshape", [value], [value.type.with_shape((1,))], loc=value.loc, name=value.name)
            graph.outputs[index] = row.result
