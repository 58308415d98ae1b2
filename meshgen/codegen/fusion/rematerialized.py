"""Free nodes, which belong to no kernel: every reader recomputes index maps, constants, and values derived from them."""

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

# Length of the longest chain of free nodes that readers recompute. Chosen: bounds the size of the generated code.
_FREE_IN_A_ROW = 256

_NOTHING = Needed()
_PER_ELEMENT = GENERATED - LOOPS - PRODUCTS - LOOKUPS


class FreeNodes:
    """The free nodes of a graph, which every reader recomputes, and the values in memory behind them.

    A node is not free if it ends a chain longer than `_FREE_IN_A_ROW`, or needs generated values at too many indices.

    Args:
        must: values that have to be in memory, so that their producers are not free.
        views: slices that share memory with their operand.
        absorbed: nodes that their only user computes itself.
        order: for each node, the values that it waits for because of optimization barriers.
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
        # For the result of each free node, the values that kernels reading it must wait for.
        self._behind: dict[Value, tuple[Value, ...]] = {}
        self._loads = Loads()
        # For the result of each free node, the generated values (iota) that one element needs (`Loads`).
        self._made: dict[Value, Needed] = {}
        for node in graph.nodes:
            self._see_through(node)

    def has(self, node: Node) -> bool:
        """Whether `node` is free: every reader recomputes it."""
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
        """Return the values in memory that a kernel reads to recompute `value`. If the value is not free, return only
        `value`.
        """
        return self._sources.get(value, (value,))

    def sources_of(self, node: Node) -> tuple[Value, ...]:
        """Return the values in memory that a kernel reads to compute a node."""
        if (sources := self._sources_of.get(node)) is None:
            operands = (*node.operands, *captured(node)) if node.regions else node.operands
            sources = tuple(dict.fromkeys([s for v in operands for s in self.sources(v)]))
            self._sources_of[node] = sources
        return sources

    def waits_of(self, node: Node) -> tuple[Value, ...]:
        """Return the values in memory that must be computed before `node`, or before a free node that it reads through."""
        if not self._order:
            return ()
        ordered_after = self._order.get(node, ())
        inherited = [v for value in (*used_by(node), *ordered_after) for v in self._behind.get(value, ())]
        return tuple(dict.fromkeys([*(s for value in ordered_after for s in self.sources(value)), *inherited]))

    def row_before(self, node: Node) -> int:
        """Return the length of the longest chain of free nodes that ends at an operand of `node`."""
        return self._row_before[node]

    def _see_through(self, node: Node) -> None:
        row = self._row_before[node] = max([self._row.get(v, 0) for v in node.operands], default=0)
        row += 1
        # Reshapes do not end a chain, because a reshape of a value in memory is a view.
        if row > _FREE_IN_A_ROW and node.op not in REGROUPING:
            self._written.update(node.results)
        if not self._is_free(node):
            return
        generated = self._loads.joined(node, [self._made.get(value, _NOTHING) for value in node.operands])
        if self._loads.fit(generated) or node in self.absorbed or node.op in REGROUPING:
            self._free.add(node)
            self._made.update(dict.fromkeys(node.results, generated))
            sources = tuple(dict.fromkeys([s for v in node.operands for s in self.sources(v)]))
            self._sources.update(dict.fromkeys(node.results, sources))
            self._row.update(dict.fromkeys(node.results, row))
            if waits := self.waits_of(node):
                self._behind.update(dict.fromkeys(node.results, waits))


def must_exist(graph: Graph) -> dict[Value, None]:
    """Return the values that must be in memory, in program order, whichever group computes them.

    Generated operands of a standalone kernel (such as the positions that an argmax carries along) need not be in
    memory: the kernel generates them.
    """
    required: dict[Value, None] = {}
    generated: set[Value] = set()
    for node in graph.nodes:
        if node.notes.in_memory:
            required.update(dict.fromkeys(node.results))
        if node.op in _PER_ELEMENT and generated.issuperset(node.operands):
            generated.update(node.results if not is_constant(node) or not node.result.type.rank else ())
        if node.op in GENERATED or node.op in VIEWS:
            continue
        not_required = generated if node.op not in COMMUNICATING and not is_control(node) else set[Value]()
        required.update(dict.fromkeys(v for v in (*node.operands, *captured(node)) if v not in not_required))
    required.update(dict.fromkeys(graph.outputs))
    return required
