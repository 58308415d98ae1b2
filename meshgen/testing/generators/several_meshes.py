"""Random programs on two meshes: some annotations of a program are moved to a second mesh, and op options are redrawn
for that mesh.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from meshgen.ir.graph import Annotation, Graph, Module, Node, Value
from meshgen.mesh import Mesh, make_mesh
from meshgen.sharding.multi_mesh.mesh_assignment import place
from meshgen.spec import Sharding
from meshgen.testing.generators.shardings import random_annotation, random_mesh, random_option
from meshgen.testing.generators.writer import Writer

_NEXT_NAME = dict(zip("xyzw", "stuv", strict=True))


def on_two_meshes(module: Module, rng: np.random.Generator) -> Module:
    """Return a program at stage import on two meshes. Each annotation stays on the original mesh, which is now @a, or
    is replaced by an annotation on mesh @b.

    The random mesh @b may share axis names with @a. Either mesh may be the first in the list of meshes.
    """
    spreading = _Spreading(module, rng)
    spreading.annotate()
    spreading.choose_options()
    return spreading.module


class _Spreading:
    def __init__(self, module: Module, rng: np.random.Generator) -> None:
        self.original_mesh = replace(module.mesh, name="a")
        self.writer = Writer(rng, _other_mesh(rng))
        meshes = (
            (self.original_mesh, self.writer.mesh)
            if self.writer.chance(0.5)
            else (self.writer.mesh, self.original_mesh)
        )
        self.module = replace(module, mesh=meshes[0], meshes=meshes)

    def annotate(self) -> None:
        graph = self.module.graph
        annotations = dict[str, list[Annotation | None]]()
        for side, values in (("in_annotations", graph.inputs), ("out_annotations", graph.outputs)):
            pairs = zip(getattr(self.module, side), values, strict=True)
            annotations[side] = [annotation and self._placed(annotation, value) for annotation, value in pairs]
        for node in graph.nodes:
            if node.op == "annotate":
                attrs = node.attrs
                moved = self._placed(Annotation(attrs.sharding, attrs.required, attrs.open_dims), node.result)
                node.attrs = replace(attrs, sharding=moved.sharding, required=moved.required, open_dims=moved.open_dims)
            else:
                _bind_to(node, self.original_mesh)
        self.module = replace(self.module, **annotations)

    def _placed(self, annotation: Annotation, value: Value) -> Annotation:
        mesh = self.original_mesh
        if self.writer.chance(0.5):
            mesh = self.writer.mesh
            annotation = random_annotation(self.writer, mesh, value)
        return replace(annotation, sharding=replace(annotation.sharding, mesh=mesh.name))

    def choose_options(self) -> None:
        """Draw new options for the ops on the second mesh, over its axes."""
        places, second = place(self.module), self.writer.mesh
        for node in self.module.graph.nodes:
            if node.option is None:
                continue
            if node not in places.nodes:  # without a mesh: computed on every mesh that uses it
                node.option = None
            elif places.nodes[node] == second.name:
                node.option = random_option(self.writer, second, node)


def _other_mesh(rng: np.random.Generator) -> Mesh:
    mesh = random_mesh(rng)
    names = {name: name if rng.random() < 0.3 else _NEXT_NAME[name] for name in mesh.names}
    return make_mesh({names[axis.name]: axis.size for axis in mesh.axes}, "b")


def _bind_to(node: Node, mesh: Mesh) -> None:
    """Set the mesh of a manual computation, and of the ones nested in it, to the mesh for which it was written."""
    node.attrs = replace(node.attrs, **{name: _over(value, mesh) for name, value in node.attrs.given.items()})
    for region in node.regions:
        _bind_region_to(region, mesh)


def _bind_region_to(region: Graph, mesh: Mesh) -> None:
    for node in region.nodes:
        _bind_to(node, mesh)


def _over(value: Any, mesh: Mesh) -> Any:
    if isinstance(value, Sharding):
        return replace(value, mesh=mesh.name)
    if isinstance(value, tuple) and any(isinstance(item, Sharding) for item in value):
        return tuple(_over(item, mesh) for item in value)
    return value
