"""Choose a mesh for every value of a program on several meshes.

An annotated value is on the mesh that its annotation names. An op runs on the mesh of its operands. If its operands are
on several meshes, it runs on the mesh that needs the fewest transferred bytes, including the transfer of its result to
the next mesh. A value that depends on no value with a mesh (a weight, or values computed only from weights) is on the
mesh of its first use. A value that depends on no input at all is computed on every mesh that uses it. Program order
breaks ties.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from meshgen.errors import Diagnostic, Location, ShardingError
from meshgen.ir.graph import Annotation, Graph, Module, Node, Value
from meshgen.ir.multi_mesh import mesh_of_option
from meshgen.ir.regions import captured
from meshgen.mesh import Mesh
from meshgen.ops.classes import RETILING  # ops that transfer a value to another mesh, in programs with collectives
from meshgen.spec import Sharding


@dataclass
class Places:
    """The mesh (by name) of each value and node, and the reason for each node. `free` values are computed on every mesh
    that uses them.
    """

    home: dict[Value, str] = field(default_factory=dict[Value, str])
    nodes: dict[Node, str] = field(default_factory=dict[Node, str])
    why: dict[Node, str] = field(default_factory=dict[Node, str])
    free: set[Value] = field(default_factory=set[Value])


def place(module: Module) -> Places:
    """Return the mesh of each value and node of a module at stage `import`.

    Raises ShardingError (MG0209) with all values that cannot be assigned to a mesh.
    """
    placer = _Placer(module)
    placer.forward()
    placer.backward()
    if placer.faults:
        raise ShardingError(*placer.faults)
    return placer.places


class _Placer:
    def __init__(self, module: Module) -> None:
        self.module, self.graph = module, module.graph
        self.names = [mesh.name for mesh in module.meshes]
        self.places = Places()
        self.faults: list[Diagnostic] = []
        self.reads = {node: (*node.operands, *captured(node)) for node in self.graph.nodes}
        self.users: dict[Value, list[Node]] = {}
        for node, values in self.reads.items():
            for value in values:
                self.users.setdefault(value, []).append(node)
        self.named_mesh = {node: self._named_mesh(node) for node in self.graph.nodes}
        self.destinations = self._destinations()

    def _named_mesh(self, node: Node) -> str:
        """Return the mesh that the node or its regions name, or "" if they name none."""
        named = {mesh: loc for mesh, loc in _named(node, self.module.meshes) if mesh}
        if len(named) > 1:
            text = " and ".join(f"@{name}" for name in named)
            hint = "only loops with a constant trip count are unrolled; or keep it on one mesh and annotate its operands and results"
            self.faults.append(
                Diagnostic("MG0209", f"'{node.op}' runs on one mesh, but has values on {text}", node.loc, hint=hint)
            )
        return next(iter(named), "")

    def _destinations(self) -> dict[Value, str]:
        """Return, for each value, the mesh that the nearest annotation downstream names.

        If several are equally near, the first one in program order counts.
        """
        destinations: dict[Value, str] = {}
        for value, annotation in zip(
            self.graph.outputs, _padded(self.module.out_annotations, self.graph.outputs), strict=True
        ):
            if annotation and annotation.sharding.mesh:
                destinations.setdefault(value, annotation.sharding.mesh)
        for node in reversed(self.graph.nodes):
            mesh = self.named_mesh[node] or next((destinations[v] for v in node.results if v in destinations), "")
            if mesh:
                destinations.update(dict.fromkeys(self.reads[node], mesh))  # an earlier use takes precedence
        return destinations

    def forward(self) -> None:
        """Assign annotated values, and the values computed from assigned values, to meshes."""
        inputs = self.graph.inputs
        for value, annotation in zip(inputs, _padded(self.module.in_annotations, inputs), strict=True):
            sharding = annotation.sharding if annotation else value.sharding
            if sharding and sharding.mesh:
                self.places.home[value] = sharding.mesh
        for node in self.graph.nodes:
            if self.named_mesh[node]:
                self._assign(node, self.named_mesh[node], "because of its annotation")
            elif not node.regions and all(value in self.places.free for value in node.operands):
                self.places.free.update(node.results)
            elif placed := [value for value in self.reads[node] if value in self.places.home]:
                self._assign(node, *self._cheapest(node, placed))

    def _cheapest(self, node: Node, placed: Sequence[Value]) -> tuple[str, str]:
        """Return the operand's mesh that needs the fewest transferred bytes, with the reason.

        Ties go to the mesh that the result leads to, then to the mesh that is declared last.
        """
        home = self.places.home
        destination = next((self.destinations[value] for value in node.results if value in self.destinations), "")
        choices = list(dict.fromkeys(home[value] for value in placed))

        def crossing(mesh: str) -> int:
            moved = sum(_nbytes(value) for value in dict.fromkeys(placed) if home[value] != mesh)
            return moved + (sum(map(_nbytes, node.results)) if destination and destination != mesh else 0)

        best = min(choices, key=lambda mesh: (crossing(mesh), mesh != destination, -self.names.index(mesh)))
        if len(choices) == 1:
            return best, "its operands are there"
        alternatives = ", ".join(f"{crossing(mesh)} to run it on @{mesh}" for mesh in choices if mesh != best)
        return best, f"{crossing(best)} bytes cross, {alternatives}"

    def backward(self) -> None:
        """Assign the values that depend on no assigned value to the mesh of their first user."""
        for node in reversed(self.graph.nodes):
            if node not in self.places.nodes and not all(value in self.places.free for value in node.results):
                self._assign(node, self._first_user_mesh(node.results), "it is first used there")
        for value in self.graph.inputs:
            self.places.home.setdefault(value, self._first_user_mesh([value]))

    def _first_user_mesh(self, values: Sequence[Value]) -> str:
        user_nodes = (node for value in values for node in self.users.get(value, ()))
        user_meshes = (self.places.nodes[node] for node in user_nodes if node in self.places.nodes)
        return next(
            user_meshes,
            next((self.destinations[value] for value in values if value in self.destinations), self.names[0]),
        )

    def _assign(self, node: Node, mesh: str, why: str) -> None:
        self.places.nodes[node], self.places.why[node] = mesh, why
        self.places.home.update(dict.fromkeys(node.results, mesh))


def first_named(module: Module) -> dict[str, Location | None]:
    """Return the meshes that annotations name, with the location of the first annotation that names each."""
    ends = [*module.graph.inputs, *module.graph.outputs]
    annotations = [
        *_padded(module.in_annotations, module.graph.inputs),
        *_padded(module.out_annotations, module.graph.outputs),
    ]
    named = [
        (annotation.sharding.mesh, annotation.loc or value.loc)
        for value, annotation in zip(ends, annotations, strict=True)
        if annotation
    ]
    locations: dict[str, Location | None] = {}
    for mesh, loc in [*named, *_named_inside(module.graph, module.meshes)]:
        locations[mesh] = locations.get(mesh) or loc
    return locations


def unknown_meshes(module: Module) -> Iterator[Diagnostic]:
    """Yield a fault, at its first use, for each mesh that annotations name but the program does not declare."""
    declared = [mesh.name for mesh in module.meshes or (module.mesh,)]
    hint = f"known meshes are {', '.join('@' + name for name in declared)}"
    for name, loc in first_named(module).items():
        if name and name not in declared:
            yield Diagnostic("MG0209", f"unknown mesh '@{name}'", loc, (), hint)


def is_on_several(node: Node, meshes: Sequence[Mesh]) -> bool:
    """Whether a node has regions with values on several meshes."""
    return bool(node.regions) and len({mesh for mesh, _ in _named(node, meshes) if mesh}) > 1


def _padded(annotations: Sequence[Annotation | None], values: Sequence[Value]) -> list[Annotation | None]:
    return [*annotations, *[None] * (len(values) - len(annotations))]


def _nbytes(value: Value) -> int:
    return value.type.nbytes if None not in value.type.shape else 0


def _named(node: Node, meshes: Sequence[Mesh]) -> Iterator[tuple[str, Location | None]]:
    """Yield the mesh of each sharding in `node` and its regions, with the location.

    A sharding option that names axes of a single mesh yields that mesh as well.
    """
    yield from ((value.sharding.mesh, node.loc) for value in node.results if value.sharding)
    for entry in node.attrs.given.values() if node.op not in RETILING else ():
        for item in entry if isinstance(entry, tuple) else (entry,):
            if isinstance(item, Sharding):
                yield item.mesh, node.loc
    if owner := mesh_of_option(node, meshes):
        yield owner, node.loc
    for region in node.regions:
        yield from _named_inside(region, meshes)


def _named_inside(graph: Graph, meshes: Sequence[Mesh]) -> Iterator[tuple[str, Location | None]]:
    for node in graph.nodes:
        yield from _named(node, meshes)
