"""Replace a transpose of a dot's result by the dot with its operands exchanged.

    before   %1 = dot_general %dy, %x, contracting_dims = [0] x [0]     f32[8192,192], f32[8192,768] -> f32[192,768]
             %2 = transpose %1, dims = [1, 0]
    after    %2 = dot_general %x, %dy, contracting_dims = [0] x [0]     -> f32[768,192]

Gradients of weight matrices have this form. The GEMM kernel then writes the layout that messages and results need, so
no user has to transpose. The GEMMs that share `%x` can run side by side in one kernel. A dot with other users is left
alone.
"""

from __future__ import annotations

from meshgen.codegen.passes.all_graphs import on_graphs
from meshgen.compilation import Compilation, module_pass
from meshgen.ir.graph import Graph, Module, Node, Value
from meshgen.ir.regions import used_by
from meshgen.ops.dot_dims import DotDims


@module_pass("transpose-into-dot", "partition")
def transpose_into_dot(module: Module, context: Compilation) -> Module:
    """Fold transposes of dot results into dots with exchanged operands."""
    return on_graphs(module, _with_exchanged_dots)


def _with_exchanged_dots(graph: Graph) -> Graph:
    dots = {node.result: node for node in graph.nodes if node.op == "dot_general"}
    users_of: dict[Value, list[Node]] = {value: [] for value in dots if value not in graph.outputs}
    for node in graph.nodes if dots else ():
        for value in users_of.keys() & set(used_by(node)):
            users_of[value].append(node)
    transposes = {
        dots[value]: users[0]
        for value, users in users_of.items()
        if len(users) == 1 and _exchanges_sides(users[0], dots[value])
    }
    if not transposes:
        return graph
    removed = set(transposes.values())
    nodes = [
        _exchanged(node, transposes[node]) if node in transposes else node
        for node in graph.nodes
        if node not in removed
    ]
    return Graph(graph.name, list(graph.inputs), nodes, list(graph.outputs))


def _exchanges_sides(reader: Node, dot: Node) -> bool:
    """Whether `reader` is a transpose of the dot's result that moves the right operand's free dims before the left
    operand's.
    """
    if reader.op != "transpose":
        return False
    dims = DotDims.of(dot)
    batch, left = len(dims.batch[0]), len(dims.free[0])
    rank = dot.result.type.rank
    return list(reader.attrs.perm) == [*range(batch), *range(batch + left, rank), *range(batch, batch + left)]


def _exchanged(dot: Node, transpose: Node) -> Node:
    attrs_before = dot.attrs
    sides = {"lhs_batch": attrs_before.rhs_batch, "rhs_batch": attrs_before.lhs_batch, "lhs_contract": attrs_before.rhs_contract, "rhs_contract": attrs_before.lhs_contract}  # fmt: skip
    attrs = {**attrs_before, **sides, "precision": tuple(reversed(attrs_before.precision))}
    return Node("dot_general", list(reversed(dot.operands)), transpose.results, attrs, dot.loc, notes=dot.notes)
