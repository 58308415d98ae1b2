"""What walks look up in a graph, made once for a graph: a pass that changes nothing hands the same graph to the next one."""

from __future__ import annotations

from collections import Counter
from functools import cached_property
from weakref import WeakKeyDictionary

from meshgen.ir.graph import Graph, Module, Value
from meshgen.ir.predicates import is_constant
from meshgen.ir.regions import used_values
from meshgen.ops.uniform import Varying


class Tables:
    """Of one graph; who changes a table takes a copy.

    Attributes:
        producers: the node that makes each value; places: its place; constants: of those that are constants.
        ops: of the graph and its regions.
    """

    def __init__(self, graph: Graph) -> None:
        self._nodes, self._outputs = graph.nodes, graph.outputs
        self.count = len(graph.nodes)
        self.producers = graph.producers()
        self.places = {value: place for place, node in enumerate(graph.nodes) for value in node.results}
        self.constants = {node.result: node for node in graph.nodes if is_constant(node)}
        self.ops: frozenset[str] = frozenset({node.op for node in graph.nodes}).union(
            *(tables_of(region).ops for node in graph.nodes for region in node.regions)
        )

    @cached_property
    def uses(self) -> Counter[Value]:
        """How often each value is used, in regions too."""
        return Counter(used_values(Graph("", [], self._nodes, self._outputs)))


_TABLES: WeakKeyDictionary[Graph, Tables] = WeakKeyDictionary()
_VARYING: WeakKeyDictionary[Module, Varying] = WeakKeyDictionary()


def tables_of(graph: Graph) -> Tables:
    """The tables of a graph, kept as long as it is."""
    found = _TABLES.get(graph)
    if found is None or found.count != len(graph.nodes):
        found = _TABLES[graph] = Tables(graph)
    return found


def varying_of(module: Module) -> Varying:
    """Along which axes the values of a module vary, for a walk that adds nodes."""
    if (found := _VARYING.get(module)) is None:
        found = _VARYING[module] = Varying(module)
    return found.copy()
