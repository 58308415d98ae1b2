"""Delta debugging: a smaller program that still fails in the same way.

Moves are tried in order of what they take away: outputs, ops, annotations, options, mesh axes, halos and offsets,
axes of single annotations, sizes of dims. A move that keeps the failure is kept; it ends when no move does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from meshgen.errors import MeshgenError
from meshgen.ir.graph import Annotation, Graph, Module, Node, TensorType, Value
from meshgen.ir.loops import always_ends
from meshgen.ir.regions import needed_nodes, rewired, used_by
from meshgen.mesh import Mesh, make_mesh, split_ref
from meshgen.mlir.shard.complete import complete_local
from meshgen.ops.evaluate.evaluator import evaluate_node
from meshgen.ops.types.inference import verify_graph
from meshgen.spec import Sharding
from meshgen.testing.lockstep import on_one_device
from meshgen.testing.random_graphs import random_arguments

MAX_TRIES = 2000  # smaller programs, each compiled and run


def shrink(module: Module, fails: Callable[[Module], bool], max_tries: int = MAX_TRIES) -> Module:
    """A module at stage import that is smaller than `module` and for which `fails` is still true.

    `fails` decides what counts as the same failure; a MeshgenError that it raises counts as another one. The
    result depends on the module alone. `module` itself is returned where nothing can be taken away.
    """
    tries = 0

    def is_kept(candidate: Module) -> bool:
        try:
            return _is_consistent(candidate) and fails(candidate)
        except MeshgenError:
            return False

    moved = True
    while moved:
        moved = False
        for family in _MOVES:
            kept: Module | None = module
            while kept is not None and tries < max_tries:
                kept = None
                for candidate in map(_completed, family(module)):
                    tries += 1
                    if is_kept(candidate):
                        module = kept = candidate
                        moved = True
                        break
                    if tries >= max_tries:
                        break
    return module


def _completed(module: Module) -> Module:
    """A program of tiles with the signature that its graph has now."""
    if module.stage == "partition":
        module = replace(module, in_types=[], out_types=[], in_shardings=[], out_shardings=[])
        complete_local(module)
    return module


def _is_consistent(module: Module) -> bool:
    """Whether every op makes what its type says, and ends: sizes that were changed may no longer fit together."""
    graph = module.graph
    if module.stage == "partition":
        return not verify_graph(graph, module.mesh)
    if verify_graph(graph) or not always_ends(graph):
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
    for number in range(count if count > 1 else 0):
        yield _pruned(module, {}, [n for n in range(count) if n != number])


def _fewer_dead(module: Module) -> Iterator[Module]:
    """Without all ops, or one op, that nothing needs."""
    graph = module.graph
    used = {value for node in graph.nodes for value in used_by(node)}
    dead = [node for node in graph.nodes if used.isdisjoint(node.results) and not {*graph.outputs} & {*node.results}]
    for gone in [dead] if len(dead) < 2 else [dead, *([node] for node in reversed(dead))]:
        if gone:
            yield replace(module, graph=replace(graph, nodes=[node for node in graph.nodes if node not in gone]))


def _fewer_nodes(module: Module) -> Iterator[Module]:
    """Without one op, last ones first: an operand of the same type takes the result's place, else a new input."""
    for node in reversed(module.graph.nodes):
        if len(node.results) == 1:
            alike = [v for v in node.operands if v.type == node.result.type]
            yield from (_pruned(module, {node.result: v}) for v in dict.fromkeys(alike))
        if node.op != "annotate":
            yield _pruned(module, {v: Value(v.type, f"cut_{v.name}") for v in node.results})


def _fewer_inner_nodes(module: Module) -> Iterator[Module]:
    """Without one op of a region, last ones first: a value of its type that the region has takes the result's place."""
    graph = module.graph
    for number, node in enumerate(graph.nodes):
        for changed in _with_smaller_regions(node):
            yield replace(
                module, graph=replace(graph, nodes=[*graph.nodes[:number], changed, *graph.nodes[number + 1 :]])
            )


def _with_smaller_regions(node: Node) -> Iterator[Node]:
    for place, body in enumerate(node.regions):
        for smaller in _smaller_bodies(body):
            yield replace(node, regions=(*node.regions[:place], smaller, *node.regions[place + 1 :]))


def _smaller_bodies(body: Graph) -> Iterator[Graph]:
    for number, node in reversed(list(enumerate(body.nodes))):
        for changed in _with_smaller_regions(node):
            yield replace(body, nodes=[*body.nodes[:number], changed, *body.nodes[number + 1 :]])
        before = [*body.inputs, *(v for inner in body.nodes[:number] for v in inner.results), *node.operands]
        alike = [[v for v in before if v.type == result.type] for result in node.results]
        if all(alike):
            put = {result: values[-1] for result, values in zip(node.results, alike, strict=True)}
            rest = [*body.nodes[:number], *(rewired(inner, put) for inner in body.nodes[number + 1 :])]
            yield replace(body, nodes=rest, outputs=[put.get(v, v) for v in body.outputs])


def _fewer_annotations(module: Module) -> Iterator[Module]:
    for field in ("in_annotations", "out_annotations"):
        annotations: list[Annotation | None] = getattr(module, field)
        for number, annotation in enumerate(annotations):
            if annotation:
                yield replace(module, **{field: [*annotations[:number], None, *annotations[number + 1 :]]})


def _fewer_options(module: Module) -> Iterator[Module]:
    nodes = module.graph.nodes
    for number, node in enumerate(nodes):
        if node.option is not None:
            changed = [*nodes[:number], replace(node, option=None), *nodes[number + 1 :]]
            yield replace(module, graph=replace(module.graph, nodes=changed))


def _fewer_devices(module: Module) -> Iterator[Module]:
    for mesh in module.meshes or (module.mesh,):
        for name in mesh.names:
            if mesh.axis_size(name) == 1 and len(mesh.axes) > 1:
                rest = Mesh(tuple(a for a in mesh.axes if a.name != name), mesh.name)
                smaller = _with_mesh(module, mesh, rest)
                yield _resharded(smaller, lambda ref, gone=name: split_ref(ref)[0] != gone, mesh=mesh.name)
            for size in dict.fromkeys((1, 2, mesh.axis_size(name) - 1)):
                if 0 < size < mesh.axis_size(name):
                    sizes = {n: size if n == name else mesh.axis_size(n) for n in mesh.names}
                    yield _with_mesh(module, mesh, make_mesh(sizes, mesh.name))


def _with_mesh(module: Module, old: Mesh, new: Mesh) -> Module:
    """The module with another mesh in place of one of its own."""
    first, *_ = meshes = tuple(new if mesh is old else mesh for mesh in module.meshes or (module.mesh,))
    return replace(module, mesh=first, meshes=meshes if module.meshes else ())


def _plainer_tiles(module: Module) -> Iterator[Module]:
    """One annotation without its halo or offsets."""
    for number, sharding in enumerate(_shardings(module)):
        if sharding.halo or sharding.offsets:
            yield _with_shardings(module, lambda other: replace(other, halo=(), offsets=()), number)


def _fewer_axes(module: Module) -> Iterator[Module]:
    """One use of one axis out of one annotation."""
    for number, sharding in enumerate(_shardings(module)):
        for ref in sharding.used_axes:
            yield _resharded(module, lambda other, gone=ref: other != gone, number)


def _smaller_dims(module: Module) -> Iterator[Module]:
    """One size everywhere replaced by a smaller one."""
    sizes = {size for value in module.graph.values() for size in value.type.sizes}
    for size in sorted(sizes, reverse=True):
        for other in dict.fromkeys((1, 2, 3, size // 2, size - 1)):
            if 0 < other < size:
                yield _with_dims_resized(module, size, other)


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


def _pruned(module: Module, put: Mapping[Value, Value], outputs: Sequence[int] | None = None) -> Module:
    """The module with values replaced (new ones become inputs), some outputs, and nothing that only what went needed."""
    graph = module.graph
    numbers = range(len(graph.outputs)) if outputs is None else outputs
    ends = [put.get(graph.outputs[n], graph.outputs[n]) for n in numbers]
    live = {*needed_nodes(graph.nodes, graph.outputs, lambda node: False)}
    needed = set(ends)
    nodes: list[Node] = []
    for node in reversed(graph.nodes):
        if needed.isdisjoint(node.results) and (node in live or not put.keys().isdisjoint(node.results)):
            continue
        nodes.append(rewired(node, put))
        needed.update(used_by(nodes[-1]))
    known = {*graph.inputs, *(v for node in graph.nodes for v in node.results)}
    annotations = dict(zip(graph.inputs, module.in_annotations, strict=False))
    inputs = [v for v in graph.inputs if v in needed] + [v for v in put.values() if v not in known and v in needed]
    results = [module.out_annotations[n] if n < len(module.out_annotations) else None for n in numbers]
    return replace(
        module,
        graph=Graph(graph.name, inputs, nodes[::-1], ends),
        in_annotations=[annotations.get(v) for v in inputs],
        out_annotations=results,
    )


def _shardings(module: Module) -> list[Sharding]:
    """All annotated shardings: inputs, outputs, `annotate` nodes."""
    annotations = [w.sharding for w in (*module.in_annotations, *module.out_annotations) if w]
    return annotations + [node.attrs.sharding for node in module.graph.nodes if node.op == "annotate"]


def _resharded(module: Module, keep: Callable[[str], bool], only: int | None = None, mesh: str = "") -> Module:
    """The annotations with the axes that are to be kept.

    Only one of them changes (`only`, in order of `_shardings`) or, in a program on several meshes, those over `mesh`.
    """

    def cut(sharding: Sharding) -> Sharding:
        if mesh and sharding.mesh not in ("", mesh):
            return sharding
        dims = tuple(tuple(ref for ref in axes if keep(ref)) for axes in sharding.dims)
        return replace(sharding, dims=dims, partial=tuple(pair for pair in sharding.partial if keep(pair[0])))

    return _with_shardings(module, cut, only)


def _with_shardings(module: Module, change: Callable[[Sharding], Sharding], only: int | None = None) -> Module:
    """The annotations (or the `only` one of them, in order of `_shardings`) changed."""
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
    """Every dim of size `old` gets size `new`, in types, limits of slices, windows of gathers and constants."""
    made: dict[Value, Value] = {}

    def value(source: Value) -> Value:
        if source not in made:
            shape = tuple(new if size == old else size for size in source.type.sizes)
            made[source] = Value(TensorType(shape, source.type.dtype), source.name, None, source.loc)
        return made[source]

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
