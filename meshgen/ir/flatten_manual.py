"""Flattening of `manual` nodes: manual computations inside manual computations are inlined, and useless annotations
dropped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Protocol

from meshgen.errors import Diagnostic, ProgramError
from meshgen.ir.graph import Graph, Node, TensorType, Value
from meshgen.ir.inline import copy_nodes
from meshgen.ir.op_names import ANNOTATIONS
from meshgen.ir.predicates import is_annotation, is_manual
from meshgen.ir.regions import all_nodes
from meshgen.mesh import Mesh, split_ref
from meshgen.spec import Sharding


class _Computation(Protocol):
    """A node, or an operation under verification (`ops/types/site.py`): anything with op, attributes and regions."""

    @property
    def op(self) -> str: ...
    @property
    def attrs(self) -> Any: ...
    @property
    def regions(self) -> Sequence[Graph]: ...


def is_open(node: _Computation) -> bool:
    """Whether the free axes of a manual computation may shard its operands, results or body.

    The free axes are the mesh axes that are not in `Manual.axes`.
    """
    return is_manual(node) and ("in_free" in node.attrs.given or has_annotations(node.regions[0]))


def has_annotations(graph: Graph) -> bool:
    """Whether a graph, or a region in it, contains an annotation."""
    return any(node.op in ANNOTATIONS or any(map(has_annotations, node.regions)) for node in graph.nodes)


def meshes_of(node: Node, meshes: Sequence[Mesh]) -> Sequence[Mesh]:
    """Return `meshes`, starting with the mesh that a manual computation names. For other nodes, return `meshes`
    unchanged.
    """
    if not is_manual(node):
        return meshes
    names = {sharding.mesh for key in ("in_shardings", "out_shardings") for sharding in getattr(node.attrs, key)}
    return sorted(meshes, key=lambda mesh: mesh.name not in names)


def settle_manual(graph: Graph, *meshes: Mesh, keep_open: bool = True) -> Graph:
    """Flatten the bodies of all `manual` nodes of a graph, including those in regions.

    A manual computation inside another one is replaced by its inlined body. Its operands are replicated over its axes,
    so they are sliced into tiles before the body, and its results are gathered after the body.

    Args:
        meshes: a sharding that does not name a mesh refers to the first of these.
        keep_open: whether the bodies of open computations (`is_open`) are left unchanged.
    Raises:
        ProgramError: MG0103 for each annotation in a body that names manual axes, and MG0203 for each manual
            computation that names an axis of an enclosing one.
    """
    if not any(is_manual(node) for node in all_nodes(graph)):
        return graph
    faults: list[Diagnostic] = []
    flattened = _settled(graph, meshes, (), faults, keep_open)
    if faults:
        raise ProgramError(*dict.fromkeys(faults))
    return flattened


def _settled(
    graph: Graph,
    meshes: Sequence[Mesh],
    manual: tuple[str, ...],
    faults: list[Diagnostic],
    keeps: bool,
    inside: bool = False,
) -> Graph:
    """Implement `settle_manual` for one graph.

    Args:
        manual: the mesh axes that are manual in the enclosing computations.
        keeps: whether the bodies of open computations are left unchanged.
        inside: whether the graph belongs to a body into which nested manual computations are inlined.
    """
    result, mesh = Graph(graph.name, graph.inputs), meshes[0]
    replacements: dict[Value, Value] = {}
    for node in graph.nodes:
        operands = [replacements.get(value, value) for value in node.operands]
        inner = (*manual, *node.attrs.axes) if is_manual(node) else manual
        flattens = inside or (is_manual(node) and not (keeps and is_open(node)))
        node_meshes = meshes_of(node, meshes)
        faults += _bound_twice(node, manual)
        regions = tuple(_settled(region, node_meshes, inner, faults, keeps, flattens) for region in node.regions)
        # Flattening has removed all annotations from the body, so the computation counts as closed.
        if is_manual(node) and not flattens and not is_open(replace(node, regions=regions)):
            flattens = True
            regions = tuple(_settled(region, node_meshes, inner, faults, keeps, flattens) for region in regions)
        if is_manual(node) and not inside:
            attrs = {**node.attrs, "axes": _all_axes(node)} if flattens else node.attrs
            result.nodes.append(replace(node, operands=operands, regions=regions, attrs=attrs))
        elif is_manual(node):
            inlined = _inlined_results(replace(node, operands=operands, regions=regions), mesh, result)
            replacements.update(zip(node.results, inlined, strict=True))
        elif manual and node.op in ANNOTATIONS:
            free_axes = [name for name in mesh.names if name not in manual]
            used = node.attrs.sharding.canonical(mesh).used_axes if is_annotation(node) else ()
            named = [axis for axis in used if split_ref(axis)[0] in manual]
            faults += [_manual_axes_annotated(node, manual)] if named else []
            if free_axes and not named:
                result.nodes.append(replace(node, operands=operands))
            else:
                replacements[node.result] = operands[0]
        elif node.regions or replacements:
            result.nodes.append(replace(node, operands=operands, regions=regions))
        else:
            result.nodes.append(node)
    result.outputs = [replacements.get(value, value) for value in graph.outputs]
    return result


def _bound_twice(node: Node, manual: Sequence[str]) -> list[Diagnostic]:
    """Return MG0203 if a manual computation names axes that are already manual in an enclosing one.

    The check includes the axes of `in_free` and `out_free`.
    """
    if not is_manual(node) or not manual:
        return []
    axes = [
        *node.attrs.axes,
        *(
            axis
            for key in ("in_free", "out_free")
            for sharding, _ in getattr(node.attrs, key) or ()
            for axis in sharding.used_axes
        ),
    ]
    twice = list(dict.fromkeys(axis for axis in axes if split_ref(axis)[0] in manual))
    message = f"a manual computation names {twice}, but {list(manual)} are manual already in the one around it"
    hint = "its operands are already tiles along these axes: name other axes"
    return [Diagnostic("MG0203", message, node.loc, hint=hint)] if twice else []


def _all_axes(node: Node) -> tuple[str, ...]:
    """Return the manual axes of a node and of all manual computations in its regions."""
    nodes = [node, *(inner for region in node.regions for inner in all_nodes(region))]
    return tuple(dict.fromkeys(axis for inner in nodes if is_manual(inner) for axis in inner.attrs.axes))


def _manual_axes_annotated(node: Node, manual: Sequence[str]) -> Diagnostic:
    message = f"a sharding {node.attrs.sharding} inside a manual computation over {list(manual)} names its axes"
    return Diagnostic(
        "MG0103", message, node.loc, hint="split its operands and results over them; name other axes inside"
    )


def _inlined_results(node: Node, mesh: Mesh, into: Graph) -> list[Value]:
    """Append the body of a manual computation whose operands are replicated, and return its gathered results.

    Each operand is sliced into tiles before the body, and each result is gathered after it.
    """
    operand_shardings = zip(node.operands, node.attrs.in_shardings, strict=True)
    arguments = [_sliced_tile(node, value, sharding, mesh, into) for value, sharding in operand_shardings]
    outputs = copy_nodes(node.regions[0], arguments, into)
    output_shardings = zip(outputs, node.attrs.out_shardings, strict=True)
    return [_gathered_output(node, value, sharding, mesh, into) for value, sharding in output_shardings]


def _sliced_tile(node: Node, value: Value, sharding: Sharding, mesh: Mesh, into: Graph) -> Value:
    for axis, kind in sharding.partial:
        value = into.add("to_partial", [value], [value.type], {"axes": (axis,), "kind": kind}, loc=node.loc).result
    for dim, axes in enumerate(sharding.dims):
        if axes:
            local = _with_dim_size(value.type, dim, value.type.sizes[dim] // mesh.group_size(axes))
            value = into.add("all_slice", [value], [local], {"axes": axes, "dim": dim}, loc=node.loc).result
    return value


def _gathered_output(node: Node, value: Value, sharding: Sharding, mesh: Mesh, into: Graph) -> Value:
    for axis, kind in sharding.partial:
        value = into.add("all_reduce", [value], [value.type], {"axes": (axis,), "kind": kind}, loc=node.loc).result
    for dim, axes in enumerate(sharding.dims):
        if axes:
            gathered_type = _with_dim_size(value.type, dim, value.type.sizes[dim] * mesh.group_size(axes))
            value = into.add("all_gather", [value], [gathered_type], {"axes": axes, "dim": dim}, loc=node.loc).result
    return value


def _with_dim_size(tensor_type: TensorType, dim: int, size: int) -> TensorType:
    return tensor_type.with_shape(size if d == dim else old for d, old in enumerate(tensor_type.shape))
