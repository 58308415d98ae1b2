"""Bodies of `manual` nodes made flat: manual computations in them written out, shardings that say nothing dropped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from meshgen.errors import Diagnostic, ProgramError
from meshgen.ir.graph import Graph, Node, TensorType, Value
from meshgen.ir.inline import copy_nodes
from meshgen.mesh import Mesh
from meshgen.spec import Sharding


def settle_manual(graph: Graph, mesh: Mesh) -> Graph:
    """The graph with flat bodies of its `manual` nodes, those in regions too.

    A manual computation inside another cuts its operands, which all devices of its axes hold whole, and gathers its results.
    Raises ProgramError MG0103 with every annotation in a body: the axes that are not manual are not propagated there.
    """
    faults: list[Diagnostic] = []
    found = _settled(graph, mesh, (), faults)
    if faults:
        raise ProgramError(*faults)
    return found


def _settled(graph: Graph, mesh: Mesh, manual: tuple[str, ...], faults: list[Diagnostic]) -> Graph:
    """The graph with its nodes settled; `manual` are the axes that are manual around it."""
    result = Graph(graph.name, graph.inputs)
    put: dict[Value, Value] = {}
    for node in graph.nodes:
        operands = [put.get(value, value) for value in node.operands]
        inner = (*manual, *node.attrs["axes"]) if node.op == "manual" else manual
        regions = tuple(_settled(region, mesh, inner, faults) for region in node.regions)
        if node.op == "manual" and not manual:
            attrs = {**node.attrs, "axes": _all_axes(node)}
            result.nodes.append(replace(node, operands=operands, regions=regions, attrs=attrs))
        elif node.op == "manual":
            made = _written_out(replace(node, operands=operands, regions=regions), mesh, result)
            put.update(zip(node.results, made, strict=True))
        elif manual and node.op == "annotate":
            put[node.result] = operands[0]
            if not node.attrs["sharding"].canonical(mesh).is_replicated:
                faults.append(_annotated(node, manual))
        elif node.regions or put:
            result.nodes.append(replace(node, operands=operands, regions=regions))
        else:
            result.nodes.append(node)
    result.outputs = [put.get(value, value) for value in graph.outputs]
    return result


def _all_axes(node: Node) -> tuple[str, ...]:
    """The manual axes of a node and of what is in it."""
    found = [*node.attrs["axes"]] if node.op == "manual" else []
    for region in node.regions:
        for inner in region.nodes:
            found += _all_axes(inner)
    return tuple(dict.fromkeys(found))


def _annotated(node: Node, manual: Sequence[str]) -> Diagnostic:
    message = f"a sharding {node.attrs['sharding']} inside a manual computation over {list(manual)} is not supported"
    return Diagnostic("MG0103", message, node.loc, hint="make those axes manual too, or leave the sharding out")


def _written_out(node: Node, mesh: Mesh, into: Graph) -> list[Value]:
    """What stands for the results of a manual computation whose operands are whole on every device."""
    ends = zip(node.operands, node.attrs["in_shardings"], strict=True)
    arguments = [_cut(node, value, sharding, mesh, into) for value, sharding in ends]
    made = copy_nodes(node.regions[0], arguments, into)
    outs = zip(made, node.attrs["out_shardings"], strict=True)
    return [_whole(node, value, sharding, mesh, into) for value, sharding in outs]


def _cut(node: Node, value: Value, sharding: Sharding, mesh: Mesh, into: Graph) -> Value:
    for axis, kind in sharding.partial:
        value = into.add("to_partial", [value], [value.type], {"axes": (axis,), "kind": kind}, loc=node.loc).result
    for dim, axes in enumerate(sharding.dims):
        if axes:
            local = _resized(value.type, dim, value.type.sizes[dim] // mesh.group_size(axes))
            value = into.add("all_slice", [value], [local], {"axes": axes, "dim": dim}, loc=node.loc).result
    return value


def _whole(node: Node, value: Value, sharding: Sharding, mesh: Mesh, into: Graph) -> Value:
    for axis, kind in sharding.partial:
        value = into.add("all_reduce", [value], [value.type], {"axes": (axis,), "kind": kind}, loc=node.loc).result
    for dim, axes in enumerate(sharding.dims):
        if axes:
            whole = _resized(value.type, dim, value.type.sizes[dim] * mesh.group_size(axes))
            value = into.add("all_gather", [value], [whole], {"axes": axes, "dim": dim}, loc=node.loc).result
    return value


def _resized(kind: TensorType, dim: int, size: int) -> TensorType:
    return kind.with_shape(size if d == dim else old for d, old in enumerate(kind.shape))
