"""Programs on several meshes: a module per mesh, and the transfers between them.

`Module.in_numbers` and `out_numbers` of a part hold the numbers of its inputs and outputs in the whole program.
A `transfer_send` and the `transfer_recv` of the same channel are one value that crosses.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from meshgen.errors import Diagnostic, ProgramError
from meshgen.ir.graph import Graph, Module, Node, Value
from meshgen.ir.op_names import BETWEEN_MESHES
from meshgen.ir.predicates import is_transfer, is_transfer_recv, is_transfer_send
from meshgen.mesh import Mesh, split_ref
from meshgen.spec import Sharding

_TABLES = ("in_types", "out_types", "in_shardings", "out_shardings")


def parts_of(module: Module) -> list[tuple[Module, Sequence[int], Sequence[int]]]:
    """The module of every mesh, and the numbers of its inputs and outputs in the whole program."""
    if module.parts:
        return [(part, numbers_of(part, "inputs"), numbers_of(part, "outputs")) for part in module.parts]
    return [(module, range(len(module.graph.inputs)), range(len(module.graph.outputs)))]


def numbers_of(part: Module, side: str) -> tuple[int, ...]:
    """Return the numbers of a part's `inputs` or `outputs` in the whole program."""
    numbers = part.in_numbers if side == "inputs" else part.out_numbers
    assert numbers is not None, "a part has its numbers"
    return numbers


def joined(module: Module, parts: Sequence[Module]) -> Module:
    """The module with these parts, and their stage, types and shardings."""
    tables: dict[str, dict[int, Any]] = {name: {} for name in (*_TABLES, "inputs", "outputs")}
    for part in parts:
        for side in ("inputs", "outputs"):
            tables[side].update(zip(numbers_of(part, side), getattr(part.graph, side), strict=True))
        for name in _TABLES:
            numbers = numbers_of(part, "inputs" if name.startswith("in") else "outputs")
            tables[name].update(zip(numbers, getattr(part, name), strict=False))
    lists = {name: [table[number] for number in sorted(table)] for name, table in tables.items()}
    graph = Graph(module.graph.name, lists.pop("inputs"), [], lists.pop("outputs"))
    first, meshes = parts[0], tuple(part.mesh for part in parts)
    return replace(
        module, mesh=meshes[0], meshes=meshes, graph=graph, parts=list(parts), stage=first.stage, arguments=first.arguments, **lists
    )  # fmt: skip


def read_parts(module: Module, parts: Sequence[Module]) -> Module:
    """The module of parts that were read. Raises ProgramError with all contradictions between them."""
    parts = [_numbered(part, parts[:number]) for number, part in enumerate(parts)]
    faults = [*_part_faults(parts), *_signature_faults(parts)]
    faults = faults or list(_transfer_faults(parts))
    if faults:
        raise ProgramError(*faults)
    return joined(module, parts)


def _numbered(part: Module, before: Sequence[Module]) -> Module:
    """The part with numbers of its inputs and outputs; where the text has none they go on from those before."""
    first_in = sum(len(each.graph.inputs) for each in before)
    first_out = sum(len(each.graph.outputs) for each in before)
    ins, outs = part.in_numbers, part.out_numbers
    return replace(
        part,
        in_numbers=tuple(range(first_in, first_in + len(part.graph.inputs))) if ins is None else ins,
        out_numbers=tuple(range(first_out, first_out + len(part.graph.outputs))) if outs is None else outs,
    )


def _part_faults(parts: Sequence[Module]) -> Iterator[Diagnostic]:
    names = Counter(part.mesh.name for part in parts)
    for name in (name for name, count in names.items() if count > 1):
        yield Diagnostic("MG0209", f"{names[name]} modules run on @{name}; a mesh has one program")
    for part in parts:
        if part.stage != parts[0].stage:
            yield Diagnostic(
                "MG0104",
                f"@{part.mesh.name} is at stage '{part.stage}', but @{parts[0].mesh.name} at '{parts[0].stage}'",
            )
        if part.stage == "import":
            yield Diagnostic(
                "MG0104", f"@{part.mesh.name} has no transfers yet", None, (), "write one module with several meshes"
            )


def _signature_faults(parts: Sequence[Module]) -> Iterator[Diagnostic]:
    for side in ("inputs", "outputs"):
        found = [number for part in parts for number in numbers_of(part, side)]
        if sorted(found) != list(range(len(found))):
            yield Diagnostic("MG0104", f"the numbers of the {side} of the parts are {found}; each must occur once")


def _transfer_faults(parts: Sequence[Module]) -> Iterator[Diagnostic]:
    """Transfers without their other side, and sides that differ."""
    table: dict[int, dict[str, tuple[Node, Mesh]]] = {}
    for part in parts:
        for node in part.graph.nodes:
            if is_transfer(node):
                sides = table.setdefault(node.attrs.channel, {})
                if node.op in sides:
                    yield Diagnostic("MG0104", f"channel {node.attrs.channel} has two '{node.op}'", node.loc)
                sides[node.op] = node, part.mesh
    for channel, sides in sorted(table.items()):
        if len(sides) == 1:
            ((op, (node, _)),) = sides.items()
            other = BETWEEN_MESHES[BETWEEN_MESHES.index(op) - 1]
            yield Diagnostic("MG0104", f"'{op}' on channel {channel} has no matching '{other}'", node.loc)
        else:
            yield from _pair_faults(channel, *sides["transfer_send"], *sides["transfer_recv"])


def _pair_faults(channel: int, sent: Node, sender: Mesh, got: Node, receiver: Mesh) -> Iterator[Diagnostic]:
    facts = [
        ("peer", [sent.attrs.peer.name, sender.name], [receiver.name, got.attrs.peer.name]),
        ("element type", sent.operands[0].type.dtype, got.results[0].type.dtype),
        *((name, sent.attrs.get(name), got.attrs.get(name)) for name in ("shape", "source", "target")),
    ]
    for name, here, there in facts:
        if here != there:
            text = f"channel {channel}: the {name} of the send is {here}, but that of the receive {there}"
            yield Diagnostic("MG0104", text, sent.loc, (("received here", got.loc),))


def whole_graph(module: Module) -> Graph:
    """One graph of the nodes of all parts, before `partition`: received values are the sent ones."""
    made: dict[int, Value] = {}
    graph = Graph(module.graph.name, list(module.graph.inputs))
    ends: dict[int, Value] = {}
    put: dict[Value, Value] = {}
    for part, inputs, _ in parts_of(module):
        put.update(zip(part.graph.inputs, (module.graph.inputs[number] for number in inputs), strict=True))
    for node in _interleaved(module.parts):
        if is_transfer_send(node):
            made[node.attrs.channel] = put.get(node.operands[0], node.operands[0])
        elif is_transfer_recv(node):
            put[node.results[0]] = made[node.attrs.channel]
        else:
            graph.nodes.append(replace(node, operands=[put.get(value, value) for value in node.operands]))
    for part, _, outputs in parts_of(module):
        ends.update(zip(outputs, (put.get(value, value) for value in part.graph.outputs), strict=True))
    graph.outputs = [ends[number] for number in sorted(ends)]
    return graph


def _interleaved(parts: Sequence[Module]) -> Iterator[Node]:
    """The nodes of all parts in an order in which every receive comes after its send. Raises ProgramError for a cycle."""
    rows = [list(part.graph.nodes) for part in parts]
    sent: set[int] = set()
    while any(rows):
        count = sum(map(len, rows))
        for row in rows:
            while row and not (is_transfer_recv(row[0]) and row[0].attrs.channel not in sent):
                node = row.pop(0)
                if is_transfer_send(node):
                    sent.add(node.attrs.channel)
                yield node
        if sum(map(len, rows)) == count:
            waiting = [row[0] for row in rows if row]
            text = "meshes deadlock: " + ", ".join(f"channel {node.attrs.channel}" for node in waiting)
            raise ProgramError(Diagnostic("MG0401", text, waiting[0].loc))


def mesh_of_option(node: Node, meshes: Sequence[Mesh]) -> str:
    """The name of the one mesh that has the axes of a node's sharding option; empty if none or several do."""
    if not node.option or not meshes:
        return ""
    option = {split_ref(axis)[0] for axes in node.option for axis in axes}
    owners = [mesh.name for mesh in meshes if option and option <= set(mesh.names)]
    return owners[0] if len(owners) == 1 else ""


def without_meshes(graph: Graph, mesh: Mesh) -> Graph:
    """The graph as part of the program of a mesh: shardings do not name it, axis numbers are those of the mesh."""
    return Graph(graph.name, graph.inputs, [on_mesh(node, mesh) for node in graph.nodes], graph.outputs)


def on_mesh(node: Node, mesh: Mesh) -> Node:
    """The node as part of the program of a mesh."""
    attrs = {name: _on_mesh(value) for name, value in node.attrs.given.items()}
    option = node.option and tuple(tuple(_axis(axis, mesh) for axis in axes) for axes in node.option)
    sharding = node.sharding and replace(
        node.sharding,
        operands=tuple(replace(each, mesh="") for each in node.sharding.operands),
        results=tuple(replace(each, mesh="") for each in node.sharding.results),
    )
    regions = tuple(without_meshes(region, mesh) for region in node.regions)
    return replace(node, sharding=sharding, attrs=attrs, regions=regions, option=option)


def _on_mesh(value: Any) -> Any:
    if isinstance(value, Sharding):
        return replace(value, mesh="")
    if isinstance(value, tuple) and any(isinstance(each, Sharding) for each in value):
        return tuple(_on_mesh(each) for each in value)
    return value


def _axis(axis: str, mesh: Mesh) -> str:
    known = axis.isdigit() and axis not in mesh.names and int(axis) < len(mesh.names)
    return mesh.names[int(axis)] if known else axis
