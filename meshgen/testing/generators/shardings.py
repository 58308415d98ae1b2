"""Random meshes, shardings, annotations and options, including the corner cases of shardings."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from meshgen.ir.graph import Annotation, Graph, Node, TensorType, Value
from meshgen.ir.op_names import ANNOTATIONS
from meshgen.mesh import Mesh, make_mesh
from meshgen.ops.classes import ON_RANKS
from meshgen.ops.op import Trait
from meshgen.ops.registry import OPS, has_rule, rule_of
from meshgen.sharding.propagation.reach import fits
from meshgen.spec import Sharding
from meshgen.testing.generators.writer import USUAL, Variety, Writer

MAX_DEVICES = USUAL.devices
_KINDS = {
    "f32": ("sum", "sum", "sum", "max", "min", "product"),
    "bf16": ("sum", "max", "min"),
    "i32": ("sum", "max", "min", "product", "and", "or", "xor"),
    "i1": ("and", "or", "xor"),
    **dict.fromkeys(("f16", "f64"), ("sum", "max", "min")),
    **dict.fromkeys(("c64", "c128"), ("sum",)),
    **dict.fromkeys(("i64", "i8", "ui8", "ui32", "i16", "ui16"), ("sum", "max", "min", "or", "xor")),
}
# axis size -> ways to split an axis of that size into sub-axes
_PARTS = {4: ((2, 2),), 8: ((2, 4), (4, 2), (2, 2, 2)), 6: ((2, 3),)}
_ALL_PARTS = _PARTS | {6: ((2, 3), (3, 2)), 12: ((2, 6), (6, 2), (3, 4), (4, 3), (2, 2, 3), (2, 3, 2), (3, 2, 2))}


def random_mesh(rng: np.random.Generator, variety: Variety = USUAL) -> Mesh:
    """Return a mesh of one to four axes (in some varieties more), some of size 1."""
    sizes: list[int] = []
    for _ in range(int(rng.integers(1, variety.axes + 1))):
        fitting = [s for s in variety.sizes if s * math.prod(sizes) <= variety.devices]
        sizes.append(fitting[int(rng.integers(len(fitting)))])
    return make_mesh({"xyzwvu"[i]: size for i, size in enumerate(sizes)})


def random_sharding(writer: Writer, mesh: Mesh, type_: TensorType) -> Sharding:
    """Return a sharding in which each axis or sub-axis shards a dim, makes the value partial, or is unused."""
    dims: list[list[str]] = [[] for _ in type_.shape]
    partial: list[tuple[str, str]] = []
    for axis in _shuffled_axes(writer, mesh):
        if dims and writer.chance(0.65):
            dims[writer.integer(0, len(dims))].append(axis)
        elif type_.dtype in _KINDS and writer.chance(0.15):
            partial.append((axis, writer.one_of(_KINDS[type_.dtype])))
    sharding = Sharding(tuple(map(tuple, dims)), tuple(sorted(partial, key=lambda pair: mesh.order(pair[0]))))
    # halos and offsets are valid only for one size of the dim
    if not sharding.split_axes or writer.variety.named or writer.chance(0.85):
        return sharding
    return (
        _with_halo(writer, sharding, type_, mesh)
        if writer.chance(0.5)
        else _with_offsets(writer, sharding, type_, mesh)
    )


def _shuffled_axes(writer: Writer, mesh: Mesh) -> list[str]:
    """Return the mesh axes in random order, some split into sub-axes, of which some may be omitted."""
    references: list[str] = []
    for index in writer.order(len(mesh.axes)):
        axis = mesh.names[index]
        parts = (_ALL_PARTS if writer.variety.cuts else _PARTS).get(mesh.axis_size(axis))
        if parts and writer.chance(0.6 if writer.variety.cuts else 0.25):
            sub_axes = mesh.split_axis(axis, *writer.one_of(parts))
            references += [sub_axes[i] for i in writer.order(len(sub_axes)) if writer.chance(0.75)]
        else:
            references.append(axis)
    return references


def _with_halo(writer: Writer, sharding: Sharding, type_: TensorType, mesh: Mesh) -> Sharding:
    """Add halos of up to two elements on both sides of sharded dims, but not more than a shard has."""

    def rows(dim: int) -> int:
        limit = min(2, sharding.tile(dim, type_.sizes[dim], mesh)) if sharding.dims[dim] else 0
        return writer.integer(0, limit + 1)

    return replace(sharding, halo=tuple((rows(dim), rows(dim)) for dim in range(type_.rank)))


def _with_offsets(writer: Writer, sharding: Sharding, type_: TensorType, mesh: Mesh) -> Sharding:
    """Add shards of random sizes along one dim; some are empty."""
    dim = writer.one_of([d for d, axes in enumerate(sharding.dims) if axes])
    size = type_.sizes[dim]
    inner = sorted(writer.integer(0, size + 1) for _ in range(sharding.parts(dim, mesh) - 1))
    return replace(sharding, offsets=tuple((0, *inner, size) if d == dim else () for d in range(type_.rank)))


def random_annotation(writer: Writer, mesh: Mesh, value: Value) -> Annotation:
    opened = tuple(writer.chance(0.3) for _ in value.type.shape)
    return Annotation(random_sharding(writer, mesh, value.type), writer.chance(0.6), opened)


def annotate_inside(writer: Writer, mesh: Mesh) -> None:
    """Insert `annotate` after some nodes and set options on some nodes. Later users read the annotated value."""
    graph = writer.graph
    nodes, graph.nodes = graph.nodes, []
    replacements: dict[Value, Value] = {}
    for node in nodes:
        _rename(node, replacements)
        graph.nodes.append(node)
        if _accepts_option(node, writer) and writer.chance(0.08):
            node.option = random_option(writer, mesh, node)
        if len(node.results) == 1 and writer.chance(0.3):
            annotation = random_annotation(writer, mesh, node.result)
            # users may not be able to read the value in this sharding
            as_result = writer.chance(0.7) or writer.variety.cuts
            attrs = {"sharding": annotation.sharding, "required": annotation.required, "as_result": as_result}
            annotated = graph.add(
                "annotate", [node.result], [node.result.type], {**attrs, "open_dims": annotation.open_dims}
            )
            replacements[node.result] = annotated.result
    graph.outputs = [replacements.get(v, v) for v in graph.outputs]


def open_body(writer: Writer, node: Node) -> None:
    """Annotate the inputs, values and outputs of a manual computation over the mesh axes that are not manual."""
    manual = node.attrs.axes
    free = Mesh(tuple(axis for axis in writer.mesh.axes if axis.name not in manual))
    if not free.axes:
        return
    annotate_inside(replace(writer, graph=node.regions[0]), free)
    if writer.chance(0.3):  # sometimes only annotations in the body use the free axes
        return
    body = node.regions[0]
    sides = (body.inputs, node.attrs.in_shardings), (body.outputs, node.attrs.out_shardings)
    ins, outs = (tuple(_annotated_tile(writer, v.type, s, free) for v, s in zip(*side, strict=True)) for side in sides)
    node.attrs = replace(node.attrs, in_free=ins, out_free=outs)


def _annotated_tile(writer: Writer, tile: TensorType, outer: Sharding, free: Mesh) -> tuple[Sharding, tuple[bool, ...]]:
    """Return a random annotation of a tile: a sharding and open dims. A dim that manual axes shard already is sharded
    further only if it divides evenly.
    """
    plain = random_sharding(writer, free, tile)
    sizes = [free.group_size(axes) for axes in plain.dims]
    even = [n % parts == 0 or not axes for n, parts, axes in zip(tile.sizes, sizes, outer.dims, strict=True)]
    dims = tuple(axes if is_even else () for axes, is_even in zip(plain.dims, even, strict=True))
    return Sharding(dims), tuple(writer.chance(0.3) for _ in dims)


def _accepts_option(node: Node, writer: Writer) -> bool:
    """Whether a node accepts an option. With open sizes, the option must be valid for all sizes."""
    if writer.variety.named:
        return Trait.ELEMENTWISE in OPS[node.op].traits or node.op in ("bitcast_convert", "dot_general", "transpose")
    return has_rule(node.op) and node.op not in (*ANNOTATIONS, *ON_RANKS)


def _rename(node: Node, renamed: dict[Value, Value]) -> None:
    node.operands = [renamed.get(v, v) for v in node.operands]
    for region in node.regions:
        _rename_in(region, renamed)


def _rename_in(region: Graph, renamed: dict[Value, Value]) -> None:
    for node in region.nodes:
        _rename(node, renamed)
    region.outputs = [renamed.get(v, v) for v in region.outputs]


def random_option(writer: Writer, mesh: Mesh, node: Node) -> tuple[tuple[str, ...], ...]:
    """Return random axes for the loops of an op that can be split by any factor."""
    rule = rule_of(node)
    factors = rule.factors
    axes: list[list[str]] = [[] for _ in factors]
    splittable = [i for i, factor in enumerate(factors) if factor.kind != "whole" and factor.size > 1]
    usable = [i for i in splittable if fits(rule, i, factors[i].size + 1)]
    for index in writer.order(len(mesh.axes)):
        if usable and writer.chance(0.6):
            axes[writer.one_of(usable)].append(mesh.names[index])
    return tuple(map(tuple, axes))
