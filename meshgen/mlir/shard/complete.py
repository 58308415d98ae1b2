"""Completion of a program's text: its stage, and the shardings that only its types have.

A program without `meshgen.stage` that holds collectives is one of a later stage: on types with encodings it is
`materialize` (a type without one is replicated), on plain types `partition`. The latter says nothing about its
signature; the tensors of all devices are then taken as stacked along dim 0, which fits whatever they hold.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from meshgen.errors import Diagnostic, ProgramError
from meshgen.ir.graph import Annotation, Graph, Module, Node, NodeSharding, TensorType, Value
from meshgen.ir.manual import settle_manual
from meshgen.ir.op_names import BETWEEN_MESHES
from meshgen.ir.parts import mesh_of_option, without_meshes
from meshgen.ir.regions import all_nodes, all_values, flow_regions
from meshgen.mlir.arith.payload import drop_lazy
from meshgen.mlir.shard.groups_of_one import is_alone, without_groups_of_one
from meshgen.mlir.shard.sharding import typed
from meshgen.mlir.shard.signature import TYPED_STAGES, check_signature
from meshgen.mlir.shard.transfers import transfer_faults
from meshgen.ops.uniform import Varying
from meshgen.spec import Sharding

MOVES = ("permute", "retile", "update_halo", *BETWEEN_MESHES)


def complete(module: Module, is_global: bool = False) -> Module:
    """Complete what the text leaves out; of a program that does not say its stage, find the stage first.

    With `is_global` a program whose collectives are all in groups of one device is one on global tensors.
    Raises ProgramError for a program with both annotations and explicit collectives.
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
    moves = [node for node in nodes if _is_move(node)]
    annotated = any(node.op == "annotate" for node in nodes)
    encoded = any(value.sharding is not None for node in nodes for value in node.results)
    asked = any(spec is not None for spec in (*module.in_annotations, *module.out_annotations))
    is_global = is_global or annotated or asked
    if moves and is_global and not encoded and all(is_alone(node, module.mesh) for node in moves):
        module.graph, moves = without_groups_of_one(module.graph, module.mesh), []
    if moves and (annotated or (asked and not encoded)):
        message = f"{moves[0].op}: a program cannot have both annotations and explicit collectives"
        hint = "remove the collectives, or write all of them"
        raise ProgramError(Diagnostic("MG0104", message, moves[0].loc, hint=hint))
    if moves and not encoded:
        complete_local(module)
    elif moves or encoded:
        _complete_global(module)
    else:
        _annotate_from_types(module)
    return module


def _keep_used_meshes(module: Module) -> None:
    """Of several declared meshes those that something is on; a program that is on one is as if it declared that alone."""
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
    """All shardings of a program as it was read."""
    yield from (spec.sharding for spec in (*module.in_annotations, *module.out_annotations) if spec)
    yield from (value.sharding for value in all_values(module.graph) if value.sharding)
    yield from _in_attributes(module.graph)


def _in_attributes(graph: Graph) -> Iterator[Sharding]:
    for node in all_nodes(graph):
        for entry in node.attrs.given.values():
            items: Sequence[object] = entry if isinstance(entry, tuple) else (entry,)
            yield from (each for each in items if isinstance(each, Sharding))


def _program_nodes(graph: Graph) -> Iterator[Node]:
    """All nodes but those of manual computations, which have collectives whatever the program around them is."""
    for node in graph.nodes:
        yield node
        for region in node.regions if node.op != "manual" else ():
            yield from _program_nodes(region)


def _is_move(node: Node) -> bool:
    """Whether a node tells devices apart; a manual computation is a node of the global program."""
    return node.op != "manual" and ("axes" in node.attrs.given or node.op in MOVES)


def _complete_global(module: Module) -> None:
    """Stage `materialize`: types without an encoding are replicated."""
    graph = module.graph
    _lie_as_typed(graph)
    module.stage = "materialize"
    module.in_shardings, module.out_shardings = list(typed(graph.inputs)), list(typed(graph.outputs))


def _lie_as_typed(graph: Graph) -> None:
    """Set the shardings of nodes from their values; regions of control flow recursively, bodies of other ops are scalar."""
    for value in graph.values():
        (value.sharding,) = typed([value])
    for node in graph.nodes:
        node.sharding = _as_typed(node)
        for region in flow_regions(node):
            _lie_as_typed(region)


def _as_typed(node: Node) -> NodeSharding | None:
    """The shardings of the types; none for collectives."""
    if _is_move(node):
        return None
    return NodeSharding(typed(node.operands), typed(node.results), node.option or ())


def _annotate_from_types(module: Module) -> None:
    """Stage `import`: encodings of arguments and results are the user's annotations."""
    graph = module.graph
    for table, values in ((module.in_annotations, graph.inputs), (module.out_annotations, graph.outputs)):
        for index, value in enumerate(values):
            if value.sharding is not None and index < len(table) and table[index] is None:
                table[index] = Annotation(value.sharding, loc=value.loc)
    for value in graph.inputs:
        value.sharding = None


def complete_local(module: Module) -> None:
    """Stage `partition` without a signature: every device has tensors of its own, stacked along dim 0."""
    if faults := transfer_faults(module):
        raise ProgramError(*faults)
    module.stage, module.arguments = "partition", "local"
    module.in_annotations, module.out_annotations = [], []
    _stack(module, module.graph.inputs, module.in_types, module.in_shardings)
    _give_each_result(module)
    _stack(module, module.graph.outputs, module.out_types, module.out_shardings)


def _stack(module: Module, values: Sequence[Value], types: list[TensorType], shardings: list[Sharding]) -> None:
    """Add the global types and shardings of local values."""
    mesh = module.mesh
    count = mesh.size if mesh.is_static else None
    for value in values:
        first, *rest = value.type.shape if value.type.rank else (0,)
        stacked = value.type.rank > 0
        rows = None if first is None or count is None else first * count
        types.append(value.type.with_shape((rows, *rest)) if stacked else value.type)
        shardings.append(Sharding((mesh.names, *[()] * len(rest)) if stacked else ()))


def _give_each_result(module: Module) -> None:
    """A scalar result that may differ between devices gets a row per device; a uniform one stays a scalar."""
    graph, varying = module.graph, Varying(module)
    for number, value in enumerate(graph.outputs):
        if value.type.rank == 0 and not varying.is_uniform(value, module.mesh.names):
            row = graph.add("reshape", [value], [value.type.with_shape((1,))], loc=value.loc, name=value.name)
            graph.outputs[number] = row.result
