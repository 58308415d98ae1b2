"""The update of a donated input becomes a kernel of its own where the kernel that computes it reads the input at other indices as well.

    before   %dx, %w1 = kernel @gradients(%w, %g)     each row of %dx reads all of %w, so %w1 may not overwrite it
    after    %dx, %u = kernel @gradients(%w, %g)      %w1 = kernel @add(%w, %u) overwrites %w

A session would copy the result to the memory of its input after each step. The separate kernel moves as many bytes as that copy,
takes no second buffer, and `horizontal-fusion` joins it with other updates.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from meshgen.codegen.fusion.bodies import Cutter, Kernels, with_kernels
from meshgen.codegen.kernel_nodes import kernel_node
from meshgen.codegen.scheduling.donation import may_overwrite, storage_roots
from meshgen.ir.donation import settled
from meshgen.ir.graph import Graph, Module, Node, Value
from meshgen.ir.predicates import is_constant, is_kernel
from meshgen.ir.regions import captured
from meshgen.ops.classes import LAYOUT
from meshgen.runtime.in_place import keeps_place, overwrites


def donated_updates(module: Module) -> Module:
    """Return the fused module with such updates in kernels of their own; the module itself if it has none."""
    graph, wanted = module.graph, _wanted(module)
    if not wanted:
        return module
    kernels = Kernels.of(module.kernels)
    launches: dict[Node, list[Node]] = {}  # in place of a kernel: what is left of it, and the updates
    for maker, places, result in wanted:
        own = {maker.operands[place] for place in places}
        rest, *updates = launches.get(maker, [maker])
        if result in rest.results and (split := _split_update(rest, own, result, kernels)):
            launches[maker] = [*split, *updates]
    if not launches:
        return module
    nodes = [launch for node in graph.nodes for launch in launches.get(node, [node])]
    return with_kernels(module, replace(graph, nodes=nodes), kernels)


def _wanted(module: Module) -> list[tuple[Node, list[int], Value]]:
    """Return the kernels that compute the next value of a donated input but may not overwrite it.

    With each are the positions of the input among its operands, and the next value.
    """
    if not module.donations:
        return []
    graph = module.graph
    makers, roots = graph.index.producers, storage_roots(graph)
    found: list[tuple[Node, list[int], Value]] = []
    for number, output in settled(module).pairs.items():
        own, result = graph.inputs[number], roots[graph.outputs[output]]
        maker = makers.get(result)
        if maker is not None and is_kernel(maker) and not may_overwrite(maker, own, result, roots, module.kernels):
            found.append((maker, [n for n, value in enumerate(maker.operands) if roots[value] is own], result))
    return found


def _split_update(kernel: Node, own: set[Value], result: Value, kernels: Kernels) -> list[Node] | None:
    """Return a kernel without `result`, and one that computes `result` from `own` at the same index; None if no op does."""
    body = kernels.bodies[kernel.attrs.kernel]
    goal = body.outputs[kernel.results.index(result)]
    formals = {formal for formal, value in zip(body.inputs, kernel.operands, strict=True) if value in own}
    members = _path_of_update(body, formals, goal)
    if not members:
        return None
    producers = body.index.producers
    update, operands = Cutter(producers, _is_splat).cut(members, [goal])
    pairs = overwrites(update)
    actual = dict(zip(body.inputs, kernel.operands, strict=True)) | dict(zip(body.outputs, kernel.results, strict=True))
    between = [value for value in operands if value not in actual]
    outputs = [*(value for value in body.outputs if value is not goal), *between]
    if not outputs or not all(0 in pairs.get(n, ()) for n, value in enumerate(operands) if value in formals):
        return None
    actual |= {value: Value(value.type, value.name, loc=value.loc) for value in between}
    rest, first = Cutter(producers, lambda _: True).cut([], outputs)
    return [_launch(*each, actual, kernel, kernels) for each in ((rest, first, outputs), (update, operands, [goal]))]


def _launch(
    body: Graph,
    operands: list[Value],
    results: list[Value],
    actual: Mapping[Value, Value],
    like: Node,
    kernels: Kernels,
) -> Node:
    return kernel_node(kernels, body, [actual[v] for v in operands], [actual[v] for v in results], like.loc)


def _path_of_update(body: Graph, formals: set[Value], goal: Value) -> list[Node]:
    """Return the ops between formals and goal that read the formals at the index of their own result.

    The list is empty if no op does, or if others read the results of these ops.
    """
    reached = set(formals)
    for node in body.nodes:
        if any(value in reached and keeps_place(node, value) for value in node.operands):
            reached.update(node.results)
    wanted, members = {goal}, list[Node]()
    for node in reversed(body.nodes):
        if not wanted.isdisjoint(node.results) and not reached.isdisjoint(node.results):
            members.append(node)
            wanted.update(value for value in node.operands if keeps_place(node, value))
    made = {value for node in members for value in node.results}
    inside = set(members)
    outside = Counter(v for node in body.nodes if node not in inside for v in (*node.operands, *captured(node)))
    outside.update(body.outputs)
    is_read = any(outside[value] for value in made - {goal}) or outside[goal] != 1
    return [] if is_read else members[::-1]


def _is_splat(node: Node) -> bool:
    """Whether a node is a constant, or lays one number out over its result."""
    return is_constant(node) or (node.op in LAYOUT and all(v.type.size == 1 for v in node.operands))
