"""Random meshes, shardings, annotations and options, at all the odd ends that a sharding has."""

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
_PARTS = {4: ((2, 2),), 8: ((2, 4), (4, 2), (2, 2, 2)), 6: ((2, 3),)}  # ways to cut an axis that nest
_ALL_PARTS = _PARTS | {6: ((2, 3), (3, 2)), 12: ((2, 6), (6, 2), (3, 4), (4, 3), (2, 2, 3), (2, 3, 2), (3, 2, 2))}


def random_mesh(rng: np.random.Generator, variety: Variety = USUAL) -> Mesh:
    """One to four axes (in some varieties more), of size 1 too."""
    sizes: list[int] = []
    for _ in range(int(rng.integers(1, variety.axes + 1))):
        fitting = [s for s in variety.sizes if s * math.prod(sizes) <= variety.devices]
        sizes.append(fitting[int(rng.integers(len(fitting)))])
    return make_mesh({"xyzwvu"[i]: size for i, size in enumerate(sizes)})


def random_sharding(writer: Writer, mesh: Mesh, kind: TensorType) -> Sharding:
    """Each axis, or parts of it, splits some dim, or makes the value partial, or does nothing."""
    dims: list[list[str]] = [[] for _ in kind.shape]
    partial: list[tuple[str, str]] = []
    for axis in _shuffled_axes(writer, mesh):
        if dims and writer.chance(0.65):
            dims[writer.integer(0, len(dims))].append(axis)
        elif kind.dtype in _KINDS and writer.chance(0.15):
            partial.append((axis, writer.one_of(_KINDS[kind.dtype])))
    found = Sharding(tuple(map(tuple, dims)), tuple(sorted(partial, key=lambda pair: mesh.order(pair[0]))))
    if not found.split_axes or writer.variety.named or writer.chance(0.85):  # halos and offsets hold for one size
        return found
    return _with_halo(writer, found, kind, mesh) if writer.chance(0.5) else _with_offsets(writer, found, kind, mesh)


def _shuffled_axes(writer: Writer, mesh: Mesh) -> list[str]:
    """The mesh axes in any order, some in parts, which then may be left out."""
    found: list[str] = []
    for number in writer.order(len(mesh.axes)):
        axis = mesh.names[number]
        parts = (_ALL_PARTS if writer.variety.cuts else _PARTS).get(mesh.axis_size(axis))
        if parts and writer.chance(0.6 if writer.variety.cuts else 0.25):
            pieces = mesh.split_axis(axis, *writer.one_of(parts))
            found += [pieces[i] for i in writer.order(len(pieces)) if writer.chance(0.75)]
        else:
            found.append(axis)
    return found


def _with_halo(writer: Writer, sharding: Sharding, kind: TensorType, mesh: Mesh) -> Sharding:
    """Up to two rows on either side of split dims, but no more than a shard has."""

    def rows(dim: int) -> int:
        most = min(2, sharding.tile(dim, kind.sizes[dim], mesh)) if sharding.dims[dim] else 0
        return writer.integer(0, most + 1)

    return replace(sharding, halo=tuple((rows(dim), rows(dim)) for dim in range(kind.rank)))


def _with_offsets(writer: Writer, sharding: Sharding, kind: TensorType, mesh: Mesh) -> Sharding:
    """Shards of any sizes, empty ones too, along one dim."""
    dim = writer.one_of([d for d, axes in enumerate(sharding.dims) if axes])
    size = kind.sizes[dim]
    inner = sorted(writer.integer(0, size + 1) for _ in range(sharding.parts(dim, mesh) - 1))
    return replace(sharding, offsets=tuple((0, *inner, size) if d == dim else () for d in range(kind.rank)))


def random_annotation(writer: Writer, mesh: Mesh, value: Value) -> Annotation:
    opened = tuple(writer.chance(0.3) for _ in value.type.shape)
    return Annotation(random_sharding(writer, mesh, value.type), writer.chance(0.6), opened)


def annotate_inside(writer: Writer, mesh: Mesh) -> None:
    """`annotate` after some nodes, and options on some; the uses that follow see the annotated value."""
    graph = writer.graph
    nodes, graph.nodes = graph.nodes, []
    renamed: dict[Value, Value] = {}
    for node in nodes:
        _rename(node, renamed)
        graph.nodes.append(node)
        if _may_be_asked(node, writer) and writer.chance(0.08):
            node.option = random_option(writer, mesh, node)
        if len(node.results) == 1 and writer.chance(0.3):
            annotation = random_annotation(writer, mesh, node.result)
            as_result = writer.chance(0.7) or writer.variety.cuts  # users may not be able to read it so
            attrs = {"sharding": annotation.sharding, "required": annotation.required, "as_result": as_result}
            noted = graph.add(
                "annotate", [node.result], [node.result.type], {**attrs, "open_dims": annotation.open_dims}
            )
            renamed[node.result] = noted.result
    graph.outputs = [renamed.get(v, v) for v in graph.outputs]


def open_body(writer: Writer, node: Node) -> None:
    """Let the axes that are not manual split what a manual computation takes, computes and gives."""
    manual = node.attrs.axes
    free = Mesh(tuple(axis for axis in writer.mesh.axes if axis.name not in manual))
    if not free.axes:
        return
    annotate_inside(replace(writer, graph=node.regions[0]), free)
    if writer.chance(0.3):  # open by its annotations alone
        return
    body = node.regions[0]
    ends = (body.inputs, node.attrs.in_shardings), (body.outputs, node.attrs.out_shardings)
    ins, outs = (tuple(_annotated_tile(writer, v.type, s, free) for v, s in zip(*end, strict=True)) for end in ends)
    node.attrs = replace(node.attrs, in_free=ins, out_free=outs)


def _annotated_tile(writer: Writer, tile: TensorType, outer: Sharding, free: Mesh) -> tuple[Sharding, tuple[bool, ...]]:
    """A random annotation of a tile: axes on dims, evenly where manual axes split these too, and open dims."""
    plain = random_sharding(writer, free, tile)
    sizes = [free.group_size(axes) for axes in plain.dims]
    even = [n % parts == 0 or not axes for n, parts, axes in zip(tile.sizes, sizes, outer.dims, strict=True)]
    dims = tuple(axes if is_even else () for axes, is_even in zip(plain.dims, even, strict=True))
    return Sharding(dims), tuple(writer.chance(0.3) for _ in dims)


def _may_be_asked(node: Node, writer: Writer) -> bool:
    """Whether a node takes an option; where sizes are open, one that means the same for all."""
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
    """Axes on loops that may be split by any number: dims of their own."""
    rule = rule_of(node)
    factors = rule.factors
    axes: list[list[str]] = [[] for _ in factors]
    splittable = [i for i, factor in enumerate(factors) if factor.kind != "whole" and factor.size > 1]
    usable = [i for i in splittable if fits(rule, i, factors[i].size + 1)]
    for number in writer.order(len(mesh.axes)):
        if usable and writer.chance(0.6):
            axes[writer.one_of(usable)].append(mesh.names[number])
    return tuple(map(tuple, axes))
