"""A backward pass computes the scores of an attention again, from its operands and two values per row, rather than read them.

    before   s = dot(q, k), e = exp(s - high), p = e / total, o = dot(p, v)
             dv = dot(p, do),  dk = dot(f(e, dot(do, v)), q),  dq = dot(f(..), k)
    after    the same, and s', e', p' beside dv and dk, of s' = dot(q, k); s'', e'', p'' beside dq

Each copy is a kernel with the products that sum it over the same dims (`fusion/attention_gradient.py`): nothing of the size of the scores is
in memory. Left as it is where something else needs the scores. A division by a value per row becomes a product with its reciprocal.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from meshgen.codegen.fusion.attention_gradient import Gradient, gradients_of, positions
from meshgen.codegen.fusion.attention_indices import attentions_in, per_row_nodes
from meshgen.codegen.fusion.weighted_sum import is_index_map, is_recomputed, weighted_sum
from meshgen.codegen.passes.graphs import on_graphs
from meshgen.compilation import Compilation, module_pass
from meshgen.ir.graph import DTYPES, Graph, Module, Node, TensorType, Value
from meshgen.ir.regions import used_by
from meshgen.ops.classes import DOTS
from meshgen.ops.live import without_dead


@module_pass("attention-recompute", "partition")
def attention_recompute(module: Module, context: Compilation) -> Module:
    """A local program whose gradients of attentions compute the scores again."""
    return on_graphs(module, _with_recomputed_scores)


def _with_recomputed_scores(graph: Graph) -> Graph:
    if sum(node.op in DOTS for node in graph.nodes) < 3:
        return graph
    finder = _Finder(graph)
    exponentials = dict.fromkeys((*finder.attentions, *(each.exponential for each in finder.sums)))
    groups = [gradient for each in exponentials for gradient in finder.gradients(each)]
    if not groups:
        return graph
    reciprocals = _Reciprocals()
    kernels = [_Copier(finder, each, reciprocals).copied() for each in groups]
    return without_dead(_ordered(graph, kernels, reciprocals.nodes))


class _Finder:
    """Finds the gradients of attentions whose scores nothing else needs."""

    def __init__(self, graph: Graph) -> None:
        self.producer, self.outputs, self.position = graph.index.producers, set(graph.outputs), positions(graph)
        self.users: dict[Value, list[Node]] = {}
        for node in graph.nodes:
            for value in used_by(node):
                self.users.setdefault(value, []).append(node)
        self.sums = [s for node in graph.nodes if (s := weighted_sum(node, self.producer.get)) is not None]
        self.attentions = attentions_in(graph)
        inside = (each.nodes(self.position, self.producer.get) for each in gradients_of(self.sums))
        members = (attention.members for attention in self.attentions.values())
        self.allowed = {node for nodes in (*inside, *members) for node in nodes}  # they compute scores by themselves

    def gradients(self, exponential: Node) -> list[Gradient]:
        """The gradients with an exponential, which may be that of an attention; none if something else needs what is between."""
        attention = self.attentions.get(exponential)
        product = attention.product if attention else None
        sums = [s for s in self.sums if s.exponential is exponential and s.product is not product]
        gradients = gradients_of(sums)
        of_scores, products = self._computed_from_products(gradients), {s.product for s in sums}
        if attention is not None:
            members = sorted(attention.members, key=self.position.__getitem__)
            by_row = per_row_nodes(attention, members, self.producer.get)
            of_scores |= {n for n in members if n not in by_row}
            products.add(attention.product)
        readers = [user for n in of_scores - products for v in n.results for user in self.users.get(v, ())]
        leaving = any(v in self.outputs for n in of_scores - products for v in n.results)
        return gradients if not leaving and self.allowed.issuperset(readers) else []

    def _computed_from_products(self, gradients: Sequence[Gradient]) -> set[Node]:
        """What is between, without what needs none of the products: masks may be read by others."""
        found = set[Node]()
        between = {node for each in gradients for value in each.index if (node := self.producer.get(value))}
        for node in sorted(between, key=self.position.__getitem__):
            makers = [self.producer.get(v) for v in node.operands]
            if is_recomputed(node) or any(maker in found for maker in makers):
                found.add(node)
        return found


class _Copier:
    """Copies what one kernel computes again."""

    def __init__(self, finder: _Finder, gradient: Gradient, reciprocals: _Reciprocals) -> None:
        self.gradient, self.now, self.reciprocals = gradient, dict[Value, Value](), reciprocals
        self.producer = finder.producer
        self.nodes = gradient.nodes(finder.position, self.producer.get)
        self.out = Graph("")

    def copied(self) -> list[Node]:
        """The nodes of the kernel in order; the results of the sums keep their values."""
        products = {each.product for each in self.gradient.sums}
        for node in self.nodes:
            operands = [self.now.get(v, v) for v in node.operands]
            if node in products:
                self.out.nodes.append(replace(node, operands=operands))
                continue
            if node.op == "divide" and self._is_per_row(node.operands[1]):
                operands[1] = self._reciprocal(node.operands[1])
                node = Node("multiply", operands, node.results, {}, node.loc, notes=node.notes)
            results = [Value(v.type, v.name, loc=v.loc) for v in node.results]
            self.out.nodes.append(replace(node, operands=operands, results=results))
            self.now.update(zip(node.results, results, strict=True))
        return self.out.nodes

    def _is_per_row(self, value: Value) -> bool:
        """Whether a value is one per row, or per key, that is broadcast."""
        while value in self.gradient.index:
            node = self.producer.get(value)
            if node is None or not is_index_map(node):
                return False
            value = node.operands[0]
        return True

    def _reciprocal(self, value: Value) -> Value:
        """The reciprocal of a value per row, before it is broadcast."""
        node = self.producer.get(value)
        if node is None or not is_index_map(node):
            return self.reciprocals.of(value)
        return self.out.add(
            node.op, [self._reciprocal(node.operands[0])], [value.type], node.attrs, loc=node.loc
        ).result


class _Reciprocals:
    """Reciprocals of values; `nodes` has what computes that of each."""

    def __init__(self) -> None:
        self.nodes: dict[Value, list[Node]] = {}

    def of(self, value: Value) -> Value:
        if value not in self.nodes:
            out, one = Graph(""), np.array(1, DTYPES[value.type.dtype])
            scalar = TensorType((), value.type.dtype)
            number = out.add("constant", [], [scalar], {"value": one}, loc=value.loc).result
            ones = out.add("broadcast_in_dim", [number], [value.type], {"dims": ()}, loc=value.loc).result
            out.add("divide", [ones, value], [value.type], {}, loc=value.loc)
            self.nodes[value] = out.nodes
        return self.nodes[value][-1].result


def _ordered(graph: Graph, kernels: Sequence[Sequence[Node]], after: Mapping[Value, list[Node]]) -> Graph:
    """The graph with the nodes of each kernel in one piece, in place of the last of its products, and the rest in program order if that can be.

    The graph itself where a sum of a kernel needs another one of it.

    Args:
        after: nodes that come right after what makes a value.
    """
    place = {v: number for number, node in enumerate(graph.nodes) for v in node.results}
    replaced = {v for nodes in kernels for node in nodes for v in node.results if v in place}
    pieces = [(place.get(n.results[0], i) if n.results else i, [n]) for i, n in enumerate(graph.nodes)
              if not replaced.intersection(n.results)]  # fmt: skip
    pieces += [(max(place[v] for n in nodes for v in n.results if v in place), list(nodes)) for nodes in kernels]
    pieces += [(place.get(value, -1), nodes) for value, nodes in after.items()]
    maker = {v: number for number, (_, nodes) in enumerate(pieces) for node in nodes for v in node.results}
    missing, users = list[int](), [list[int]() for _ in pieces]
    for number, (_, nodes) in enumerate(pieces):
        needed = {maker[v] for node in nodes for v in used_by(node) if v in maker} - {number}
        missing.append(len(needed))
        for each in needed:
            users[each].append(number)
    ready = [(first, number) for number, (first, _) in enumerate(pieces) if not missing[number]]
    heapq.heapify(ready)
    found = Graph(graph.name, list(graph.inputs), [], list(graph.outputs))
    while ready:
        number = heapq.heappop(ready)[1]
        found.nodes += pieces[number][1]
        for user in users[number]:
            missing[user] -= 1
            if not missing[user]:
                heapq.heappush(ready, (pieces[user][0], user))
    return graph if any(missing) else found
