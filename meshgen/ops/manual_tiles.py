"""Sizes in bodies of manual computations: they are written for a mesh, and hold on no other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from meshgen.errors import Diagnostic
from meshgen.ir.graph import Graph, Node, TensorType, Value
from meshgen.ir.manual import meshes_of
from meshgen.ir.regions import all_nodes
from meshgen.mesh import Mesh, split_ref
from meshgen.ops.types.control import used_axes
from meshgen.ops.types.inference import collective_faults
from meshgen.spec import Sharding


def manual_faults(graph: Graph, meshes: Sequence[Mesh]) -> Iterator[Diagnostic]:
    """What is wrong with the manual computations of a global program on these meshes, those in regions too.

    MG0201 on a mesh with a size that is not known, MG0202 for axes that it does not have, MG0204 for bodies whose values are
    not its tiles, and faults of the collectives in them. Ops that name no mesh are on the first.
    """
    for node in graph.nodes:
        around = meshes_of(node, meshes)
        if node.op == "manual":
            yield from _node_faults(node, around[0])
        for region in node.regions:
            yield from manual_faults(region, around)


def _node_faults(node: Node, mesh: Mesh) -> Iterator[Diagnostic]:
    if not mesh.is_static:
        text = f"a manual computation over {mesh}: an axis has no size"
        yield Diagnostic("MG0201", text, node.loc, hint="give it: the sizes in its body are those of tiles")
        return
    body = node.regions[0]
    named = dict.fromkeys(split_ref(axis)[0] for axis in used_axes(node))
    if unknown := [axis for axis in named if axis not in mesh.names]:
        fault = mesh.unknown_axis(unknown[0])
        yield replace(fault, message=f"a manual computation: {fault.message}", loc=node.loc)
        return
    for what, outside, key, inside in (
        ("argument", node.operands, "in_shardings", body.inputs),
        ("result", node.results, "out_shardings", body.outputs),
    ):
        yield from _end_faults(node, what, outside, getattr(node.attrs, key), inside, mesh)
    for each in all_nodes(body):
        if each.op != "manual" and "axes" in each.attrs.given:
            yield from collective_faults(each, mesh)


def _end_faults(node: Node, what: str, outside: Sequence[Value], shardings: Sequence[Sharding], inside: Sequence[Value],
                mesh: Mesh) -> Iterator[Diagnostic]:  # fmt: skip
    for number, (value, sharding, local) in enumerate(zip(outside, shardings, inside, strict=True)):
        if message := tile_fault(value.type, sharding, local.type, mesh, is_even=True):
            yield Diagnostic("MG0204", f"{what} {number} of the body: {message}", node.loc)


def tile_fault(kind: TensorType, sharding: Sharding, local: TensorType, mesh: Mesh, *, is_even: bool) -> str:
    """Why a type is not that of the tiles of a value, or "". Even tiles are as large on every device."""
    if None in kind.shape:
        return f"{kind} has sizes that are unknown"
    for dim, size in enumerate(kind.sizes):
        parts = sharding.parts(dim, mesh)
        if is_even and size % parts:
            return f"dim {dim} of {kind} has {size} rows, which {parts} devices do not share evenly ({size} % {parts} = {size % parts})"
    tile = kind.with_shape(sharding.local_shape(kind.sizes, mesh))
    return "" if local == tile else f"{kind} split as {sharding} has tiles {tile}, but the body has {local} on {mesh}"
