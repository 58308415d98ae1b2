"""Programs on several meshes: one module (a part) per mesh, and the transfers between them.

`Module.in_numbers` and `out_numbers` of a part hold the positions of its inputs and outputs in the entire program.
The `transfer_send` and `transfer_recv` with the same channel are the two ends of one transfer.
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
    """Return (module, input positions, output positions) per mesh. Positions refer to the entire program.

    A program on one mesh is its own only part.
    """
    if module.parts:
        return [(part, program_indices(part, "inputs"), program_indices(part, "outputs")) for part in module.parts]
    return [(module, range(len(module.graph.inputs)), range(len(module.graph.outputs)))]


def program_indices(part: Module, side: str) -> tuple[int, ...]:
    """Return the positions of a part's `inputs` or `outputs` (`side`) in the entire program."""
    numbers = part.in_numbers if side == "inputs" else part.out_numbers
    assert numbers is not None, "a part has its numbers"
    return numbers


def joined(module: Module, parts: Sequence[Module]) -> Module:
    """Return `module` with `parts` as its parts.

    Its stage and the types and shardings of its inputs and outputs are taken from `parts`.
    """
    tables: dict[str, dict[int, Any]] = {name: {} for name in (*_TABLES, "inputs", "outputs")}
    for part in parts:
        for side in ("inputs", "outputs"):
            tables[side].update(zip(program_indices(part, side), getattr(part.graph, side), strict=True))
        for name in _TABLES:
            numbers = program_indices(part, "inputs" if name.startswith("in") else "outputs")
            tables[name].update(zip(numbers, getattr(part, name), strict=False))
    lists = {name: [table[index] for index in sorted(table)] for name, table in tables.items()}
    graph = Graph(module.graph.name, lists.pop("inputs"), [], lists.pop("outputs"))
    first, meshes = parts[0], tuple(part.mesh for part in parts)
    return replace(
        module, mesh=meshes[0], meshes=meshes, graph=graph, parts=list(parts), stage=first.stage, arguments=first.arguments, **lists
    )  # fmt: skip


def assemble_parts(module: Module, parts: Sequence[Module]) -> Module:
    """Assemble a module from parsed parts. Raises ProgramError with all contradictions between the parts."""
    parts = [_numbered(part, parts[:index]) for index, part in enumerate(parts)]
    faults = [*_part_faults(parts), *_signature_faults(parts)]
    faults = faults or list(_transfer_faults(parts))
    if faults:
        raise ProgramError(*faults)
    return joined(module, parts)


def _numbered(part: Module, previous_parts: Sequence[Module]) -> Module:
    """Return the part with `in_numbers` and `out_numbers` set.

    If the part's text does not give these positions, they continue after those of `previous_parts`.
    """
    first_in = sum(len(previous.graph.inputs) for previous in previous_parts)
    first_out = sum(len(previous.graph.outputs) for previous in previous_parts)
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
        numbers = [index for part in parts for index in program_indices(part, side)]
        if sorted(numbers) != list(range(len(numbers))):
            yield Diagnostic("MG0104", f"the numbers of the {side} of the parts are {numbers}; each must occur once")


def _transfer_faults(parts: Sequence[Module]) -> Iterator[Diagnostic]:
    """Yield a diagnostic for each send or receive without its counterpart, and for each send that contradicts its
    receive.
    """
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
    """Merge the graphs of all parts into one graph without transfers: users of a received value use the sent value
    instead.

    Valid before `partition`, while types are global.
    """
    sent: dict[int, Value] = {}
    graph = Graph(module.graph.name, list(module.graph.inputs))
    outputs_by_number: dict[int, Value] = {}
    replacements: dict[Value, Value] = {}
    for part, inputs, _ in parts_of(module):
        replacements.update(zip(part.graph.inputs, (module.graph.inputs[index] for index in inputs), strict=True))
    for node in _interleaved(module.parts):
        if is_transfer_send(node):
            sent[node.attrs.channel] = replacements.get(node.operands[0], node.operands[0])
        elif is_transfer_recv(node):
            replacements[node.results[0]] = sent[node.attrs.channel]
        else:
            graph.nodes.append(replace(node, operands=[replacements.get(value, value) for value in node.operands]))
    for part, _, outputs in parts_of(module):
        outputs_by_number.update(
            zip(outputs, (replacements.get(value, value) for value in part.graph.outputs), strict=True)
        )
    graph.outputs = [outputs_by_number[index] for index in sorted(outputs_by_number)]
    return graph


def _interleaved(parts: Sequence[Module]) -> Iterator[Node]:
    """Yield the nodes of all parts, each receive after its send. Raises ProgramError if transfers wait for each other."""
    queues = [list(part.graph.nodes) for part in parts]
    sent: set[int] = set()
    while any(queues):
        remaining = sum(map(len, queues))
        for queue in queues:
            while queue and not (is_transfer_recv(queue[0]) and queue[0].attrs.channel not in sent):
                node = queue.pop(0)
                if is_transfer_send(node):
                    sent.add(node.attrs.channel)
                yield node
        if sum(map(len, queues)) == remaining:
            waiting = [queue[0] for queue in queues if queue]
            text = "meshes deadlock: " + ", ".join(f"channel {node.attrs.channel}" for node in waiting)
            raise ProgramError(Diagnostic("MG0401", text, waiting[0].loc))


def mesh_of_option(node: Node, meshes: Sequence[Mesh]) -> str:
    """Return the name of the mesh that the user's sharding option of a node refers to.

    Returns "" unless exactly one of `meshes` has all axes of the option.
    """
    if not node.option or not meshes:
        return ""
    option = {split_ref(axis)[0] for axes in node.option for axis in axes}
    owners = [mesh.name for mesh in meshes if option and option <= set(mesh.names)]
    return owners[0] if len(owners) == 1 else ""


def without_meshes(graph: Graph, mesh: Mesh) -> Graph:
    """Return the graph as it appears in the part of `mesh`.

    Shardings no longer name the mesh, and axis indices become axis names.
    """
    return Graph(graph.name, graph.inputs, [on_mesh(node, mesh) for node in graph.nodes], graph.outputs)


def on_mesh(node: Node, mesh: Mesh) -> Node:
    """Return the node rewritten for the part of one mesh (see `without_meshes`)."""
    attrs = {name: _on_mesh(value) for name, value in node.attrs.given.items()}
    option = node.option and tuple(tuple(_axis(axis, mesh) for axis in axes) for axes in node.option)
    sharding = node.sharding and replace(
        node.sharding,
        operands=tuple(replace(value_sharding, mesh="") for value_sharding in node.sharding.operands),
        results=tuple(replace(value_sharding, mesh="") for value_sharding in node.sharding.results),
    )
    regions = tuple(without_meshes(region, mesh) for region in node.regions)
    return replace(node, sharding=sharding, attrs=attrs, regions=regions, option=option)


def _on_mesh(value: Any) -> Any:
    if isinstance(value, Sharding):
        return replace(value, mesh="")
    if isinstance(value, tuple) and any(isinstance(item, Sharding) for item in value):
        return tuple(_on_mesh(item) for item in value)
    return value


def _axis(axis: str, mesh: Mesh) -> str:
    is_index = axis.isdigit() and axis not in mesh.names and int(axis) < len(mesh.names)
    return mesh.names[int(axis)] if is_index else axis
