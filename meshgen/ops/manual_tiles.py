"""Verification of manual computations: the tensors in a body must have the sizes of one device's tiles on the mesh."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from meshgen.errors import Diagnostic
from meshgen.ir.flatten_manual import meshes_of
from meshgen.ir.graph import Graph, Node, TensorType, Value
from meshgen.ir.regions import all_nodes
from meshgen.mesh import Mesh, split_ref
from meshgen.ops.types.control import used_axes
from meshgen.ops.types.inference import collective_faults
from meshgen.spec import Sharding


def manual_faults(graph: Graph, meshes: Sequence[Mesh]) -> Iterator[Diagnostic]:
    """Yield the faults of all manual computations of a global program on `meshes`, including those in regions.

    - MG0201: an axis of the mesh has no size.
    - MG0202: the mesh lacks an axis that the computation names.
    - MG0204: an argument or result of the body is not a tile of the operand or result of the node.
    - The faults of each collective in the body.

    A computation that names no mesh runs on the first one of `meshes`.
    """
    for node in graph.nodes:
        node_meshes = meshes_of(node, meshes)
        if node.op == "manual":
            yield from _node_faults(node, node_meshes[0])
        for region in node.regions:
            yield from manual_faults(region, node_meshes)


def _node_faults(node: Node, mesh: Mesh) -> Iterator[Diagnostic]:
    if not mesh.is_static:
        text = f"a manual computation over {mesh}: an axis has no size"
        yield Diagnostic(
            "MG0201", text, node.loc, hint="give the axis a size: the sizes in the body are those of tiles"
        )
        return
    body = node.regions[0]
    axes = dict.fromkeys(split_ref(axis)[0] for axis in used_axes(node))
    if unknown := [axis for axis in axes if axis not in mesh.names]:
        fault = mesh.unknown_axis(unknown[0])
        yield replace(fault, message=f"a manual computation: {fault.message}", loc=node.loc)
        return
    for role, outside, attribute, inside in (
        ("argument", node.operands, "in_shardings", body.inputs),
        ("result", node.results, "out_shardings", body.outputs),
    ):
        yield from _boundary_faults(node, role, outside, getattr(node.attrs, attribute), inside, mesh)
    for inner in all_nodes(body):
        if inner.op != "manual" and "axes" in inner.attrs.given:
            yield from collective_faults(inner, mesh)


def _boundary_faults(node: Node, role: str, values: Sequence[Value], shardings: Sequence[Sharding], body_values: Sequence[Value],
                mesh: Mesh) -> Iterator[Diagnostic]:  # fmt: skip
    for index, (value, sharding, local) in enumerate(zip(values, shardings, body_values, strict=True)):
        if message := tile_fault(value.type, sharding, local.type, mesh, is_even=True):
            yield Diagnostic("MG0204", f"{role} {index} of the body: {message}", node.loc)


def tile_fault(kind: TensorType, sharding: Sharding, local: TensorType, mesh: Mesh, *, is_even: bool) -> str:
    """Return why `local` is not the type of a tile of a value with type `kind` and sharding `sharding`, or "" if it is.

    With `is_even`, all devices must have tiles of the same size.
    """
    if None in kind.shape:
        return f"{kind} has sizes that are unknown"
    for dim, size in enumerate(kind.sizes):
        parts = sharding.parts(dim, mesh)
        if is_even and size % parts:
            return f"dim {dim} of {kind} has {size} rows, which {parts} devices do not share evenly ({size} % {parts} = {size % parts})"
    tile = kind.with_shape(sharding.local_shape(kind.sizes, mesh))
    return "" if local == tile else f"{kind} split as {sharding} has tiles {tile}, but the body has {local} on {mesh}"
