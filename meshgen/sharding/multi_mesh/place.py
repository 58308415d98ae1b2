"""Choose a mesh for every value of a program on several meshes.

An annotated value is on the mesh that its annotation names. An op runs on the mesh of its operands; if these are on several, on the one
for which the fewest bytes are transferred, including the transfer of its result to its next mesh. A value without operands on a mesh (a
weight and values made of it alone) is on the mesh of its first use, and a value that depends on no input is made on every mesh
that uses it. Program order decides between equals, so no order of traversal matters.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from meshgen.errors import Diagnostic, Location, ShardingError
from meshgen.ir.graph import Annotation, Graph, Module, Node, Value
from meshgen.ir.parts import mesh_of_option
from meshgen.ir.regions import captured
from meshgen.mesh import Mesh
from meshgen.ops.classes import RETILING  # ops to another mesh, in programs written with their collectives
from meshgen.spec import Sharding


@dataclass
class Places:
    """The mesh (by name) of each value, and of each node with the reason; `free` values are made on every mesh that uses them."""

    home: dict[Value, str] = field(default_factory=dict[Value, str])
    nodes: dict[Node, str] = field(default_factory=dict[Node, str])
    why: dict[Node, str] = field(default_factory=dict[Node, str])
    free: set[Value] = field(default_factory=set[Value])


def place(module: Module) -> Places:
    """The places of a module at stage import. Raises ShardingError MG0209 with all values that cannot be placed."""
    placer = _Placer(module)
    placer.forward()
    placer.backward()
    if placer.faults:
        raise ShardingError(*placer.faults)
    return placer.found


class _Placer:
    def __init__(self, module: Module) -> None:
        self.module, self.graph = module, module.graph
        self.names = [mesh.name for mesh in module.meshes]
        self.found = Places()
        self.faults: list[Diagnostic] = []
        self.reads = {node: (*node.operands, *captured(node)) for node in self.graph.nodes}
        self.users: dict[Value, list[Node]] = {}
        for node, values in self.reads.items():
            for value in values:
                self.users.setdefault(value, []).append(node)
        self.asked = {node: self._asked(node) for node in self.graph.nodes}
        self.goal = self._goals()

    def _asked(self, node: Node) -> str:
        """The mesh that the node, or its regions, name; empty: none."""
        named = {mesh: loc for mesh, loc in _named(node, self.module.meshes) if mesh}
        if len(named) > 1:
            text = " and ".join(f"@{name}" for name in named)
            hint = "only loops with a constant trip count are unrolled; or keep it on one mesh and annotate its operands and results"
            self.faults.append(
                Diagnostic("MG0209", f"'{node.op}' runs on one mesh, but has values on {text}", node.loc, hint=hint)
            )
        return next(iter(named), "")

    def _goals(self) -> dict[Value, str]:
        """The mesh that each value leads to: that of the nearest annotation after it, the first in program order."""
        goal: dict[Value, str] = {}
        for value, annotation in zip(
            self.graph.outputs, _padded(self.module.out_annotations, self.graph.outputs), strict=True
        ):
            if annotation and annotation.sharding.mesh:
                goal.setdefault(value, annotation.sharding.mesh)
        for node in reversed(self.graph.nodes):
            mesh = self.asked[node] or next((goal[v] for v in node.results if v in goal), "")
            if mesh:
                goal.update(dict.fromkeys(self.reads[node], mesh))  # an earlier use takes precedence
        return goal

    def forward(self) -> None:
        """Place annotated values, and values computed from placed ones."""
        inputs = self.graph.inputs
        for value, annotation in zip(inputs, _padded(self.module.in_annotations, inputs), strict=True):
            sharding = annotation.sharding if annotation else value.sharding
            if sharding and sharding.mesh:
                self.found.home[value] = sharding.mesh
        for node in self.graph.nodes:
            if self.asked[node]:
                self._put(node, self.asked[node], "annotated so")
            elif not node.regions and all(value in self.found.free for value in node.operands):
                self.found.free.update(node.results)
            elif placed := [value for value in self.reads[node] if value in self.found.home]:
                self._put(node, *self._cheapest(node, placed))

    def _cheapest(self, node: Node, placed: Sequence[Value]) -> tuple[str, str]:
        """The mesh of one of the operands for which the fewest bytes are transferred; if equal that of the result's goal, then the later."""
        home = self.found.home
        goal = next((self.goal[value] for value in node.results if value in self.goal), "")
        choices = list(dict.fromkeys(home[value] for value in placed))

        def crossing(mesh: str) -> int:
            moved = sum(_nbytes(value) for value in dict.fromkeys(placed) if home[value] != mesh)
            return moved + (sum(map(_nbytes, node.results)) if goal and goal != mesh else 0)

        best = min(choices, key=lambda mesh: (crossing(mesh), mesh != goal, -self.names.index(mesh)))
        if len(choices) == 1:
            return best, "its operands are there"
        others = ", ".join(f"{crossing(mesh)} to run it on @{mesh}" for mesh in choices if mesh != best)
        return best, f"{crossing(best)} bytes cross, {others}"

    def backward(self) -> None:
        """Place values computed from unplaced values only: on the mesh of their first user."""
        for node in reversed(self.graph.nodes):
            if node not in self.found.nodes and not all(value in self.found.free for value in node.results):
                self._put(node, self._user(node.results), "it is first used there")
        for value in self.graph.inputs:
            self.found.home.setdefault(value, self._user([value]))

    def _user(self, values: Sequence[Value]) -> str:
        readers = (node for value in values for node in self.users.get(value, ()))
        users = (self.found.nodes[node] for node in readers if node in self.found.nodes)
        return next(users, next((self.goal[value] for value in values if value in self.goal), self.names[0]))

    def _put(self, node: Node, mesh: str, why: str) -> None:
        self.found.nodes[node], self.found.why[node] = mesh, why
        self.found.home.update(dict.fromkeys(node.results, mesh))


def first_named(module: Module) -> dict[str, Location | None]:
    """The meshes that annotations name, with where the program names them first."""
    ends = [*module.graph.inputs, *module.graph.outputs]
    annotations = [
        *_padded(module.in_annotations, module.graph.inputs),
        *_padded(module.out_annotations, module.graph.outputs),
    ]
    named = [(w.sharding.mesh, w.loc or value.loc) for value, w in zip(ends, annotations, strict=True) if w]
    found: dict[str, Location | None] = {}
    for mesh, loc in [*named, *_named_inside(module.graph, module.meshes)]:
        found[mesh] = found.get(mesh) or loc
    return found


def unknown_meshes(module: Module) -> Iterator[Diagnostic]:
    """A fault for each mesh that annotations name, but the program does not have, where it is named first."""
    own = [mesh.name for mesh in module.meshes or (module.mesh,)]
    hint = f"known meshes are {', '.join('@' + name for name in own)}"
    for name, loc in first_named(module).items():
        if name and name not in own:
            yield Diagnostic("MG0209", f"unknown mesh '@{name}'", loc, (), hint)


def is_on_several(node: Node, meshes: Sequence[Mesh]) -> bool:
    """Whether a node with regions has values on several meshes."""
    return bool(node.regions) and len({mesh for mesh, _ in _named(node, meshes) if mesh}) > 1


def _padded(annotations: Sequence[Annotation | None], values: Sequence[Value]) -> list[Annotation | None]:
    return [*annotations, *[None] * (len(values) - len(annotations))]


def _nbytes(value: Value) -> int:
    return value.type.nbytes if None not in value.type.shape else 0


def _named(node: Node, meshes: Sequence[Mesh]) -> Iterator[tuple[str, Location | None]]:
    """The meshes that a node's shardings are over or that alone have the axes of its option, regions included."""
    yield from ((value.sharding.mesh, node.loc) for value in node.results if value.sharding)
    for entry in node.attrs.given.values() if node.op not in RETILING else ():
        for each in entry if isinstance(entry, tuple) else (entry,):
            if isinstance(each, Sharding):
                yield each.mesh, node.loc
    if owner := mesh_of_option(node, meshes):
        yield owner, node.loc
    for region in node.regions:
        yield from _named_inside(region, meshes)


def _named_inside(graph: Graph, meshes: Sequence[Mesh]) -> Iterator[tuple[str, Location | None]]:
    for node in graph.nodes:
        yield from _named(node, meshes)
