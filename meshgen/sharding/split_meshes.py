"""From a program on several meshes to one program per mesh, with a pair of transfers where a value crosses.

Before:  %h = dot_general %x, %w (on @a)   %y = tanh %h (on @b)
After:   @a: %h = dot_general %x, %w, %t = transfer_send %h to @b       @b: %h = transfer_recv from @a, %y = tanh %h

A value crosses once for every mesh that uses it. Transfers stand in program order in all parts, and each takes the
turn that the one before leaves, so that no pass can put them into different orders on two meshes.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from meshgen.errors import Diagnostic, Location, ShardingError
from meshgen.ir.graph import Annotation, Graph, Module, Node, Value
from meshgen.ir.infer_sharding import TURN
from meshgen.ir.parts import joined, on_mesh
from meshgen.mesh import Mesh
from meshgen.sharding.place import Places, place


def split_meshes(module: Module) -> Module:
    """The module in parts, one per mesh in order of declaration; one that is on a single mesh stays as it is.

    Raises ShardingError: MG0209 for what cannot be placed on a mesh, MG0201 where the size of a mesh is unknown.
    """
    if len(module.meshes) < 2 or module.parts:
        return module
    unknown = [mesh for mesh in module.meshes if not mesh.is_static]
    if unknown:
        hint = "a program on several meshes needs the sizes of all of them"
        faults = [Diagnostic("MG0201", f"@{m.name} is {m}: a size is unknown", None, (), hint) for m in unknown]
        raise ShardingError(*faults)
    writer = _Writer(module, place(module))
    writer.write()
    return joined(module, [part.module() for part in writer.parts.values()])


class _Part:
    """The program of one mesh as it grows."""

    def __init__(self, whole: Module, mesh: Mesh) -> None:
        self.whole, self.mesh = whole, mesh
        self.graph = Graph(whole.graph.name)
        self.here: dict[Value, Value] = {}  # what stands for a value of the whole program
        self.inputs: list[int] = []
        self.outputs: list[int] = []
        self.turn: list[Value] = []  # what the last transfer left

    def module(self) -> Module:
        ins, outs = self.whole.in_annotations, self.whole.out_annotations
        return Module(
            self.mesh,
            self.graph,
            self.whole.stage,
            self.mesh.name,
            [_here(ins[n]) if n < len(ins) else None for n in self.inputs],
            [_here(outs[n]) if n < len(outs) else None for n in self.outputs],
            attrs={**self.whole.attrs, "inputs": self.inputs, "outputs": self.outputs},
            meshes=(self.mesh, *(mesh for mesh in self.whole.meshes if mesh is not self.mesh)),
        )


def _here(wish: Annotation | None) -> Annotation | None:
    return wish and replace(wish, sharding=replace(wish.sharding, mesh=""))


class _Writer:
    """Writes all parts in one walk."""

    def __init__(self, module: Module, places: Places) -> None:
        self.module, self.places = module, places
        self.parts = {mesh.name: _Part(module, mesh) for mesh in module.meshes}
        self.makers = module.graph.producers()
        self.channel = 0

    def write(self) -> None:
        graph, places = self.module.graph, self.places
        for number, value in enumerate(graph.inputs):
            part = self.parts[places.home[value]]
            part.graph.inputs.append(value)
            part.inputs.append(number)
            part.here[value] = value
        for node in graph.nodes:
            if node in places.nodes:
                part = self.parts[places.nodes[node]]
                self._copy(node, part, node.results)
        wishes = [*self.module.out_annotations, *[None] * len(graph.outputs)]
        for number, value in enumerate(graph.outputs):
            wish = wishes[number]
            home = (wish.sharding.mesh if wish else "") or places.home.get(value, self.module.meshes[0].name)
            part = self.parts[home]
            part.outputs.append(number)
            part.graph.outputs.append(self._use(value, part, f"output {number}", value.loc))

    def _copy(self, node: Node, part: _Part, results: list[Value]) -> None:
        reason = self.places.why.get(node, "")
        user = f"{node.op} is on @{part.mesh.name}" + (f" ({reason})" if reason else "")
        operands = [self._use(value, part, user, node.loc) for value in node.operands]
        part.graph.nodes.append(replace(on_mesh(node, part.mesh), operands=operands, results=results))
        part.here.update(zip(node.results, results, strict=True))

    def _use(self, value: Value, part: _Part, user: str, loc: Location | None) -> Value:
        """What stands for a value in a part: itself, a copy of how it is made, or what is received."""
        if value not in part.here:
            if value in self.places.free:
                maker = self.makers[value]
                self._copy(maker, part, [replace(result) for result in maker.results])
            elif 0 in value.type.shape:  # there is nothing to send
                self._empty(value, part)
            else:
                self._cross(value, part, user, loc)
        return part.here[value]

    def _empty(self, value: Value, part: _Part) -> None:
        nothing = np.zeros(value.type.sizes, value.type.numpy_dtype)
        part.here[value] = part.graph.add("constant", [], [value.type], {"value": nothing}, name=value.name).result

    def _cross(self, value: Value, part: _Part, user: str, loc: Location | None) -> None:
        home = self.parts[self.places.home[value]]
        name = f"'{value.name}'" if value.name else "a value"
        why = f"{name} is on @{home.mesh.name}, {user}"
        attrs = {"channel": self.channel, "shape": value.type.sizes, "why": why}
        self.channel += 1
        to, back = {**attrs, "peer": part.mesh}, {**attrs, "peer": home.mesh}
        sent = home.graph.add("transfer_send", [home.here[value], *home.turn], [TURN], to, loc=loc)
        got = part.graph.add("transfer_recv", part.turn, [value.type, TURN], back, loc=loc)
        got.results[0].name, got.results[1].name = value.name, ""
        home.turn, part.turn = [sent.result], [got.results[1]]
        part.here[value] = got.results[0]
