"""Random programs for the oracle: small graphs over odd sizes, odd meshes, and annotations that get in each other's way.

The same seed gives the same program. Sizes are 1 to 13, so that tiles are uneven or empty and dims of one
row are split; meshes have one to three axes, of size 1 too.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from meshgen.ir.graph import DTYPES, Annotation, Module, TensorType, Value, is_float
from meshgen.mesh import Mesh, make_mesh
from meshgen.sharding.generate_ops import OPS, Writer
from meshgen.sharding.generate_structured import STRUCTURED
from meshgen.spec import Sharding

MAX_DEVICES = 8


def random_program(seed: int) -> Module:
    """A program of 3 to about 8 ops at stage import, with required annotations and hints."""
    writer = Writer(np.random.default_rng(seed))
    for _ in range(writer.integer(1, 4)):
        writer.new_input()
    count = writer.integer(3, 8)
    while len(writer.graph.nodes) < count:
        writer.one_of((*OPS, *STRUCTURED))(writer)
    graph, mesh = writer.graph, _random_mesh(writer)
    graph.outputs = [graph.nodes[-1].results[-1]]
    while writer.chance(0.3):
        graph.outputs.append(writer.one_of(writer.values))
    _annotate_inside(writer, mesh)
    wishes = [_random_wish(writer, mesh, v) if writer.chance(0.6) else None for v in graph.inputs]
    results = [_random_wish(writer, mesh, v) if writer.chance(0.5) else None for v in graph.outputs]
    return Module(mesh, graph, in_annotations=wishes, out_annotations=results)


def random_arguments(module: Module, seed: int = 0) -> list[np.ndarray[Any, Any]]:
    """Seeded global arguments without zeros: floats of either sign near 1, integers from 1 to 6, booleans."""
    types = module.in_types or [value.type for value in module.graph.inputs]
    return [_random_array(np.random.default_rng([seed, i]), kind) for i, kind in enumerate(types)]


def _random_array(rng: np.random.Generator, kind: TensorType) -> np.ndarray[Any, Any]:
    shape, dtype = kind.sizes, DTYPES[kind.dtype]
    if kind.dtype == "i1":
        return np.asarray(rng.integers(0, 2, shape) == 1)
    if not is_float(kind.dtype):
        return np.asarray(rng.integers(1, 7, shape)).astype(dtype)
    sign = np.where(rng.integers(0, 2, shape) == 1, 1.0, -1.0)
    return np.asarray(sign * rng.uniform(0.25, 1.5, shape)).astype(dtype)


def _random_mesh(writer: Writer) -> Mesh:
    sizes: list[int] = []
    for _ in range(writer.integer(1, 4)):
        sizes.append(writer.one_of([s for s in (1, 2, 2, 3, 4, 8) if s * math.prod(sizes) <= MAX_DEVICES]))
    return make_mesh({"xyz"[i]: size for i, size in enumerate(sizes)})


def _random_sharding(writer: Writer, mesh: Mesh, kind: TensorType) -> Sharding:
    """Each axis, or a half of it, splits some dim, or makes the value partial, or does nothing."""
    dims: list[list[str]] = [[] for _ in kind.shape]
    partial: list[tuple[str, str]] = []
    for number in writer.rng.permutation(len(mesh.axes)):
        axis = mesh.names[number]
        if mesh.axis_size(axis) == 4 and writer.chance(0.2):
            axis = writer.one_of(mesh.split_axis(axis, 2, 2))
        if dims and writer.chance(0.65):
            dims[writer.integer(0, len(dims))].append(axis)
        elif kind.dtype in ("f32", "i32") and writer.chance(0.1):
            partial.append((axis, "sum"))
    return Sharding(tuple(map(tuple, dims)), tuple(sorted(partial, key=lambda pair: mesh.order(pair[0]))))


def _random_wish(writer: Writer, mesh: Mesh, value: Value) -> Annotation:
    opened = tuple(writer.chance(0.3) for _ in value.type.shape)
    return Annotation(_random_sharding(writer, mesh, value.type), writer.chance(0.6), opened)


def _annotate_inside(writer: Writer, mesh: Mesh) -> None:
    """`annotate` after some nodes; the uses that follow see the annotated value."""
    graph = writer.graph
    nodes, graph.nodes = graph.nodes, []
    renamed: dict[Value, Value] = {}
    for node in nodes:
        node.operands = [renamed.get(v, v) for v in node.operands]
        for inner in (inner for body in node.regions for inner in body.nodes):
            inner.operands = [renamed.get(v, v) for v in inner.operands]
        graph.nodes.append(node)
        if len(node.results) == 1 and writer.chance(0.3):
            wish = _random_wish(writer, mesh, node.result)
            attrs = {"sharding": wish.sharding, "required": wish.required, "as_result": writer.chance(0.7)}
            noted = graph.add("annotate", [node.result], [node.result.type], {**attrs, "open_dims": wish.open_dims})
            renamed[node.result] = noted.result
    graph.outputs = [renamed.get(v, v) for v in graph.outputs]
