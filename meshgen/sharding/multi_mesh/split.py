"""Split a program on several meshes into one program per mesh, with a pair of transfers for each value that crosses.

Before:  %h = dot_general %x, %w (on @a)   %y = tanh %h (on @b)
After:   @a: %h = dot_general %x, %w, %t = transfer_send %h to @b       @b: %h = transfer_recv from @a, %y = tanh %h

A value is transferred once for every mesh that uses it. Transfers are in program order in all parts, and each takes the
token of the previous one, so that no pass can reorder them differently on two meshes. An optimization barrier is split:
each mesh gets a barrier for the operands on it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from meshgen.codegen.passes.loop_unroll import unrolled
from meshgen.errors import Diagnostic, Location, ShardingError
from meshgen.ir.graph import Annotation, Graph, Module, Node, Value
from meshgen.ir.multi_mesh import joined, on_mesh, without_meshes
from meshgen.ir.notes import Notes
from meshgen.ir.predicates import is_optimization_barrier, is_sharding_group
from meshgen.ir.regions import captured, rewired_graph
from meshgen.mesh import Mesh
from meshgen.ops.classes import RETILING
from meshgen.ops.types.sharding import TRANSFER_TOKEN
from meshgen.sharding.collective_reasons import placement_reason, transfer_reason
from meshgen.sharding.multi_mesh.mesh_assignment import Places, first_named, is_on_several, place, unknown_meshes
from meshgen.spec import Sharding


def split_meshes(module: Module) -> Module:
    """Return the module in parts, one per mesh, in order of declaration. A module on a single mesh is returned
    unchanged.

    Raises ShardingError: MG0209 for values that cannot be assigned to a mesh, MG0201 if the size of a mesh is unknown.
    """
    if module.parts or module.stage not in ("import", "materialize"):
        return module
    module = _without_unused_meshes(module) if module.stage == "import" else module
    if len(module.meshes) < 2:
        return module
    unknown = [mesh for mesh in module.meshes if not mesh.is_static]
    if unknown:
        named = first_named(module)
        faults = [
            Diagnostic("MG0201", f"@{m.name} is {m}: a size is unknown", named.get(m.name), (), _sizes_hint(m))
            for m in unknown
        ]
        raise ShardingError(*faults)
    module = unrolled(module, partial(is_on_several, meshes=module.meshes))
    module, barriers = _split_barriers(module)
    writer = _MeshPartsWriter(module, place(module), barriers)
    writer.write()
    if writer.faults:
        raise ShardingError(*writer.faults)
    return joined(module, [part.module() for part in writer.parts.values()])


def _split_barriers(module: Module) -> tuple[Module, dict[Node, Node]]:
    """Split each optimization barrier into one barrier per operand, so that each operand gets its own mesh.

    Returns the new module, and the original barrier of each new one.
    """
    nodes: list[Node] = []
    originals: dict[Node, Node] = {}
    for node in module.graph.nodes:
        if is_optimization_barrier(node):
            pairs = zip(node.operands, node.results, strict=True)
            split = [replace(node, operands=[value], results=[result]) for value, result in pairs]
            originals.update(dict.fromkeys(split, node))
            nodes += split
        else:
            nodes.append(node)
    return replace(module, graph=replace(module.graph, nodes=nodes)), originals


def _without_unused_meshes(module: Module) -> Module:
    """Return a user's program without unused meshes. If only one mesh is left, its name is removed from the
    shardings.
    """
    named = first_named(module)
    if unknown := list(unknown_meshes(module)):
        raise ShardingError(*unknown)
    used = tuple(mesh for mesh in module.meshes if mesh.name in named)
    if len(used) > 1:
        return replace(module, mesh=used[0], meshes=used)
    module = replace(module, mesh=next(iter(used), module.mesh), meshes=())
    if not any(named):
        return module
    ins, outs = (
        [annotation and _annotation_without_mesh(annotation) for annotation in side]
        for side in (module.in_annotations, module.out_annotations)
    )
    return replace(module, graph=without_meshes(module.graph, module.mesh), in_annotations=ins, out_annotations=outs)


def _sizes_hint(mesh: Mesh) -> str:
    sizes = ",".join(f"{axis.name}=4" for axis in mesh.axes if axis.size is None)
    return f"a program on several meshes needs the sizes of all of them; give for example --mesh {mesh.name}:{sizes}"


class _Part:
    """The program of one mesh (a part) while it is being written."""

    def __init__(self, whole: Module, mesh: Mesh) -> None:
        self.whole, self.mesh = whole, mesh
        self.graph = Graph(whole.graph.name)
        self.here: dict[Value, Value] = {}  # value of the full program -> value of this part
        self.inputs: list[int] = []
        self.outputs: list[int] = []
        self.last_token: list[Value] = []  # token of the last transfer

    def module(self) -> Module:
        ins, outs = self.whole.in_annotations, self.whole.out_annotations
        return Module(
            self.mesh,
            self.graph,
            self.whole.stage,
            self.mesh.name,
            [_annotation_without_mesh(ins[n]) if n < len(ins) else None for n in self.inputs],
            [_annotation_without_mesh(outs[n]) if n < len(outs) else None for n in self.outputs],
            in_shardings=_lists(self.graph.inputs),
            out_shardings=_lists(self.graph.outputs),
            in_numbers=tuple(self.inputs),
            out_numbers=tuple(self.outputs),
            reordered=self.whole.reordered,
            meshes=(self.mesh, *(mesh for mesh in self.whole.meshes if mesh is not self.mesh)),
            donations=self._donations(),
        )

    def _donations(self) -> dict[int, int | None]:
        """Return the donated inputs of this part, with the output that each may alias, or None if this output is on
        another mesh.
        """
        output_positions = {number: position for position, number in enumerate(self.outputs)}
        donated = self.whole.donations
        return {
            position: output_positions.get(output) if (output := donated[number]) is not None else None
            for position, number in enumerate(self.inputs)
            if number in donated
        }


def _lists(values: Sequence[Value]) -> list[Sharding]:
    """Return the shardings of the values, or an empty list if the values have no shardings."""
    return [value.sharding for value in values if value.sharding]


def _value_without_mesh(value: Value) -> Value:
    return replace(value, sharding=value.sharding and replace(value.sharding, mesh=""))


def _annotation_without_mesh(annotation: Annotation | None) -> Annotation | None:
    return annotation and replace(annotation, sharding=replace(annotation.sharding, mesh=""))


class _MeshPartsWriter:
    """Writes all parts in one walk over the full program."""

    def __init__(self, module: Module, places: Places, barriers: Mapping[Node, Node]) -> None:
        self.module, self.places = module, places
        self.barriers = dict(barriers)  # split barrier, or its copy in a part -> the original barrier
        self.parts = {mesh.name: _Part(module, mesh) for mesh in module.meshes}
        self.producers = module.graph.index.producers
        self.channel = 0
        self.groups: dict[int, str] = {}  # sharding group -> the mesh of its first member
        self.faults: list[Diagnostic] = []

    def write(self) -> None:
        graph, places = self.module.graph, self.places
        for index, value in enumerate(graph.inputs):
            part = self.parts[places.home[value]]
            part.here[value] = _value_without_mesh(value)
            part.graph.inputs.append(part.here[value])
            part.inputs.append(index)
        for node in graph.nodes:
            if node in places.nodes:
                part = self.parts[places.nodes[node]]
                self._check_group(node, part)
                self._copy_node(node, part)
        annotations = [*self.module.out_annotations, *[None] * len(graph.outputs)]
        for index, value in enumerate(graph.outputs):
            annotation = annotations[index]
            home = (annotation.sharding.mesh if annotation else "") or places.home.get(
                value, self.module.meshes[0].name
            )
            part = self.parts[home]
            part.outputs.append(index)
            part.graph.outputs.append(self._value_in_part(value, part, f"output {index} is on @{home}", value.loc))

    def _copy_node(self, node: Node, part: _Part) -> None:
        if node.op in RETILING and self.places.home[node.operands[0]] != part.mesh.name:
            self._write_transfer(node.operands[0], part, "it is permuted there", node.loc, node)
            return
        user = placement_reason(node, part.mesh.name, self.places.why.get(node, ""))
        operands = [self._value_in_part(value, part, user, node.loc) for value in node.operands]
        results = [_value_without_mesh(result) for result in node.results]
        captures = {value: self._value_in_part(value, part, user, node.loc) for value in captured(node)}
        regions = tuple(rewired_graph(region, captures) for region in node.regions)
        node = replace(node, regions=regions) if regions else node
        part.here.update(zip(node.results, results, strict=True))
        original, last = self.barriers.get(node), part.graph.nodes[-1] if part.graph.nodes else None
        if original is not None and last is not None and self.barriers.get(last) is original:
            last.operands += operands
            last.results += results
            return
        part.graph.nodes.append(replace(on_mesh(node, part.mesh), operands=operands, results=results))
        self.barriers.update({part.graph.nodes[-1]: original} if original else {})

    def _check_group(self, node: Node, part: _Part) -> None:
        """Record a fault if members of a sharding group are on several meshes."""
        if not is_sharding_group(node):
            return
        first = self.groups.setdefault(node.attrs.group, part.mesh.name)
        if first != part.mesh.name:
            message = f"members of sharding group {node.attrs.group} are on @{first} and on @{part.mesh.name}"
            self.faults.append(Diagnostic("MG0209", message, node.loc, hint="use a group for each mesh"))

    def _value_in_part(self, value: Value, part: _Part, user: str, loc: Location | None) -> Value:
        """Return the value in `part`: the value itself, a copy computed there, or a received value."""
        if value not in part.here:
            if value in self.places.free:
                self._copy_node(self.producers[value], part)
            elif 0 in value.type.shape:  # empty values are not sent
                self._write_empty(value, part)
            else:
                self._write_transfer(value, part, user, loc)
        return part.here[value]

    def _write_empty(self, value: Value, part: _Part) -> None:
        nothing = np.zeros(value.type.sizes, value.type.numpy_dtype)
        part.here[value] = part.graph.add("constant", [], [value.type], {"value": nothing}, name=value.name).result

    def _write_transfer(
        self, value: Value, part: _Part, user: str, loc: Location | None, move: Node | None = None
    ) -> None:
        """Write both ends of a transfer. In a program that has collectives already, `move` is the node that requests
        the transfer.
        """
        home = self.parts[self.places.home[value]]
        why = transfer_reason(value, self.producers.get(value), home.mesh.name, user)
        attrs, notes = {"channel": self.channel, "shape": value.type.sizes}, Notes(why)
        result = value if move is None else move.result
        if move is not None:
            attrs |= {name: replace(getattr(move.attrs, name), mesh="") for name in ("source", "target")}
        elif self.module.stage == "materialize":
            self.faults.append(Diagnostic("MG0209", why, loc, (), "add a permute to a type on that mesh"))
        self.channel += 1
        to, back = {**attrs, "peer": part.mesh}, {**attrs, "peer": home.mesh}
        sent = home.graph.add(
            "transfer_send", [home.here[value], *home.last_token], [TRANSFER_TOKEN], to, loc=loc, notes=notes
        )
        received = part.graph.add(
            "transfer_recv", part.last_token, [value.type, TRANSFER_TOKEN], back, loc=loc, notes=notes
        )
        received.results[0] = part.here[result] = replace(_value_without_mesh(result), name=value.name or result.name)
        if move is not None:
            sent.result.sharding = received.results[1].sharding = Sharding(())
        received.results[1].name = ""
        home.last_token, part.last_token = [sent.result], [received.results[1]]
