"""Materialize shardings: give every value a sharding, and insert a collective where a use needs a different sharding.

Before:  %h = dot_general %x, %w {[{x}, {}], [{}, {}] -> [{x}, {}]}   %y = tanh %h {[{}, {}] -> [{}, {}]}
After:   %h = dot_general %x, %w : f32[8,4]{x}    %g = all_gather %h on x   %y = tanh %g : f32[8,4]

Annotation nodes are removed: propagation has followed or rejected each of them. Each collective records its reason: the
edge, the shardings at both ends, and the notes of propagation about the axes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from meshgen.errors import Diagnostic, ProgramError
from meshgen.ir.canonical import canonical_order
from meshgen.ir.flatten_manual import has_annotations, is_open
from meshgen.ir.graph import Graph, Module, Node, NodeSharding, Value
from meshgen.ir.op_names import ANNOTATIONS
from meshgen.ir.predicates import is_annotation, is_control, is_loop, is_manual
from meshgen.ir.regions import all_values, flow_regions, rewired
from meshgen.mesh import Mesh
from meshgen.sharding.collective_reasons import Party, input_party, node_party, output_party
from meshgen.sharding.copies import Copies, Names
from meshgen.sharding.manual_bodies import partition_manual_body, wrapped
from meshgen.sharding.propagation.manual_bodies import free_part
from meshgen.sharding.reshard.plan import same_layout
from meshgen.sharding.unknown_axes import at_nominal_sizes
from meshgen.sizes.program import output_names
from meshgen.spec import Sharding


@at_nominal_sizes
def materialize(module: Module) -> Module:
    """Return the module with `Value.sharding` on all values, collectives on edges that need a reshard, and no
    annotations.

    Raises ProgramError (MG0104) if propagation did not visit a node, and ShardingError if a reshard is impossible.
    """
    _check(module)
    writer = _ReshardWriter(module.mesh, module.graph, module.in_shardings, module.out_shardings)
    writer.annotations = {node.result: index for index, node in enumerate(annotations_of(module.graph))}
    inputs = [
        Value(value.type, value.name, sharding, value.loc, id=value.id)
        for value, sharding in zip(module.graph.inputs, module.in_shardings, strict=True)
    ]
    graph = Graph(module.graph.name, inputs)
    for index, (old, new) in enumerate(zip(module.graph.inputs, inputs, strict=True)):
        writer.define(old, new, input_party(module, index), graph.nodes)
    ends = [output_party(module, index, name) for index, name in enumerate(output_names(module.graph))]
    writer.write(module.graph, graph, module.out_shardings, ends)
    return replace(module, graph=graph, stage="materialize")


def _check(module: Module) -> None:
    without_sharding = [node for node in _all_nodes(module.graph) if node.sharding is None]
    faults = [
        Diagnostic("MG0104", f"'{node.op}' has no sharding", node.loc, (), "run propagate first")
        for node in without_sharding
    ]
    ends = (module.graph.inputs, module.in_shardings), (module.graph.outputs, module.out_shardings)
    if any(len(values) != len(shardings) for values, shardings in ends):
        faults.append(Diagnostic("MG0104", "inputs or outputs have no sharding", None, (), "run propagate first"))
    if faults:
        raise ProgramError(*faults)


def _all_nodes(graph: Graph) -> Iterator[Node]:
    """Yield all nodes in canonical order.

    The nodes in the regions of a loop or branch come before the loop or branch.
    """
    for node in canonical_order(graph):
        for region in node.regions if is_control(node) or is_open(node) else ():
            yield from _all_nodes(region)
        yield node


def annotations_of(graph: Graph) -> Iterator[Node]:
    """Yield the annotations of a program in program order.

    Annotations in a region come after the op that has the region. The regions are those of loops, of branches and of
    manual computations that leave some mesh axes to propagation.
    """
    for node in graph.nodes:
        if is_annotation(node):
            yield node
        for region in node.regions if is_control(node) or is_open(node) else ():
            yield from annotations_of(region)


def is_for_users(node: Node) -> bool:
    """Whether an annotation is required (not a hint) and constrains the users of its result instead of the result
    itself.
    """
    return node.attrs.required and not node.attrs.as_result


class _ReshardWriter:
    """Writes graphs with shardings, and keeps the copies of every old value.

    Attributes:
        annotations: the result of each annotation -> its index in the program.
    """

    def __init__(self, mesh: Mesh, graph: Graph, ins: Sequence[Sharding], outs: Sequence[Sharding]) -> None:
        self._mesh = mesh
        self._names = Names([value.name for value in all_values(graph) if value.name])
        self._copies: dict[Value, Copies] = {}
        self._use_shardings = _use_shardings(graph, mesh, ins, outs)
        self.annotations: Mapping[Value, int] = {}

    def define(self, old: Value, new: Value, producer: Party, nodes: list[Node]) -> None:
        """Record that `new` replaces the value `old`. Reshards of `new` are appended to `nodes`."""
        self._copies[old] = Copies(new, producer, nodes, self._use_shardings.get(old, []), self._mesh, self._names)

    def write(self, old: Graph, new: Graph, results: Sequence[Sharding], ends: Sequence[Party]) -> None:
        """Append the nodes of `old` to `new`. The outputs of `new` get the shardings `results`."""
        for node in old.nodes:
            self._write_node(node, new.nodes)
        new.outputs = [
            self._copies[value].get(sharding, end)
            for value, sharding, end in zip(old.outputs, results, ends, strict=True)
        ]

    def _write_node(self, node: Node, nodes: list[Node]) -> None:
        shardings = _shardings_of(node)
        party = node_party(node)
        if node.op in ANNOTATIONS:
            self._write_annotation(node, party, nodes)
            return
        operands = [self._copies[v].get(s, party) for v, s in zip(node.operands, shardings.operands, strict=True)]
        if is_manual(node):
            nodes.append(self._manual(node, operands))
            for old, new in zip(node.results, nodes[-1].results, strict=True):
                self.define(old, new, party, nodes)
            return
        regions = tuple(self._region(node, index) for index in range(len(node.regions)))
        results = [
            Value(v.type, v.name, s, v.loc, id=v.id) for v, s in zip(node.results, shardings.results, strict=True)
        ]
        nodes.append(replace(node, operands=operands, results=results, sharding=shardings, regions=regions))
        for old, new in zip(node.results, results, strict=True):
            self.define(old, new, party, nodes)

    def _manual(self, node: Node, operands: list[Value]) -> Node:
        """Return the manual computation over all axes that it uses, with a body for one device."""
        shardings, body = _shardings_of(node), wrapped(node.regions[0])
        if not is_open(node):
            results = [
                Value(v.type, v.name, s, v.loc, id=v.id) for v, s in zip(node.results, shardings.results, strict=True)
            ]
            return Node("manual", operands, results, dict(node.attrs), node.loc, shardings, node.regions)
        inner = [free_part(sharding, node.attrs.axes) for sharding in shardings.operands]
        inputs = [Value(v.type, v.name, s, v.loc, id=v.id) for v, s in zip(body.inputs, inner, strict=True)]
        outer = [free_part(sharding, node.attrs.axes) for sharding in shardings.results]
        writer, new = _ReshardWriter(self._mesh, body, inner, outer), Graph(body.name, inputs)
        writer._names, writer.annotations = self._names, self.annotations
        party = node_party(node, "operand")
        for before, after in zip(body.inputs, inputs, strict=True):
            writer.define(before, after, party, new.nodes)
        writer.write(body, new, outer, [node_party(node, "result")] * len(outer))
        return partition_manual_body(node, new, operands, self._mesh)

    def _write_annotation(self, node: Node, party: Party, nodes: list[Node]) -> None:
        """Map the annotated value to the operand itself, or to its copy in the annotated sharding."""
        (value,), (result,), target = node.operands, node.results, _shardings_of(node).results[0]
        copies = self._copies[value]
        produced = copies.value.sharding
        if produced is not None and same_layout(produced, target, value.type, self._mesh):
            self._copies[result] = copies
        else:
            self.define(result, copies.get(target, party), party, nodes)
        if is_annotation(node):
            shardings = Value(value.type, granted=(self.annotations[result],), is_bound=is_for_users(node))
            self._copies[result].value.inherit_annotations(shardings)

    def _region(self, node: Node, number: int) -> Graph:
        """Return region `number` of `node` with materialized shardings.

        In control flow, the inputs and outputs of the region get the shardings of the op's own operands and results.
        Bodies of other ops work on scalars, which are never sharded.
        """
        old = node.regions[number]
        if not is_control(node):
            return without_annotations(old)
        inputs = [
            Value(v.type, v.name, s, v.loc, id=v.id)
            for v, s in zip(old.inputs, _region_input_shardings(node), strict=True)
        ]
        new = Graph(old.name, inputs)
        party = node_party(node, "argument")
        for before, after in zip(old.inputs, inputs, strict=True):
            self.define(before, after, party, new.nodes)
        results = _region_output_shardings(node, number)
        self.write(old, new, results, [node_party(node, "result")] * len(results))
        return new


def without_annotations(graph: Graph) -> Graph:
    """Return the graph, with its regions, after replacing each annotation by its operand. Returns `graph` itself if it
    has no annotations.
    """
    if not has_annotations(graph):
        return graph
    replacements: dict[Value, Value] = {}
    nodes: list[Node] = []
    for node in graph.nodes:
        node = rewired(node, replacements)
        if node.op in ANNOTATIONS:
            replacements[node.result] = node.operands[0]
        else:
            nodes.append(replace(node, regions=tuple(map(without_annotations, node.regions))))
    return Graph(graph.name, graph.inputs, nodes, [replacements.get(value, value) for value in graph.outputs])


def _shardings_of(node: Node) -> NodeSharding:
    assert node.sharding is not None, "checked on entry"
    return node.sharding


def _use_shardings(
    graph: Graph, mesh: Mesh, ins: Sequence[Sharding], outs: Sequence[Sharding]
) -> dict[Value, list[Sharding]]:
    """Return the shardings that the uses of each value need, in canonical order.

    If an annotation does not change the sharding of its operand, uses of its result count as uses of the operand.
    """
    needed: dict[Value, list[Sharding]] = {}
    aliases: dict[Value, Value] = {}
    produced = _produced_shardings(graph) | dict(zip(graph.inputs, ins, strict=True))

    def add_uses(values: Sequence[Value], needs: Sequence[Sharding]) -> None:
        for value, sharding in zip(values, needs, strict=True):
            needed.setdefault(aliases.get(value, value), []).append(sharding)

    for node in _all_nodes(graph):
        shardings = _shardings_of(node)
        add_uses(node.operands, shardings.results if node.op in ANNOTATIONS else shardings.operands)
        for index, region in enumerate(flow_regions(node)):
            add_uses(region.outputs, _region_output_shardings(node, index))
        if node.op in ANNOTATIONS:
            value = aliases.get(node.operands[0], node.operands[0])
            if value in produced and same_layout(produced[value], shardings.results[0], value.type, mesh):
                aliases[node.results[0]] = value
    add_uses(graph.outputs, outs)
    return needed


def _produced_shardings(graph: Graph) -> dict[Value, Sharding]:
    """Return the shardings in which node results and region inputs are produced."""
    produced: dict[Value, Sharding] = {}
    for node in graph.nodes:
        shardings = _shardings_of(node)
        produced |= zip(node.results, shardings.results, strict=True)
        for region in flow_regions(node):
            produced |= zip(region.inputs, _region_input_shardings(node), strict=True)
            produced |= _produced_shardings(region)
    return produced


def _region_output_shardings(node: Node, number: int) -> Sequence[Sharding]:
    """Return the shardings of the outputs of a region of control flow."""
    return (Sharding(()),) if is_loop(node) and number == 0 else _shardings_of(node).results


def _region_input_shardings(node: Node) -> Sequence[Sharding]:
    """Return the shardings of the inputs of a region of control flow, which are those of the op's own values."""
    return _shardings_of(node).results if is_loop(node) else _shardings_of(node).operands[1:]
