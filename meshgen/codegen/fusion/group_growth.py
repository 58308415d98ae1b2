"""Groups of nodes, each of which becomes one kernel, grown in program order.

Index maps, constants, masks from iota and similar nodes are free: they belong to no group, and each kernel that reads
through them recomputes them. Every other node joins a group that computes or reads one of its operands. The kernel must
be supported (`fusion/space`), and the graph of groups must stay acyclic. A dot takes the element-wise ops after it as
its epilogue if fewer bytes are written. `fusion/traffic` then trades bytes for arithmetic; `group_merging` merges kernels.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence

from meshgen.codegen.collective_predicates import is_message
from meshgen.codegen.fusion.attention_loops import attention_space, multiplied_operands, read_once
from meshgen.codegen.fusion.form import KernelForm
from meshgen.codegen.fusion.group import Group
from meshgen.codegen.fusion.loads import Loads, Needed
from meshgen.codegen.fusion.ordering import NO_ORDER, Order, producing_groups, wait
from meshgen.codegen.fusion.producer_absorption import absorbed_nodes
from meshgen.codegen.fusion.rematerialized import FreeNodes, must_exist
from meshgen.codegen.fusion.space import Space
from meshgen.cost_model.model import DEFAULT
from meshgen.ir.graph import Graph, Node, Value
from meshgen.ir.matchers import through
from meshgen.ir.predicates import is_constant
from meshgen.ir.walks import reachable
from meshgen.ops.classes import (
    ATTENTIONS,
    COMMUNICATING,
    DOTS,
    LAYOUT,
    LOOKUPS,
    MADE,
    POINTWISE,
    PRODUCTS,
    REDUCTIONS,
    REGROUPING,
    VIEWS,
)


class Grouping:
    """The groups of one graph, in creation order in `groups`. `owner` maps a value to the group that computes it."""

    def __init__(self, graph: Graph, order: Order = NO_ORDER) -> None:
        self.graph = graph
        self.views = {node for node in graph.nodes if node.op in VIEWS}
        self.producer = graph.index.producers
        self.position = {node: i for i, node in enumerate(graph.nodes)}
        self.owner: dict[Value, Group] = {}
        self.groups: list[Group] = []
        self.messages: list[Group] = []  # sends and receives, whose order must not change
        self._placed: dict[Value, list[Group]] = {}
        self.loads = Loads()
        self._loaded: dict[Group, dict[Value, Needed]] = {}  # loads per element, of each value of each group
        self._multiplied: dict[Value, list[Group]] = {}
        self.has_removed = False  # if groups were removed, `Group.needs` may include obsolete predecessors
        absorbed = absorbed_nodes(graph)
        existing = [value for value in must_exist(graph) if self.producer.get(value) not in absorbed]
        self.must = dict.fromkeys(map(self.view_root, existing))
        self.must.update((self.memory_root(node.result), None) for node in graph.nodes if node in self.views)
        self.free = FreeNodes(graph, self.must, self.views, absorbed, order)
        self.readers = self._node_readers()
        for node in graph.nodes:
            self._visit(node)

    # ---- what is in memory

    def in_memory(self, value: Value) -> bool:
        """Whether a kernel can load the value: an input, an array constant, or a result of a group."""
        node = self.producer.get(value)
        if node is None or value in self.owner or node in self.views:
            return True
        return is_constant(node) and not self.free.has(node)

    def copied(self, value: Value) -> Node | None:
        """Return the producer of `value` if every reader recomputes the value, or None otherwise."""
        node = self.producer.get(value)
        return None if value in self.owner or node in self.views else node

    def view_root(self, value: Value) -> Value:
        """Return the value that `value` reshapes, through any number of plain reshapes."""
        return through(value, self.producer.get, REGROUPING)

    def memory_root(self, value: Value) -> Value:
        """Return the value whose memory `value` shares, found through plain reshapes and views."""
        node = self.producer.get(value)
        while node is not None and (node.op in REGROUPING or node in self.views):
            value = node.operands[0]
            node = self.producer.get(value)
        return value

    def _node_readers(self) -> dict[Value, list[Node]]:
        """Return a map from each value in memory to the grouped nodes that read it, directly or through free nodes."""
        table: dict[Value, list[Node]] = {}
        for node in self.graph.nodes:
            if not self.free.has(node) and node not in self.views:
                for value in self.node_sources(node):
                    table.setdefault(value, []).append(node)
        return table

    def node_sources(self, node: Node) -> tuple[Value, ...]:
        """Return the values in memory that `node` reads, directly or through free nodes."""
        return self.free.sources_of(node)

    # ---- growing

    def _visit(self, node: Node) -> None:
        if node in self.views:  # A view belongs to the group that computes the memory behind it.
            if (root := self.memory_root(node.result)) in self.owner:
                self.owner[node.result] = self.owner[root]
            return
        if is_constant(node) or self.free.has(node) or any(v in self.owner for v in node.results):
            return
        if node.op in ATTENTIONS:
            self._visit_attention(node)
        elif node.op in PRODUCTS:
            self._visit_dot(node)
        elif node.op in POINTWISE or node.op in LAYOUT or node.op in REDUCTIONS:
            group = next((g for g in self._candidates(node) if self._joins(node, g)), None)
            if group is None:
                self._new(KernelForm.REDUCE if node.op in REDUCTIONS else KernelForm.MAP, [node])
            else:
                self._take(group, node)
        else:
            is_map = node.op in LOOKUPS or node.op in MADE
            group = self._new(KernelForm.MAP if is_map else KernelForm.OPAQUE, [node])
            if is_message(node):
                for last in self.messages[-1:]:
                    self.order(last, group)
                self.messages.append(group)

    def _visit_dot(self, dot: Node) -> None:
        """Create a group for a dot and its epilogue, or add the dot to a group of dots with the same left operand."""
        nodes = self._with_epilogue(dot, self._space_of(dot))
        siblings = [g for g in self._siblings(dot) if g.space.is_sibling(dot)] if len(nodes) == 1 else []
        if siblings and siblings[0].space.add(dot):
            self._take(siblings[0], dot)
        else:
            self._new(KernelForm.GEMM, nodes)

    def _visit_attention(self, node: Node) -> None:
        """Create a group for an attention op and the epilogues of its results."""
        space, probe = (attention_space(node, self.copied) for _ in range(2))
        epilogue = dict.fromkeys(n for value in node.results for n in self._with_epilogue(node, probe, value)[1:])
        added = [space.add(member) for member in sorted(epilogue, key=self.position.__getitem__)]
        assert all(added), "the probe accepted the same epilogue"
        once = frozenset(source for value in read_once(node) for source in self.free.sources(value))
        group = Group(len(self.groups), KernelForm.ATTENTION, space, once=once)
        self.groups.append(group)
        for member in (node, *sorted(epilogue, key=self.position.__getitem__)):
            self._take(group, member)

    def _siblings(self, dot: Node) -> list[Group]:
        """Return the groups of dots that share the left operand of `dot` and can wait until the right operand of `dot`
        is computed.
        """
        if dot.op not in DOTS:
            return []
        left, right = dot.operands
        if self.free.sources(right) != (right,) or right in self.free.sources(left) or not self._at_hand(right, dot):
            return []
        right_group = self.owner.get(right)
        if right_group is not None and right_group.form in (KernelForm.OPAQUE, KernelForm.GEMM):
            return []
        groups = dict.fromkeys(g for v in self.free.sources(left) for g in self._multiplied.get(v, ()))
        open_groups = [g for g in groups if len(g.members) == len(g.space.dots) < DEFAULT.fusion.siblings]
        plain = [g for g in open_groups if all(self.free.sources(n.operands[1]) == (n.operands[1],) for n in g.members)]
        plain = [g for g in plain if not any(n.operands[1] in self.free.sources(left) for n in g.members)]
        needed = [*producing_groups(self.free.waits_of(dot), self), *([] if right_group is None else [right_group])]
        return [g for g in plain if not any(self.depends(group, g) for group in needed)]

    def _candidates(self, node: Node) -> list[Group]:
        """Return row-wise groups with room for `node` that compute or read an operand: reductions, then the latest
        groups.
        """
        groups: dict[Group, None] = {}
        for value in self.node_sources(node):
            if value in self.owner:
                groups[self.owner[value]] = None
            groups.update(dict.fromkeys(self._placed.get(value, ())))
        fitting = [g for g in groups if g.form.is_row_wise and self._has_room(g, node)]
        return sorted(fitting, key=lambda g: (g.form is not KernelForm.REDUCE, -g.number))

    def _has_room(self, group: Group, node: Node) -> bool:
        limits = DEFAULT.fusion
        row = group.length + self.free.row_before(node)
        return len(group.members) < limits.members and row < limits.nodes_in_a_row

    def _joins(self, node: Node, group: Group) -> bool:
        """Add `node` to the group's iteration space if legal and profitable. Return whether the node was added."""
        sources = self.node_sources(node)
        inputs = [self.owner[v] for v in sources if v in self.owner]
        waits = producing_groups(self.free.waits_of(node), self)
        is_early = group in waits and group not in inputs
        if is_early or any(g is not group and self.depends(g, group) for g in (*inputs, *waits)):
            return False
        outside = {*group.reads, *(v for v in sources if self.owner.get(v) is not group)}
        if len(outside) > DEFAULT.fusion.inputs or (node.op in REDUCTIONS and not self.is_parallel_enough(node, group)):
            return False
        loaded = self._loaded.setdefault(group, {})
        if not self.loads.fit(self.loads.by(node, lambda value: self.producer_in(group, value), loaded)):
            return False
        return group.space.add(node)

    def producer_in(self, group: Group, value: Value) -> Node | None:
        """Return the node by which the kernel `group` computes `value`, or None if the kernel loads the value."""
        node = self.producer.get(value)
        is_local = self.owner.get(value) is group or node in group.extra
        return node if is_local or not self.in_memory(value) else None

    def is_parallel_enough(self, node: Node, group: Group) -> bool:
        """Whether the reduction `node` has enough rows to occupy the device in a kernel with the other nodes of
        `group`.
        """
        if group.form is KernelForm.REDUCE or group.space.size <= DEFAULT.fusion.large_elements:
            return True
        rows = node.result.type.size
        last = node.operands[0].type.rank - 1
        programs = rows if last in node.attrs.dims else rows // DEFAULT.fusion.split_columns
        return programs >= DEFAULT.fusion.least_programs

    def _new(self, form: KernelForm, nodes: Sequence[Node]) -> Group:
        space = Space(self.copied) if form is KernelForm.OPAQUE else self._space_of(nodes[0])
        group = Group(len(self.groups), form, space)
        self.groups.append(group)
        if form is not KernelForm.OPAQUE:
            for node in nodes[1:]:
                is_added = space.add(node)
                assert is_added, "`_with_epilogue` accepted the same nodes"
        for node in nodes:
            self._take(group, node)
        return group

    def _take(self, group: Group, node: Node) -> None:
        """Make `node` a member of `group`, and update reads, owners of values and edges between groups."""
        group.members.append(node)
        group.length += 1 + self.free.row_before(node)
        if node.op in REDUCTIONS and group.form is not KernelForm.ATTENTION:
            group.form = KernelForm.REDUCE
        self.owner.update(dict.fromkeys(node.results, group))
        for value in self.node_sources(node):
            source_group = self.owner.get(value)
            if source_group is group:
                continue
            group.reads[value] = None
            if node.op in DOTS:
                self._multiplied.setdefault(value, []).append(group)
            if value in group.space.index and group.form.is_row_wise:
                self._placed.setdefault(value, []).append(group)
            if source_group is not None:
                self.order(source_group, group)
        wait(group, self.free.waits_of(node), self)

    def order(self, first: Group, then: Group) -> None:
        """Make group `then` depend on group `first`. Update level and predecessors of `then` and its successors."""
        first.after[then] = None
        then.before[first] = None
        stack = [(first, then)]
        while stack:
            earlier, later = stack.pop()
            level, needs = max(later.level, earlier.level + 1), later.needs | earlier.needs | 1 << earlier.number
            if level != later.level or needs != later.needs:
                later.level, later.needs = level, needs
                stack += [(later, g) for g in later.after]

    def depends(self, group: Group, on: Group) -> bool:
        """Whether `group` depends on the group `on`, directly or transitively."""
        if group is on or not group.needs >> on.number & 1:
            return group is on
        if not self.has_removed:
            return True

        def earlier(current: Group) -> Iterable[Group]:
            return (g for g in (*current.before, *producing_groups(current.waits, self)) if g.level >= on.level)

        return on in reachable([group], earlier)

    # ---- epilogues

    def _space_of(self, node: Node) -> Space:
        space = Space(self.copied)
        space.start(node)
        return space

    def _with_epilogue(self, dot: Node, space: Space, result: Value | None = None) -> list[Node]:
        """Return the dot, followed by the element-wise ops that its kernel applies to the accumulator of `result`.

        The epilogue ends where the kernel writes the fewest bytes. Of equally good epilogues, the longest is chosen.
        """
        result, region = result or dot.result, {dot: None}
        best, least = 1, result.type.nbytes
        values, tried, length = {result}, {dot}, 1 + self.free.row_before(dot)
        waiting = [(self.position[n], n) for n in self.readers.get(result, ())]
        heapq.heapify(waiting)
        while waiting and len(region) < DEFAULT.fusion.epilogue_nodes:
            node = heapq.heappop(waiting)[1]
            if node in tried:
                continue
            tried.add(node)
            if (
                length + self.free.row_before(node) >= DEFAULT.fusion.nodes_in_a_row
                or not self._extends(node, dot, values.union(dot.results))
                or not space.add(node)
            ):
                continue
            region[node] = None
            length += 1 + self.free.row_before(node)
            values.add(node.result)
            for reader in self.readers.get(node.result, ()):
                heapq.heappush(waiting, (self.position[reader], reader))
            written = sum(v.type.nbytes for v in values if self._read_outside(v, region))
            if written <= least:
                best, least = len(region), written
        return list(region)[:best]

    def _extends(self, node: Node, dot: Node, values: set[Value]) -> bool:
        """Whether `node` can be in the dot's epilogue: each operand is an epilogue value (`values`) or available."""
        if node.op not in POINTWISE and node.op not in LAYOUT:
            return False
        return all(v in values or self._at_hand(v, dot) for v in (*self.node_sources(node), *self.free.waits_of(node)))

    def _read_outside(self, value: Value, region: dict[Node, None]) -> bool:
        return value in self.must or any(n not in region for n in self.readers.get(value, ()))

    def _at_hand(self, value: Value, dot: Node) -> bool:
        """Whether an epilogue may read `value`: it is available before the dot, and no overlapping collective computes
        it.
        """
        node = self.producer.get(self.memory_root(value) if self.producer.get(value) in self.views else value)
        if node is None or is_constant(node):
            return True
        if node.op in COMMUNICATING:
            early = all(self.producer.get(self.view_root(v)) is None for v in node.operands)
            return early or self._feeds(node, dot)
        return self.position[node] < self.position[dot]

    def _feeds(self, node: Node, dot: Node) -> bool:
        """Whether the dot depends on the results of `node` even without its epilogue."""
        if self.position[node] > self.position[dot]:
            return False
        sources = [self.owner[v] for v in self.node_sources(dot) if v in self.owner]
        return any(self.depends(source_group, self.owner[node.results[0]]) for source_group in sources)

    def multiplies(self, reader: Group, computed: Sequence[Value]) -> bool:
        """Whether a dot of group `reader` multiplies a value in `computed`, so that each tile would recompute the value."""
        operands = [v for n in reader.members if n.op in PRODUCTS for v in multiplied_operands(n)]
        sources = (source for value in operands for source in self.free.sources(value))
        return any(v in computed and v not in reader.once for v in sources)
