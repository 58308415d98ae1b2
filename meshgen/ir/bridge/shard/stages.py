"""What the stages of a program add to its text: decided layouts, global signatures, the schedule.

Attributes of arguments and results:
    shard.sharding  what the user asked: `#shard.wish<...>`, or a plain `#shard.split<...>`
    shard.layout    the sharding in which it is given or delivered, where its type does not say it
    shard.global    its global type, from `partition` on

A program without `meshgen.stage` that holds collectives is one of a later stage: on types with encodings it is
`materialize` (a type without one is replicated), on plain types `partition`. The latter says nothing about its
signature; the tensors of all devices are then taken as stacked along dim 0, which fits whatever they hold.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from xdsl.dialects.builtin import ArrayAttr
from xdsl.ir import Attribute

from meshgen.errors import Diagnostic, ProgramError
from meshgen.ir.bridge import bufferization as bridge_bufferization
from meshgen.ir.bridge import collectives as bridge_collectives
from meshgen.ir.bridge import manual as bridge_manual
from meshgen.ir.bridge import registries
from meshgen.ir.bridge import scf as bridge_scf
from meshgen.ir.bridge import tensor_slices as bridge_tensor_slices
from meshgen.ir.bridge.conversion import Exporter, Importer
from meshgen.ir.bridge.linalg import named as bridge_linalg_named
from meshgen.ir.bridge.linalg import pack as bridge_linalg_pack
from meshgen.ir.bridge.reading import Reading, Slot
from meshgen.ir.bridge.shard import printing as bridge_shard_printing
from meshgen.ir.bridge.shard import queries as bridge_shard_queries
from meshgen.ir.bridge.shard import roots as bridge_shard_roots
from meshgen.ir.bridge.shard import transfers as bridge_shard_transfers
from meshgen.ir.bridge.shard.sharding import encode_split, fitted, typed
from meshgen.ir.bridge.shard.signature import check_signature
from meshgen.ir.bridge.tensor import drop_lazy
from meshgen.ir.bridge.tosa import control as bridge_tosa_control
from meshgen.ir.bridge.tosa import elementwise as bridge_tosa
from meshgen.ir.bridge.tosa import lookup as bridge_tosa_lookup
from meshgen.ir.bridge.tosa import windows as bridge_tosa_windows
from meshgen.ir.dialects.schedule import SCHED, BufferAttr, ItemAttr
from meshgen.ir.dialects.shard.attributes import SplitAttr, Wish, WishAttr, named
from meshgen.ir.graph import Annotation, Graph, Module, Node, NodeSharding, TensorType, Value
from meshgen.ir.infer.sharding import BETWEEN
from meshgen.ir.manual import settle_manual
from meshgen.ir.parts import without_meshes
from meshgen.spec import Sharding

REGISTERED = (
    bridge_bufferization,
    bridge_collectives,
    bridge_linalg_named,
    bridge_linalg_pack,
    bridge_manual,
    bridge_scf,
    bridge_shard_printing,
    bridge_shard_queries,
    bridge_shard_roots,
    bridge_shard_transfers,
    bridge_tensor_slices,
    bridge_tosa,
    bridge_tosa_control,
    bridge_tosa_lookup,
    bridge_tosa_windows,
)  # importing them has filled the registries
TYPED_STAGES = ("materialize", "optimize")
MOVES = ("permute", "retile", "update_halo", *BETWEEN)


def read_wish(reading: Reading, attribute: Attribute, slot: Slot) -> None:
    """What the user asked of an argument or result."""
    wish = Wish(*attribute.data) if isinstance(attribute, SplitAttr) else None
    if isinstance(attribute, WishAttr):
        wish = attribute.data
    if wish is None:
        return
    mesh = reading.meshes.get(wish.grid, reading.module.mesh)
    sharding = reading.on(wish.grid, fitted(named(wish.sharding, mesh), slot.type.rank))
    reading.annotate(slot, Annotation(sharding, wish.required, wish.open_dims, slot.loc))


def _wishes(module: Module, slot: Slot) -> Sequence[Annotation | None]:
    return module.in_annotations if slot.side == "in" else module.out_annotations


def _layouts(module: Module, slot: Slot) -> list[Sharding]:
    return module.in_shardings if slot.side == "in" else module.out_shardings


def _globals(module: Module, slot: Slot) -> list[TensorType]:
    return module.in_types if slot.side == "in" else module.out_types


def _values(module: Module, slot: Slot) -> list[Value]:
    return module.graph.inputs if slot.side == "in" else module.graph.outputs


def read_layout(reading: Reading, attribute: Attribute, slot: Slot) -> None:
    """The decided sharding. Slots come in order, so that the table grows by one."""
    if isinstance(attribute, SplitAttr):
        mesh = reading.meshes.get(attribute.data[0], reading.module.mesh)
        sharding = fitted(named(attribute.data[1], mesh), slot.type.rank)
        reading.faults += [replace(f, loc=slot.loc) for f in sharding.faults([None] * slot.type.rank, mesh)]
        _layouts(reading.module, slot).append(sharding)


def read_global(reading: Reading, attribute: Attribute, slot: Slot) -> None:
    """The global type."""
    _globals(reading.module, slot).append(reading.type(attribute))


def write_signature(module: Module, slot: Slot) -> Mapping[str, Attribute]:
    """All attributes of an argument or result."""
    found: dict[str, Attribute] = {}
    wishes, layouts, types = _wishes(module, slot), _layouts(module, slot), _globals(module, slot)
    wish = wishes[slot.index] if wishes else None
    if wish is not None:
        bare = replace(wish.sharding, mesh="")
        data = Wish(wish.sharding.mesh or module.mesh.name, bare, wish.required, wish.open_dims)
        found["shard.sharding"] = WishAttr(data)
    if layouts and not (module.stage in TYPED_STAGES and layouts == list(typed(_values(module, slot)))):
        found["shard.layout"] = encode_split(layouts[slot.index], module.mesh)
    if types:
        found["shard.global"] = Exporter(module).tensor(types[slot.index])
    return found


def read_slot(importer: Importer, node: Node, attribute: Attribute) -> None:
    """When an item runs."""
    if isinstance(attribute, ItemAttr):
        node.attrs["slot"] = attribute.data


def read_places(importer: Importer, node: Node, attribute: Attribute) -> None:
    """Where a node's results lie."""
    if isinstance(attribute, ArrayAttr):
        node.attrs["places"] = tuple(item.data for item in attribute if isinstance(item, BufferAttr))


def write_schedule(exporter: Exporter, node: Node) -> Mapping[str, Attribute]:
    """Slot and places of a node."""
    found: dict[str, Attribute] = {}
    if (slot := node.attrs.get("slot")) is not None:
        found["sched.item"] = ItemAttr(slot)
    if places := node.attrs.get("places"):
        found["sched.buffers"] = ArrayAttr(BufferAttr(place) for place in places)
    return found


def complete(module: Module) -> Module:
    """Complete what the text leaves out; of a program that does not say its stage, find the stage first.

    Raises ProgramError where a program is annotated and written out at once.
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
    graph = module.graph
    nodes = list(_program_nodes(graph))
    moves = [node for node in nodes if _is_move(node)]
    annotated = any(node.op == "annotate" for node in nodes)
    encoded = any(value.sharding is not None for node in nodes for value in node.results)
    asked = any(wish is not None for wish in (*module.in_annotations, *module.out_annotations))
    if moves and (annotated or (asked and not encoded)):
        message = f"{moves[0].op}: a program with annotations has collectives already"
        hint = "annotate the program, or write all collectives"
        raise ProgramError(Diagnostic("MG0104", message, moves[0].loc, hint=hint))
    if moves and not encoded:
        complete_local(module)
    elif moves or encoded:
        _complete_global(module)
    else:
        _wish_from_types(module)
    return module


def _keep_used_meshes(module: Module) -> None:
    """Of several declared meshes those that something is on; a program that is on one is as if it declared that alone."""
    names = dict.fromkeys(sharding.mesh for sharding in _shardings(module))
    used = tuple(mesh for mesh in module.meshes if mesh.name in names)
    if len(used) > 1:
        module.mesh, module.meshes = used[0], used
        return
    if not module.meshes:
        return
    module.mesh, module.meshes = used[0] if used else module.mesh, ()
    module.graph = without_meshes(module.graph, module.mesh)
    for value in _all_values(module.graph):
        value.sharding = value.sharding and replace(value.sharding, mesh="")
    for table in (module.in_annotations, module.out_annotations):
        table[:] = [wish and replace(wish, sharding=replace(wish.sharding, mesh="")) for wish in table]


def _shardings(module: Module) -> Iterator[Sharding]:
    """All shardings of a program as it was read."""
    yield from (wish.sharding for wish in (*module.in_annotations, *module.out_annotations) if wish)
    yield from (value.sharding for value in _all_values(module.graph) if value.sharding)
    yield from _in_attributes(module.graph)


def _all_values(graph: Graph) -> Iterator[Value]:
    yield from graph.values()
    for node in graph.nodes:
        for region in node.regions:
            yield from _all_values(region)


def _in_attributes(graph: Graph) -> Iterator[Sharding]:
    for node in graph.nodes:
        for entry in node.attrs.values():
            items: Sequence[object] = entry if isinstance(entry, tuple) else (entry,)
            yield from (each for each in items if isinstance(each, Sharding))
        for region in node.regions:
            yield from _in_attributes(region)


def _program_nodes(graph: Graph) -> Iterator[Node]:
    """All nodes but those of manual computations, which have collectives whatever the program around them is."""
    for node in graph.nodes:
        yield node
        for region in node.regions if node.op != "manual" else ():
            yield from _program_nodes(region)


def _is_move(node: Node) -> bool:
    """Whether a node tells devices apart; a manual computation is a node of the global program."""
    return node.op != "manual" and ("axes" in node.attrs or node.op in MOVES)


def _complete_global(module: Module) -> None:
    """Stage `materialize`: types without an encoding are replicated."""
    graph = module.graph
    _lie_as_typed(graph)
    module.stage = "materialize"
    module.in_shardings, module.out_shardings = list(typed(graph.inputs)), list(typed(graph.outputs))


def _lie_as_typed(graph: Graph) -> None:
    """Control flow lies as its values, its regions as themselves; bodies of other ops work on scalars."""
    for value in graph.values():
        (value.sharding,) = typed([value])
    for node in graph.nodes:
        node.sharding = _as_typed(node)
        for region in node.regions if node.op in ("while", "case", "if") else ():
            _lie_as_typed(region)


def _as_typed(node: Node) -> NodeSharding | None:
    """What the types say; collectives have none."""
    if _is_move(node):
        return None
    return NodeSharding(typed(node.operands), typed(node.results), node.attrs.get("sharding_option", ()))


def _wish_from_types(module: Module) -> None:
    """Stage `import`: encodings of arguments and results are what the user asks of them."""
    graph = module.graph
    for table, values in ((module.in_annotations, graph.inputs), (module.out_annotations, graph.outputs)):
        for index, value in enumerate(values):
            if value.sharding is not None and index < len(table) and table[index] is None:
                table[index] = Annotation(value.sharding, loc=value.loc)
    for value in graph.inputs:
        value.sharding = None


def complete_local(module: Module) -> None:
    """Stage `partition` without a signature: every device has tensors of its own, stacked along dim 0."""
    mesh, graph = module.mesh, module.graph
    module.stage, module.arguments = "partition", "local"
    module.in_annotations, module.out_annotations = [], []
    count = mesh.size if mesh.is_static else None
    for values, types, shardings in (
        (graph.inputs, module.in_types, module.in_shardings),
        (graph.outputs, module.out_types, module.out_shardings),
    ):
        for value in values:
            first, *rest = value.type.shape if value.type.rank else (0,)
            stacked = value.type.rank > 0
            rows = None if first is None or count is None else first * count
            types.append(value.type.with_shape((rows, *rest)) if stacked else value.type)
            shardings.append(Sharding((mesh.names, *[()] * len(rest)) if stacked else ()))


registries.DIALECTS.append(SCHED)
registries.ARG_ATTRS["shard.sharding"] = read_wish
registries.ARG_ATTRS["shard.layout"] = read_layout
registries.ARG_ATTRS["shard.global"] = read_global
registries.ARG_ATTR_WRITERS.append(write_signature)
registries.NODE_ATTRS["sched.item"] = read_slot
registries.NODE_ATTRS["sched.buffers"] = read_places
registries.NODE_ATTR_WRITERS.append(write_schedule)
