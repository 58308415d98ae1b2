"""Nodes that belong to no kernel: every reader recomputes index maps, constants and values derived from them."""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Set as AbstractSet

from meshgen.codegen.fusion.loads import Loads, Needed
from meshgen.codegen.fusion.ordering import NO_ORDER, Order
from meshgen.ir.graph import Graph, Node, Value
from meshgen.ir.predicates import is_constant, is_control
from meshgen.ir.regions import captured, used_by
from meshgen.ops.classes import (
    COMMUNICATING,
    EXPENSIVE,
    GENERATED,
    LAYOUT,
    LOOKUPS,
    LOOPS,
    MADE,
    POINTWISE,
    PRODUCTS,
    REGROUPING,
    VIEWS,
)

# Nodes in a row, each of which needs the one before, that every reader computes again.
_FREE_IN_A_ROW = 256

_NOTHING = Needed()
_PER_ELEMENT = GENERATED - LOOPS - PRODUCTS - LOOKUPS


class FreeNodes:
    """The free nodes of a graph, and the values in memory that are read through them.

    `must` are values that have to be in memory: what makes them is not free, nor is what ends a very long row or needs what is made
    from nothing at very many indices. `views` are slices that share memory with their operand, `absorbed` what the only reader
    computes itself, `order` what optimization barriers make nodes wait for.
    """

    def __init__(self, graph: Graph, must: Iterable[Value], views: AbstractSet[Node],
                 absorbed: AbstractSet[Node] = frozenset(), order: Order = NO_ORDER) -> None:  # fmt: skip
        self._written, self._views, self.absorbed = set(must), views, absorbed
        self._sources: dict[Value, tuple[Value, ...]] = {}
        self._sources_of: dict[Node, tuple[Value, ...]] = {}
        self._row: dict[Value, int] = {}
        self._row_before: dict[Node, int] = {}
        self._free: set[Node] = set()
        self._order = order
        self._behind: dict[Value, tuple[Value, ...]] = {}  # of free nodes, what they wait for
        self._loads = Loads()
        self._made: dict[Value, Needed] = {}  # what is made from nothing for one element, at the indices it is made for
        for node in graph.nodes:
            self._see_through(node)

    def has(self, node: Node) -> bool:
        """Whether every reader recomputes the node."""
        return node in self._free

    def _is_free(self, node: Node) -> bool:
        if node in self._views:
            return False
        if node in self.absorbed:
            return True
        if is_constant(node):
            return node.attrs.value.ndim == 0
        if node.results and node.results[0] in self._written:
            return False
        is_cheap = node.op in POINTWISE and (node.op not in EXPENSIVE or node.result.type.size == 1)
        return node.op in MADE or node.op in LAYOUT or (is_cheap and not self._from_memory(node))

    def _from_memory(self, node: Node) -> bool:
        return any(self.sources(v) for v in node.operands)

    def sources(self, value: Value) -> tuple[Value, ...]:
        """Values in memory that a kernel reads to have this one, unless a group of its own makes them."""
        return self._sources.get(value, (value,))

    def sources_of(self, node: Node) -> tuple[Value, ...]:
        """The same for all that a node reads."""
        if (found := self._sources_of.get(node)) is None:
            operands = (*node.operands, *captured(node)) if node.regions else node.operands
            found = tuple(dict.fromkeys([s for v in operands for s in self.sources(v)]))
            self._sources_of[node] = found
        return found

    def waits_of(self, node: Node) -> tuple[Value, ...]:
        """The values in memory that must be there before a node, or a free node that it reads through, is computed."""
        if not self._order:
            return ()
        asked = self._order.get(node, ())
        through = [v for value in (*used_by(node), *asked) for v in self._behind.get(value, ())]
        return tuple(dict.fromkeys([*(s for value in asked for s in self.sources(value)), *through]))

    def row_before(self, node: Node) -> int:
        """The length of the longest chain of free nodes before a node."""
        return self._row_before[node]

    def _see_through(self, node: Node) -> None:
        row = self._row_before[node] = max([self._row.get(v, 0) for v in node.operands], default=0)
        row += 1
        if row > _FREE_IN_A_ROW and node.op not in REGROUPING:  # a reshape of what is in memory is a view
            self._written.update(node.results)
        if not self._is_free(node):
            return
        made = self._loads.joined(node, [self._made.get(value, _NOTHING) for value in node.operands])
        if self._loads.fit(made) or node in self.absorbed or node.op in REGROUPING:
            self._free.add(node)
            self._made.update(dict.fromkeys(node.results, made))
            sources = tuple(dict.fromkeys([s for v in node.operands for s in self.sources(v)]))
            self._sources.update(dict.fromkeys(node.results, sources))
            self._row.update(dict.fromkeys(node.results, row))
            if waits := self.waits_of(node):
                self._behind.update(dict.fromkeys(node.results, waits))


def must_exist(graph: Graph) -> dict[Value, None]:
    """Values that have to be in memory, whichever group computes them, in program order.

    Of a payload op that is a kernel of its own, what is made from nothing (the numbers that an argmax takes along) is part of its kernel.
    """
    found: dict[Value, None] = {}
    from_nothing: set[Value] = set()
    for node in graph.nodes:
        if node.notes.in_memory:
            found.update(dict.fromkeys(node.results))
        if node.op in _PER_ELEMENT and from_nothing.issuperset(node.operands):
            from_nothing.update(node.results if not is_constant(node) or not node.result.type.rank else ())
        if node.op in GENERATED or node.op in VIEWS:
            continue
        own = from_nothing if node.op not in COMMUNICATING and not is_control(node) else set[Value]()
        found.update(dict.fromkeys(v for v in (*node.operands, *captured(node)) if v not in own))
    found.update(dict.fromkeys(graph.outputs))
    return found
