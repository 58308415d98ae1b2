"""Hoist a slice of a device's tile above the ops that compute the sliced value, so that only the tile is computed.

    before   %1 = add %x, %y                     %2 = all_slice %1
    after    %1 = all_slice %x   %2 = all_slice %y   %3 = add %1, %2

    before   %1 = all_reduce %x on a             %2 = all_slice %1 on b
    after    %1 = all_slice %x on b              %2 = all_reduce %1 on a

On values with shardings, the ops must be element-wise. In a local program (stage partition) they may be any op that its
sharding rule allows on tiles, and collectives over other axes, which then move less. Every device slices its own value,
so no two devices are assumed to have equal values.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from meshgen.compilation import Compilation, module_pass
from meshgen.ir.graph import Graph, Module, Node, NodeSharding, Value
from meshgen.ir.regions import used_values
from meshgen.mesh import Mesh, overlaps
from meshgen.ops.classes import ELEMENTWISE
from meshgen.sharding.optimizations.loops_on_tiles import Loop, attrs_on_tiles, loop_of, tile_of
from meshgen.sharding.optimizations.walk import is_bound, with_graph
from meshgen.spec import Sharding


@module_pass(
    "slice-hoist", "materialize", "optimize", "partition", applies="unless more expensive", requires_ops=("all_slice",)
)
def slice_hoist(module: Module, context: Compilation) -> Module:
    """Return the module with slices above the ops that compute the sliced values.

    A slice moves only if the op has no other use. This places it next to the reduction or gather that it can fold with.
    The graph is walked backwards once.
    """
    uses = Counter(used_values(module.graph))
    return with_graph(module, _graph(module.graph, uses, module.mesh))


def _graph(graph: Graph, uses: Counter[Value], mesh: Mesh) -> Graph:
    reversed_nodes: list[Node] = []  # nodes of the new graph, last node first
    producers = graph.index.producers
    # value -> its only user, a slice that can be moved before the op that computes the value
    waiting: dict[Value, Node] = {}

    def place(cut: Node) -> None:
        producer = producers.get(cut.operands[0])
        if (
            producer
            and uses[cut.operands[0]] == 1
            and not is_bound(producer)
            and (_can_follow(producer, cut) or _sliceable_loop(producer, cut, mesh))
        ):
            waiting[cut.operands[0]] = cut
        else:
            reversed_nodes.append(cut)

    for node in reversed(graph.nodes):
        if node.op == "all_slice":
            place(node)
        elif node.results and node.results[0] in waiting:
            cut = waiting.pop(node.results[0])
            moved, slices = _swap_locally(node, cut, mesh) if node.result.sharding is None else _swap(node, cut)
            reversed_nodes.append(moved)
            for cut in reversed(slices):
                place(cut)
        else:
            regions = tuple(_graph(region, uses, mesh) for region in node.regions)
            reversed_nodes.append(replace(node, regions=regions) if regions else node)
    return Graph(graph.name, graph.inputs, reversed_nodes[::-1], graph.outputs)


def _can_follow(node: Node, cut: Node) -> bool:
    if node.op not in ELEMENTWISE or node.result.sharding is None:
        return False
    shardings = [value.sharding for value in node.operands if value.type.rank]
    return all(s is not None and _is_free(s, node.result.sharding, cut) for s in shardings)


def _sliceable_loop(node: Node, cut: Node, mesh: Mesh) -> Loop | None:
    """Return the loop of a local op that the slice `cut` of its result splits, or None if the slice cannot come before
    the op.
    """
    dim, axes = cut.attrs.dim, cut.attrs.axes
    count = mesh.group_size(tuple(axes))
    if len(node.results) != 1 or node.result.sharding is not None or node.result.type.sizes[dim] % count:
        return None
    if node.op not in ("all_reduce", "all_gather", "reduce_scatter"):
        return loop_of(node, dim, count)
    is_other = node.attrs.get("dim") != dim and not any(overlaps(a, b) for a in axes for b in node.attrs.axes)
    return Loop((dim,), dim) if is_other else None


def _swap_locally(node: Node, cut: Node, mesh: Mesh) -> tuple[Node, list[Node]]:
    """Return the op on tiles, and the slices of its operands, in a local program."""
    loop, count = _sliceable_loop(node, cut, mesh), mesh.group_size(tuple(cut.attrs.axes))
    assert loop is not None, "checked by the caller"
    slices: dict[tuple[Value, int], Node] = {}
    operands: list[Value] = []
    for value, dim in zip(node.operands, loop.operands, strict=True):
        if dim is not None and (value, dim) not in slices:
            tile = Value(tile_of(value.type, dim, count), value.name, None, value.loc)
            attrs = {**cut.attrs, "dim": dim}
            slices[value, dim] = Node("all_slice", [value], [tile], attrs, cut.loc, notes=cut.notes)
        operands.append(value if dim is None else slices[value, dim].result)
    attrs = dict(attrs_on_tiles(node, loop, count))
    return Node(node.op, operands, [cut.result], attrs, node.loc, notes=node.notes), list(slices.values())


def _is_free(sharding: Sharding, result: Sharding, cut: Node) -> bool:
    used = any(overlaps(axis, new) for axis in sharding.used_axes for new in cut.attrs.axes)
    return not used and sharding.dims == result.dims and not sharding.halo and not any(sharding.offsets)


def _swap(node: Node, cut: Node) -> tuple[Node, list[Node]]:
    """Return the op on tiles, and one slice per distinct operand, in a program whose values have shardings."""
    slices: dict[Value, Node] = {}
    for value in node.operands:
        if value.type.rank and value not in slices:
            slices[value] = _all_slice_of(value, cut)
    operands = [slices[value].result if value in slices else value for value in node.operands]
    result = cut.result
    sharding = NodeSharding(
        tuple(_sharding_of(v) for v in operands), (_sharding_of(result),), _sharding_of(result).dims
    )
    return Node(node.op, operands, [result], dict(node.attrs), node.loc, sharding, notes=node.notes), list(
        slices.values()
    )


def _all_slice_of(value: Value, cut: Node) -> Node:
    sharding, axes, dim = _sharding_of(value), tuple(cut.attrs.axes), cut.attrs.dim
    dims = tuple(old + axes if d == dim else old for d, old in enumerate(sharding.dims))
    result = Value(value.type, value.name, Sharding(dims, sharding.partial), value.loc)
    return Node("all_slice", [value], [result], dict(cut.attrs), cut.loc, notes=cut.notes)


def _sharding_of(value: Value) -> Sharding:
    return value.sharding or Sharding.replicated(value.type.rank)
