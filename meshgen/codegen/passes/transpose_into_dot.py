"""The transposed result of a dot is that of the dot with its operands exchanged.

    before   %1 = dot_general %dy, %x, contracting_dims = [0] x [0]     f32[8192,192], f32[8192,768] -> f32[192,768]
             %2 = transpose %1, dims = [1, 0]
    after    %2 = dot_general %x, %dy, contracting_dims = [0] x [0]     -> f32[768,192]

Gradients of matrices are written so. The kernel of the dot then writes the layout that a message or a result has, where each reader would have
transposed it again, and dots of one `%x` are beside each other in one kernel. Left as they are: dots that something else reads as well.
"""

from __future__ import annotations

from meshgen.codegen.passes.graphs import on_graphs
from meshgen.compilation import Compilation, module_pass
from meshgen.ir.graph import Graph, Module, Node, Value
from meshgen.ir.regions import used_by
from meshgen.ops.dot_dims import DotDims


@module_pass("transpose-into-dot", "partition")
def transpose_into_dot(module: Module, context: Compilation) -> Module:
    """A local program without such transposes."""
    return on_graphs(module, _with_exchanged_dots)


def _with_exchanged_dots(graph: Graph) -> Graph:
    dots = {node.result: node for node in graph.nodes if node.op == "dot_general"}
    readers: dict[Value, list[Node]] = {value: [] for value in dots if value not in graph.outputs}
    for node in graph.nodes if dots else ():
        for value in readers.keys() & set(used_by(node)):
            readers[value].append(node)
    found = {
        dots[value]: by[0] for value, by in readers.items() if len(by) == 1 and _exchanges_sides(by[0], dots[value])
    }
    if not found:
        return graph
    gone = set(found.values())
    nodes = [_exchanged(node, found[node]) if node in found else node for node in graph.nodes if node not in gone]
    return Graph(graph.name, list(graph.inputs), nodes, list(graph.outputs))


def _exchanges_sides(reader: Node, dot: Node) -> bool:
    """Whether a node only puts the dims of the right operand before those of the left one."""
    if reader.op != "transpose":
        return False
    dims = DotDims.of(dot)
    batch, left = len(dims.batch[0]), len(dims.free[0])
    rank = dot.result.type.rank
    return list(reader.attrs.perm) == [*range(batch), *range(batch + left, rank), *range(batch, batch + left)]


def _exchanged(dot: Node, transpose: Node) -> Node:
    old = dot.attrs
    sides = {"lhs_batch": old.rhs_batch, "rhs_batch": old.lhs_batch, "lhs_contract": old.rhs_contract, "rhs_contract": old.lhs_contract}  # fmt: skip
    attrs = {**old, **sides, "precision": tuple(reversed(old.precision))}
    return Node("dot_general", list(reversed(dot.operands)), transpose.results, attrs, dot.loc, notes=dot.notes)
