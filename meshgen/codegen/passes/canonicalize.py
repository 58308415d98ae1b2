"""Fold constants and algebraic identities, merge equal subexpressions, remove dead code and unchanged loop state.

    before   %1 = multiply %x, (broadcast 1.0)
             %2 = reshape (reshape %1)
             %3 = add %2, %2'      where %2' is equal to %2
             return %3, (broadcast_in_dim %x {dims = [0, 2]} : f32[8,4] -> f32[8,1,4])
    after    %2 = reshape %x
             %3 = add %2, %2
             return %3, (reshape %x)

A value that a loop carries unchanged becomes a captured value. Values without elements are replaced by constants. A
broadcast that only adds dims of size 1 becomes a reshape if no kernel reads its result, because a reshape needs no
launch.
"""

from __future__ import annotations

import numpy as np

from meshgen.codegen.algebra.identities import IDENTITIES
from meshgen.codegen.algebra.splats import Array, Writer
from meshgen.codegen.passes.all_graphs import on_graphs
from meshgen.compilation import Compilation, module_pass
from meshgen.ir.graph import Graph, Module, Node, Value
from meshgen.ir.loops import capture_loop_invariants
from meshgen.ir.predicates import is_constant, is_loop
from meshgen.ir.regions import used_by
from meshgen.ir.splats import uniform_element
from meshgen.ops.classes import COMMUNICATING, ELEMENTWISE, IMPURE, POINTWISE
from meshgen.ops.constants import element
from meshgen.ops.dead_code import live_nodes
from meshgen.ops.identity_ops import identity_operand


@module_pass("canonicalize", "partition")
def canonicalize(module: Module, context: Compilation) -> Module:
    """Return an equivalent, simplified local program. The number, order and types of its inputs and outputs do not
    change.
    """
    return on_graphs(module, _canonical)


def _canonical(graph: Graph) -> Graph:
    canonicalizer = _Canonicalizer(graph)
    for node in graph.nodes:
        canonicalizer.visit(node)
    return canonicalizer.finish()


class _Canonicalizer:
    """Copies the nodes of a graph one by one, simplified; `_replacements` maps each old value to its replacement."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._writer = Writer(Graph(graph.name, list(graph.inputs)))
        self._replacements: dict[Value, Value] = {value: value for value in graph.inputs}
        self._changed = False
        computing = (node for node in graph.nodes if node.op not in COMMUNICATING)
        self._inner = {value for node in computing for value in used_by(node)}

    def visit(self, node: Node) -> None:
        if is_loop(node):
            node, same = capture_loop_invariants(node)
            self._replacements.update({result: self._replacements.get(value, value) for result, value in same.items()})
            self._changed |= bool(same)
        operands = [self._replacements.get(v, v) for v in node.operands]
        if (replacement := self._replace(node, operands)) is not None:
            self._replacements[node.result] = replacement
            self._changed = True
            return
        copy = self._writer.emit(node, operands, self._replacements)
        self._replacements.update(zip(node.results, copy.results, strict=True))

    def finish(self) -> Graph:
        written = self._writer.graph
        # A region may return a value that is defined in an enclosing graph.
        written.outputs = [self._replacements.get(v, v) for v in self._graph.outputs]
        nodes = live_nodes(written)
        if not self._changed and len(nodes) == len(self._graph.nodes):
            return self._graph
        return Graph(written.name, list(written.inputs), nodes, list(written.outputs))

    def _replace(self, node: Node, operands: list[Value]) -> Value | None:
        """Return a value that replaces the node's only result, or None if the node cannot be simplified."""
        if len(node.results) != 1 or node.op in IMPURE or node.regions:
            return None
        result_type = node.result.type
        if None in result_type.shape or any(None in v.type.shape for v in operands):
            return None
        if result_type.size == 0 and node.op != "broadcast_in_dim":
            return self._writer.splat(np.zeros((), result_type.numpy_dtype), result_type, node)
        if is_constant(node):
            splat_value = uniform_element(node.attrs.value) if result_type.rank else None
            return None if splat_value is None else self._writer.splat(splat_value, result_type, node)
        if (splat_value := self._fold(node, operands)) is not None:
            return self._writer.splat(splat_value, result_type, node)
        if (same := identity_operand(node, operands)) is not None:
            return same
        identity = IDENTITIES.get(node.op)
        simplified = None if identity is None else identity(self._writer, node, operands)
        if simplified is None and node.result not in self._inner and _only_adds_dims(node):
            return self._writer.new("reshape", operands, result_type, {}, node)
        return simplified

    def _fold(self, node: Node, operands: list[Value]) -> Array | None:
        """Return the number that all elements of the result have if all operands are splats, or None otherwise."""
        if node.op not in POINTWISE or node.op not in ELEMENTWISE or not operands:
            return None
        splat_values = [self._writer.number(v) for v in operands]
        if any(n is None for n in splat_values):
            return None
        return element(node, [splat_value for splat_value in splat_values if splat_value is not None])


def _only_adds_dims(node: Node) -> bool:
    """Whether the node is a broadcast that only adds dims of size 1, so that the result's elements are in the operand's
    order.
    """
    if node.op != "broadcast_in_dim":
        return False
    dims = node.attrs.dims
    return node.operands[0].type.size == node.result.type.size and list(dims) == sorted(dims)
