"""Move the update of a donated input out of a kernel that also reads the input at indices other than the updated one.

    before   %dx, %w1 = kernel @gradients(%w, %g)     each row of %dx reads all of %w, so %w1 may not overwrite it
    after    %dx, %u = kernel @gradients(%w, %g)      %w1 = kernel @add(%w, %u) overwrites %w

Otherwise a session has to copy the result to the input's memory after each step. The separate kernel moves as many
bytes as that copy but needs no second buffer, and `horizontal-fusion` merges it with other updates.
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
from meshgen.runtime.in_place import overwrites, reads_same_index


def donated_updates(module: Module) -> Module:
    """Move updates that may not overwrite their donated input to separate kernels.

    Returns the module itself if it has no such update.
    """
    graph, blocked = module.graph, _blocked_updates(module)
    if not blocked:
        return module
    kernels = Kernels.of(module.kernels)
    # For each kernel, the launches that replace it: the remaining kernel, then the updates.
    launches: dict[Node, list[Node]] = {}
    for producer, positions, result in blocked:
        donated_inputs = {producer.operands[position] for position in positions}
        rest, *updates = launches.get(producer, [producer])
        if result in rest.results and (split := _split_update(rest, donated_inputs, result, kernels)):
            launches[producer] = [*split, *updates]
    if not launches:
        return module
    nodes = [launch for node in graph.nodes for launch in launches.get(node, [node])]
    return with_kernels(module, replace(graph, nodes=nodes), kernels)


def _blocked_updates(module: Module) -> list[tuple[Node, list[int], Value]]:
    """Return (kernel, positions, result) for each kernel that updates a donated input but may not overwrite the input.

    `positions` are the positions of the input among the kernel's operands, and `result` is the input's next value.
    """
    if not module.donations:
        return []
    graph = module.graph
    producers, roots = graph.index.producers, storage_roots(graph)
    blocked: list[tuple[Node, list[int], Value]] = []
    for index, output in settled(module).pairs.items():
        donated_input, result = graph.inputs[index], roots[graph.outputs[output]]
        producer = producers.get(result)
        if (
            producer is not None
            and is_kernel(producer)
            and not may_overwrite(producer, donated_input, result, roots, module.kernels)
        ):
            blocked.append(
                (producer, [n for n, value in enumerate(producer.operands) if roots[value] is donated_input], result)
            )
    return blocked


def _split_update(kernel: Node, donated_inputs: set[Value], result: Value, kernels: Kernels) -> list[Node] | None:
    """Split a kernel in two: one without output `result`, and one that computes `result` element by element from the
    input.

    Returns None if no op of the kernel reads the input at the same index that it writes.
    """
    body = kernels.bodies[kernel.attrs.kernel]
    updated = body.outputs[kernel.results.index(result)]
    formals = {formal for formal, value in zip(body.inputs, kernel.operands, strict=True) if value in donated_inputs}
    members = _path_of_update(body, formals, updated)
    if not members:
        return None
    producers = body.index.producers
    update, operands = Cutter(producers, _is_splat).cut(members, [updated])
    pairs = overwrites(update)
    actual = dict(zip(body.inputs, kernel.operands, strict=True)) | dict(zip(body.outputs, kernel.results, strict=True))
    between = [value for value in operands if value not in actual]
    outputs = [*(value for value in body.outputs if value is not updated), *between]
    if not outputs or not all(0 in pairs.get(n, ()) for n, value in enumerate(operands) if value in formals):
        return None
    actual |= {value: Value(value.type, value.name, loc=value.loc) for value in between}
    rest, first = Cutter(producers, lambda _: True).cut([], outputs)
    return [_launch(*part, actual, kernel, kernels) for part in ((rest, first, outputs), (update, operands, [updated]))]


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
    """Return the ops between `formals` and `goal` that read `formals` at the index of their own result.

    The list is empty without such ops, or if other ops use their intermediate results.
    """
    reached = set(formals)
    for node in body.nodes:
        if any(value in reached and reads_same_index(node, value) for value in node.operands):
            reached.update(node.results)
    needed, members = {goal}, list[Node]()
    for node in reversed(body.nodes):
        if not needed.isdisjoint(node.results) and not reached.isdisjoint(node.results):
            members.append(node)
            needed.update(value for value in node.operands if reads_same_index(node, value))
    computed = {value for node in members for value in node.results}
    member_set = set(members)
    outside_uses = Counter(
        v for node in body.nodes if node not in member_set for v in (*node.operands, *captured(node))
    )
    outside_uses.update(body.outputs)
    is_read = any(outside_uses[value] for value in computed - {goal}) or outside_uses[goal] != 1
    return [] if is_read else members[::-1]


def _is_splat(node: Node) -> bool:
    """Whether a node is a constant, or broadcasts a single element, so that all elements of its result are equal."""
    return is_constant(node) or (node.op in LAYOUT and all(v.type.size == 1 for v in node.operands))
