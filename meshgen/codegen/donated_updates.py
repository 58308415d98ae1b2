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

from meshgen.codegen.donated import may_overwrite, storage_roots
from meshgen.codegen.fusion.bodies import Cutter, Kernels, with_kernels
from meshgen.ir.donation import settled
from meshgen.ir.graph import Graph, Module, Node, Value
from meshgen.ir.predicates import is_constant, is_kernel
from meshgen.ir.regions import captured
from meshgen.ops.classes import LAYOUT
from meshgen.runtime.in_place import keeps_place


def donated_updates(module: Module) -> Module:
    """The fused module with such updates in kernels of their own; itself where there are none."""
    if not module.donations:
        return module
    graph, kernels = module.graph, Kernels.of(module.kernels)
    makers, roots = graph.producers(), storage_roots(graph)
    launches: dict[Node, list[Node]] = {}  # in place of a kernel: what is left of it, and the updates
    for number, output in settled(module).pairs.items():
        own, result = graph.inputs[number], roots[graph.outputs[output]]
        maker = makers.get(result)
        if maker is None or not is_kernel(maker):
            continue
        rest, *updates = launches.get(maker, [maker])
        if result not in rest.results or may_overwrite(rest, own, result, roots, kernels.bodies):
            continue
        if split := _split_update(rest, own, result, roots, kernels):
            launches[maker] = [*split, *updates]
    if not launches:
        return module
    nodes = [launch for node in graph.nodes for launch in launches.get(node, [node])]
    return with_kernels(module, replace(graph, nodes=nodes), kernels)


def _split_update(
    kernel: Node, own: Value, result: Value, roots: dict[Value, Value], kernels: Kernels
) -> list[Node] | None:
    """A kernel without a result, and the kernel that makes this from `own` at the same index; None where no op does."""
    body = kernels.bodies[kernel.attrs.kernel]
    goal = body.outputs[kernel.results.index(result)]
    formals = {f for f, value in zip(body.inputs, kernel.operands, strict=True) if roots[value] is own}
    members = _path_of_update(body, formals, goal)
    if not members:
        return None
    producers = body.producers()
    update, operands = Cutter(producers, _is_splat).cut(members, [goal])
    actual = dict(zip(body.inputs, kernel.operands, strict=True)) | dict(zip(body.outputs, kernel.results, strict=True))
    between = [value for value in operands if value not in actual]
    actual |= {value: Value(value.type, value.name, loc=value.loc) for value in between}
    roots.update((actual[value], actual[value]) for value in between)
    outputs = [*(value for value in body.outputs if value is not goal), *between]
    if not outputs:
        return None
    rest, first = Cutter(producers, lambda _: True).cut([], outputs)
    launch = _launch(update, operands, [goal], actual, kernel, kernels)
    if not may_overwrite(launch, own, result, roots, kernels.bodies):
        return None
    return [_launch(rest, first, outputs, actual, kernel, kernels), launch]


def _launch(
    body: Graph,
    operands: list[Value],
    results: list[Value],
    actual: Mapping[Value, Value],
    like: Node,
    kernels: Kernels,
) -> Node:
    name = kernels.name_of(body)
    return Node("kernel", [actual[v] for v in operands], [actual[v] for v in results], {"kernel": name}, like.loc)


def _path_of_update(body: Graph, formals: set[Value], goal: Value) -> list[Node]:
    """The ops from the formals to the goal that need them at the index of their result only; none where others read what they make."""
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
