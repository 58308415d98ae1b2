"""Flattening of the bodies of `manual` nodes: nested manual computations are inlined, trivial shardings dropped."""

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
    """A node, or one under inspection."""

    @property
    def op(self) -> str: ...
    @property
    def attrs(self) -> Any: ...
    @property
    def regions(self) -> Sequence[Graph]: ...


def is_open(node: _Computation) -> bool:
    """Whether a manual computation lets its free axes split its operands, results or body."""
    return is_manual(node) and ("in_free" in node.attrs.given or has_annotations(node.regions[0]))


def has_annotations(graph: Graph) -> bool:
    """Whether a graph, or a region in it, has an annotation."""
    return any(node.op in ANNOTATIONS or any(map(has_annotations, node.regions)) for node in graph.nodes)


def meshes_of(node: Node, meshes: Sequence[Mesh]) -> Sequence[Mesh]:
    """The meshes, starting with that of a node's regions: the one that a manual computation names."""
    if not is_manual(node):
        return meshes
    names = {sharding.mesh for key in ("in_shardings", "out_shardings") for sharding in getattr(node.attrs, key)}
    return sorted(meshes, key=lambda mesh: mesh.name not in names)


def settle_manual(graph: Graph, *meshes: Mesh, keep_open: bool = True) -> Graph:
    """The graph with flat bodies of its `manual` nodes, those in regions too; of open ones only without `keep_open`.

    Shardings that name no mesh are on the first.

    A nested manual computation slices its operands, which are replicated over its axes, and gathers its results.
    Raises ProgramError: MG0103 with every annotation in a body that names manual axes, MG0203 with every computation that does.
    """
    if not any(is_manual(node) for node in all_nodes(graph)):
        return graph
    faults: list[Diagnostic] = []
    found = _settled(graph, meshes, (), faults, keep_open)
    if faults:
        raise ProgramError(*dict.fromkeys(faults))
    return found


def _settled(
    graph: Graph,
    meshes: Sequence[Mesh],
    manual: tuple[str, ...],
    faults: list[Diagnostic],
    keeps: bool,
    inside: bool = False,
) -> Graph:
    """The graph with its nodes settled; `manual` are the axes that are manual around it.

    With `inside` it is part of a body in which other manual computations are inlined.
    """
    result, mesh = Graph(graph.name, graph.inputs), meshes[0]
    put: dict[Value, Value] = {}
    for node in graph.nodes:
        operands = [put.get(value, value) for value in node.operands]
        inner = (*manual, *node.attrs.axes) if is_manual(node) else manual
        writes = inside or (is_manual(node) and not (keeps and is_open(node)))
        around = meshes_of(node, meshes)
        faults += _bound_twice(node, manual)
        regions = tuple(_settled(region, around, inner, faults, keeps, writes) for region in node.regions)
        if is_manual(node) and not writes and not is_open(replace(node, regions=regions)):  # it does not name free axes
            writes = True
            regions = tuple(_settled(region, around, inner, faults, keeps, writes) for region in regions)
        if is_manual(node) and not inside:
            attrs = {**node.attrs, "axes": _all_axes(node)} if writes else node.attrs
            result.nodes.append(replace(node, operands=operands, regions=regions, attrs=attrs))
        elif is_manual(node):
            made = _written_out(replace(node, operands=operands, regions=regions), mesh, result)
            put.update(zip(node.results, made, strict=True))
        elif manual and node.op in ANNOTATIONS:
            free = [name for name in mesh.names if name not in manual]
            said = node.attrs.sharding.canonical(mesh).used_axes if is_annotation(node) else ()
            named = [axis for axis in said if split_ref(axis)[0] in manual]
            faults += [_manual_axes_annotated(node, manual)] if named else []
            if free and not named:
                result.nodes.append(replace(node, operands=operands))
            else:
                put[node.result] = operands[0]
        elif node.regions or put:
            result.nodes.append(replace(node, operands=operands, regions=regions))
        else:
            result.nodes.append(node)
    result.outputs = [put.get(value, value) for value in graph.outputs]
    return result


def _bound_twice(node: Node, manual: Sequence[str]) -> list[Diagnostic]:
    """The axes of a manual computation, own and those of its operands and results, that are manual around it already."""
    if not is_manual(node) or not manual:
        return []
    named = [
        *node.attrs.axes,
        *(axis for key in ("in_free", "out_free") for s, _ in getattr(node.attrs, key) or () for axis in s.used_axes),
    ]
    twice = list(dict.fromkeys(axis for axis in named if split_ref(axis)[0] in manual))
    message = f"a manual computation names {twice}, but {list(manual)} are manual already in the one around it"
    hint = "its operands are tiles along these axes: name others"
    return [Diagnostic("MG0203", message, node.loc, hint=hint)] if twice else []


def _all_axes(node: Node) -> tuple[str, ...]:
    """The manual axes of a node and of its regions."""
    inner = [node, *(each for region in node.regions for each in all_nodes(region))]
    return tuple(dict.fromkeys(axis for each in inner if is_manual(each) for axis in each.attrs.axes))


def _manual_axes_annotated(node: Node, manual: Sequence[str]) -> Diagnostic:
    message = f"a sharding {node.attrs.sharding} inside a manual computation over {list(manual)} names its axes"
    return Diagnostic(
        "MG0103", message, node.loc, hint="split its operands and results over them; name other axes inside"
    )


def _written_out(node: Node, mesh: Mesh, into: Graph) -> list[Value]:
    """The inlined results of a manual computation whose operands are replicated."""
    ends = zip(node.operands, node.attrs.in_shardings, strict=True)
    arguments = [_sliced_tile(node, value, sharding, mesh, into) for value, sharding in ends]
    made = copy_nodes(node.regions[0], arguments, into)
    outs = zip(made, node.attrs.out_shardings, strict=True)
    return [_gathered_output(node, value, sharding, mesh, into) for value, sharding in outs]


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
            whole = _with_dim_size(value.type, dim, value.type.sizes[dim] * mesh.group_size(axes))
            value = into.add("all_gather", [value], [whole], {"axes": axes, "dim": dim}, loc=node.loc).result
    return value


def _with_dim_size(kind: TensorType, dim: int, size: int) -> TensorType:
    return kind.with_shape(size if d == dim else old for d, old in enumerate(kind.shape))
