"""Delta debugging: find a smaller program that fails in the same way.

A move removes one thing. Moves are tried in this order: unused ops, outputs, ops, ops in regions, annotations, options,
halos and offsets, devices, axes of single annotations, sizes of dims. A move is accepted if the failure remains. The
search ends when no move is accepted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from meshgen.errors import MeshgenError
from meshgen.ir.graph import Annotation, Graph, Module, Node, TensorType, Value
from meshgen.ir.loops import has_bounded_loops
from meshgen.ir.regions import needed_nodes, rewired, used_by
from meshgen.mesh import Mesh, make_mesh, split_ref
from meshgen.mlir.shard.complete import complete_local
from meshgen.ops.evaluate.evaluator import evaluate_node
from meshgen.ops.types.inference import verify_graph
from meshgen.spec import Sharding
from meshgen.testing.lockstep import on_one_device
from meshgen.testing.random_graphs import random_arguments

# Maximum number of candidate programs, each of which is compiled and run. Chosen: bounds the time of one search.
MAX_TRIES = 2000


def shrink(module: Module, fails: Callable[[Module], bool], max_tries: int = MAX_TRIES) -> Module:
    """Return a module at stage import that is smaller than `module` and for which `fails` is still true.

    Args:
        fails: function that returns whether a candidate has the same failure. A MeshgenError that it raises counts as
            another failure.
    Returns:
        `module` itself if nothing can be removed. The result is deterministic.
    """
    tries = 0

    def still_fails(candidate: Module) -> bool:
        try:
            return _is_consistent(candidate) and fails(candidate)
        except MeshgenError:
            return False

    moved = True
    while moved:
        moved = False
        for family in _MOVES:
            accepted: Module | None = module
            while accepted is not None and tries < max_tries:
                accepted = None
                for candidate in map(_completed, family(module)):
                    tries += 1
                    if still_fails(candidate):
                        module = accepted = candidate
                        moved = True
                        break
                    if tries >= max_tries:
                        break
    return module


def _completed(module: Module) -> Module:
    """Return a per-device program with a signature that matches its changed graph."""
    if module.stage == "partition":
        module = replace(module, in_types=[], out_types=[], in_shardings=[], out_shardings=[])
        complete_local(module)
    return module


def _is_consistent(module: Module) -> bool:
    """Whether op results have their declared types and all loops terminate. Moves that resize dims may violate both."""
    graph = module.graph
    if module.stage == "partition":
        return not verify_graph(graph, module.mesh)
    if verify_graph(graph) or not has_bounded_loops(graph):
        return False
    graph = on_one_device(graph, module.mesh, *module.meshes)
    arrays: dict[Value, Any] = dict(zip(graph.inputs, random_arguments(module), strict=True))
    for node in graph.nodes:
        try:
            if any(None in value.type.shape for value in node.results):
                return False
            results = evaluate_node(node, [arrays[v] for v in node.operands], arrays)
        except (ValueError, IndexError):
            return False
        if any(a.shape != v.type.sizes for a, v in zip(results, node.results, strict=True)):
            return False
        arrays.update(zip(node.results, results, strict=True))
    return True


def _fewer_outputs(module: Module) -> Iterator[Module]:
    count = len(module.graph.outputs)
    for index in range(count if count > 1 else 0):
        yield _pruned(module, {}, [n for n in range(count) if n != index])


def _fewer_dead(module: Module) -> Iterator[Module]:
    """Yield the module without all unused ops, then without one of them."""
    graph = module.graph
    used = {value for node in graph.nodes for value in used_by(node)}
    dead = [node for node in graph.nodes if used.isdisjoint(node.results) and not {*graph.outputs} & {*node.results}]
    for removed in [dead] if len(dead) < 2 else [dead, *([node] for node in reversed(dead))]:
        if removed:
            yield replace(module, graph=replace(graph, nodes=[node for node in graph.nodes if node not in removed]))


def _fewer_nodes(module: Module) -> Iterator[Module]:
    """Yield the module without one op, the last ones first. The result is replaced by an operand of the same type, or
    else by a new input.
    """
    for node in reversed(module.graph.nodes):
        if len(node.results) == 1:
            same_type = [v for v in node.operands if v.type == node.result.type]
            yield from (_pruned(module, {node.result: v}) for v in dict.fromkeys(same_type))
        if node.op != "annotate":
            yield _pruned(module, {v: Value(v.type, f"cut_{v.name}") for v in node.results})


def _fewer_inner_nodes(module: Module) -> Iterator[Module]:
    """Yield the module without one op of a region, the last ones first.

    An earlier value of the same type in the region replaces the result.
    """
    graph = module.graph
    for index, node in enumerate(graph.nodes):
        for changed in _with_smaller_regions(node):
            yield replace(
                module, graph=replace(graph, nodes=[*graph.nodes[:index], changed, *graph.nodes[index + 1 :]])
            )


def _with_smaller_regions(node: Node) -> Iterator[Node]:
    for index, body in enumerate(node.regions):
        for smaller in _smaller_bodies(body):
            yield replace(node, regions=(*node.regions[:index], smaller, *node.regions[index + 1 :]))


def _smaller_bodies(body: Graph) -> Iterator[Graph]:
    for index, node in reversed(list(enumerate(body.nodes))):
        for changed in _with_smaller_regions(node):
            yield replace(body, nodes=[*body.nodes[:index], changed, *body.nodes[index + 1 :]])
        before = [*body.inputs, *(v for inner in body.nodes[:index] for v in inner.results), *node.operands]
        same_type = [[v for v in before if v.type == result.type] for result in node.results]
        if all(same_type):
            replacements = {result: values[-1] for result, values in zip(node.results, same_type, strict=True)}
            nodes = [*body.nodes[:index], *(rewired(inner, replacements) for inner in body.nodes[index + 1 :])]
            yield replace(body, nodes=nodes, outputs=[replacements.get(v, v) for v in body.outputs])


def _fewer_annotations(module: Module) -> Iterator[Module]:
    for field in ("in_annotations", "out_annotations"):
        annotations: list[Annotation | None] = getattr(module, field)
        for index, annotation in enumerate(annotations):
            if annotation:
                yield replace(module, **{field: [*annotations[:index], None, *annotations[index + 1 :]]})


def _fewer_options(module: Module) -> Iterator[Module]:
    nodes = module.graph.nodes
    for index, node in enumerate(nodes):
        if node.option is not None:
            changed = [*nodes[:index], replace(node, option=None), *nodes[index + 1 :]]
            yield replace(module, graph=replace(module.graph, nodes=changed))


def _fewer_devices(module: Module) -> Iterator[Module]:
    for mesh in module.meshes or (module.mesh,):
        for name in mesh.names:
            if mesh.axis_size(name) == 1 and len(mesh.axes) > 1:
                smaller_mesh = Mesh(tuple(a for a in mesh.axes if a.name != name), mesh.name)
                smaller = _with_mesh(module, mesh, smaller_mesh)
                yield _resharded(smaller, lambda ref, removed=name: split_ref(ref)[0] != removed, mesh=mesh.name)
            for size in dict.fromkeys((1, 2, mesh.axis_size(name) - 1)):
                if 0 < size < mesh.axis_size(name):
                    sizes = {n: size if n == name else mesh.axis_size(n) for n in mesh.names}
                    yield _with_mesh(module, mesh, make_mesh(sizes, mesh.name))


def _with_mesh(module: Module, old: Mesh, new: Mesh) -> Module:
    """Return the module with mesh `old` replaced by `new`."""
    first, *_ = meshes = tuple(new if mesh is old else mesh for mesh in module.meshes or (module.mesh,))
    return replace(module, mesh=first, meshes=meshes if module.meshes else ())


def _plainer_tiles(module: Module) -> Iterator[Module]:
    """Yield the module without the halo and the offsets of one annotation."""
    for index, sharding in enumerate(_shardings(module)):
        if sharding.halo or sharding.offsets:
            yield _with_shardings(module, lambda annotated: replace(annotated, halo=(), offsets=()), index)


def _fewer_axes(module: Module) -> Iterator[Module]:
    """Yield the module without one axis of one annotation."""
    for index, sharding in enumerate(_shardings(module)):
        for ref in sharding.used_axes:
            yield _resharded(module, lambda axis, removed=ref: axis != removed, index)


def _smaller_dims(module: Module) -> Iterator[Module]:
    """Yield the module with one size replaced by a smaller one in the entire program."""
    sizes = {size for value in module.graph.values() for size in value.type.sizes}
    for size in sorted(sizes, reverse=True):
        for smaller in dict.fromkeys((1, 2, 3, size // 2, size - 1)):
            if 0 < smaller < size:
                yield _with_dims_resized(module, size, smaller)


_MOVES: tuple[Callable[[Module], Iterator[Module]], ...] = (
    _fewer_dead,
    _fewer_outputs,
    _fewer_nodes,
    _fewer_inner_nodes,
    _fewer_annotations,
    _fewer_options,
    _plainer_tiles,
    _fewer_devices,
    _fewer_axes,
    _smaller_dims,
)


def _pruned(module: Module, replacements: Mapping[Value, Value], outputs: Sequence[int] | None = None) -> Module:
    """Return the module with values replaced and outputs selected, without anything that is unused now.

    Args:
        replacements: value -> its replacement; a new value becomes an input.
        outputs: indices of the outputs to keep; None keeps all.
    """
    graph = module.graph
    indices = range(len(graph.outputs)) if outputs is None else outputs
    new_outputs = [replacements.get(graph.outputs[n], graph.outputs[n]) for n in indices]
    live = {*needed_nodes(graph.nodes, graph.outputs, lambda node: False)}
    needed = set(new_outputs)
    nodes: list[Node] = []
    for node in reversed(graph.nodes):
        if needed.isdisjoint(node.results) and (node in live or not replacements.keys().isdisjoint(node.results)):
            continue
        nodes.append(rewired(node, replacements))
        needed.update(used_by(nodes[-1]))
    defined = {*graph.inputs, *(v for node in graph.nodes for v in node.results)}
    annotations = dict(zip(graph.inputs, module.in_annotations, strict=False))
    inputs = [v for v in graph.inputs if v in needed] + [
        v for v in replacements.values() if v not in defined and v in needed
    ]
    results = [module.out_annotations[n] if n < len(module.out_annotations) else None for n in indices]
    return replace(
        module,
        graph=Graph(graph.name, inputs, nodes[::-1], new_outputs),
        in_annotations=[annotations.get(v) for v in inputs],
        out_annotations=results,
    )


def _shardings(module: Module) -> list[Sharding]:
    """Return all annotated shardings: of inputs, of outputs, and of `annotate` nodes."""
    annotations = [w.sharding for w in (*module.in_annotations, *module.out_annotations) if w]
    return annotations + [node.attrs.sharding for node in module.graph.nodes if node.op == "annotate"]


def _resharded(module: Module, keep: Callable[[str], bool], only: int | None = None, mesh: str = "") -> Module:
    """Return the module with only those axes in its annotations for which `keep` is true.

    Args:
        only: index of the only annotation to change, in the order of `_shardings`.
        mesh: name of the only mesh whose annotations change, in a program on several meshes.
    """

    def without_axes(sharding: Sharding) -> Sharding:
        if mesh and sharding.mesh not in ("", mesh):
            return sharding
        dims = tuple(tuple(ref for ref in axes if keep(ref)) for axes in sharding.dims)
        return replace(sharding, dims=dims, partial=tuple(pair for pair in sharding.partial if keep(pair[0])))

    return _with_shardings(module, without_axes, only)


def _with_shardings(module: Module, change: Callable[[Sharding], Sharding], only: int | None = None) -> Module:
    """Return the module with `change` applied to all annotations, or only to annotation number `only` in the order of
    `_shardings`.
    """
    count = iter(range(len(_shardings(module))))

    def changed(sharding: Sharding) -> Sharding:
        return change(sharding) if only is None or next(count) == only else sharding

    def changed_annotation(annotation: Annotation | None) -> Annotation | None:
        return annotation and replace(annotation, sharding=changed(annotation.sharding))

    inputs, outputs = (
        [changed_annotation(w) for w in side] for side in (module.in_annotations, module.out_annotations)
    )
    nodes = [
        replace(n, attrs={**n.attrs, "sharding": changed(n.attrs.sharding)}) if n.op == "annotate" else n
        for n in module.graph.nodes
    ]
    graph = replace(module.graph, nodes=nodes)
    return replace(module, graph=graph, in_annotations=inputs, out_annotations=outputs)


def _with_dims_resized(module: Module, old: int, new: int) -> Module:
    """Resize each dim of size `old` to `new`: in types, slice limits, windows of gathers, and constants."""
    values: dict[Value, Value] = {}

    def value(source: Value) -> Value:
        if source not in values:
            shape = tuple(new if size == old else size for size in source.type.sizes)
            values[source] = Value(TensorType(shape, source.type.dtype), source.name, None, source.loc)
        return values[source]

    def attrs(node: Node) -> dict[str, Any]:
        changed = dict(node.attrs)
        for key in ("limit", "slice_sizes"):
            if key in changed:
                changed[key] = tuple(new if size == old else size for size in changed[key])
        if node.op == "constant":
            changed["value"] = np.resize(changed["value"], value(node.result).type.sizes)
        return changed

    def resized(graph: Graph) -> Graph:
        inputs, outputs = ([value(v) for v in side] for side in (graph.inputs, graph.outputs))
        nodes = [
            replace(
                node,
                operands=[value(v) for v in node.operands],
                results=[value(v) for v in node.results],
                attrs=attrs(node),
                regions=tuple(map(resized, node.regions)),
            )
            for node in graph.nodes
        ]
        return Graph(graph.name, inputs, nodes, outputs)

    return replace(module, graph=resized(module.graph))
