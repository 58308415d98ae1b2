"""Let a reduce read the transposed value if all other users of the reduced operand are the same transpose.

    before   %m = reduce maximum %s, dims [4]                     f32[1,16,1024,1,1024] -> f32[1,16,1024,1]
             %t = transpose %s, dims = [3, 0, 1, 2, 4]            %s has no other users
    after    %t = transpose %s, dims = [3, 0, 1, 2, 4]            f32[1,1,16,1024,1024]
             %n = reduce maximum %t, dims [4]
             %m = transpose %n, dims = [1, 2, 3, 0]

A softmax then uses one value throughout, so its maximum, exponentials and sums match the attention pattern
(`codegen/attention`). JAX's `dot_product_attention` emits the form before.
"""

from __future__ import annotations

from meshgen.codegen.passes.all_graphs import on_graphs
from meshgen.compilation import Compilation, module_pass
from meshgen.ir.graph import Graph, Module, Node, Value
from meshgen.ir.regions import used_by
from meshgen.ops.classes import REDUCTIONS


@module_pass("transpose-before-reduce", "partition")
def transpose_before_reduce(module: Module, context: Compilation) -> Module:
    """Move transposes before the reduces of the same value. The results remain the same `Value` objects."""
    return on_graphs(module, _with_transposes_first)


def _with_transposes_first(graph: Graph) -> Graph:
    transposes = _transposes(graph)
    if not transposes:
        return graph
    nodes: list[Node] = []
    emitted: set[Node] = set()
    for node in graph.nodes:
        transpose = transposes.get(node.operands[0]) if node.operands else None
        if transpose is not None and transpose not in emitted:
            nodes.append(transpose)
            emitted.add(transpose)
        if transpose is None:
            nodes.append(node)
        elif node.op != "transpose":
            nodes += _reduce_of_transposed(node, transpose)
    return Graph(graph.name, list(graph.inputs), nodes, list(graph.outputs))


def _transposes(graph: Graph) -> dict[Value, Node]:
    """Map each value that one transpose and at least one reduce use, and nothing else uses, to the transpose."""
    users: dict[Value, list[Node]] = {}
    for node in graph.nodes:
        for value in dict.fromkeys(used_by(node)):
            users.setdefault(value, []).append(node)
    temporaries = {value for node in graph.nodes for value in node.results} - {*graph.outputs}
    transposed: dict[Value, Node] = {}
    for value in temporaries & users.keys():
        transposes = [node for node in users[value] if node.op == "transpose"]
        reduces = [node for node in users[value] if node.op in REDUCTIONS and value not in node.operands[1:]]
        if len(transposes) == 1 and reduces and len(reduces) + 1 == len(users[value]):
            transposed[value] = transposes[0]
    return transposed


def _reduce_of_transposed(node: Node, transpose: Node) -> list[Node]:
    """Return the reduce of the transposed value, and a transpose of its result back to the original order of dims."""
    value, perm = transpose.result, tuple(transpose.attrs.perm)
    order = [d for d in perm if d not in node.attrs.dims]
    reduced = Value(node.result.type.with_shape([value.type.sizes[perm.index(d)] for d in order]))
    attrs = {**node.attrs, "dims": tuple(sorted(perm.index(d) for d in node.attrs.dims))}
    inverse = tuple(order.index(d) for d in sorted(order))
    reduce = Node(node.op, [value, *node.operands[1:]], [reduced], attrs, node.loc, notes=node.notes)
    return [reduce, Node("transpose", [reduced], node.results, {"perm": inverse}, node.loc)]
