"""Fusion of ops into kernels: `fuse` turns a `partition`-stage module into a `fuse`-stage one.

Every op that computes ends up in a kernel, or in a `view` if it is a reshape of a value in memory. Collectives and
control flow stay, and regions of control flow are fused like functions. Kernels that are equal up to names share one
body.
"""

from __future__ import annotations

import functools
import heapq
import itertools
import operator
from collections.abc import Mapping, Sequence
from dataclasses import replace

from meshgen.codegen.attention.form_attention import form_attention
from meshgen.codegen.fusion.bodies import Cutter, Kernels
from meshgen.codegen.fusion.form import KernelForm
from meshgen.codegen.fusion.group import Group
from meshgen.codegen.fusion.group_growth import Grouping
from meshgen.codegen.fusion.grouping import grouped
from meshgen.codegen.fusion.ordering import producing_groups
from meshgen.codegen.kernel_nodes import kernel_node
from meshgen.codegen.passes.all_reduce_promote import all_reduce_promote
from meshgen.codegen.passes.canonicalize import canonicalize
from meshgen.codegen.passes.collective_outermost_dim import collective_outermost_dim
from meshgen.codegen.passes.concatenate_in_place import concatenate_in_place
from meshgen.codegen.passes.concatenate_to_group_call import concatenate_to_group_call
from meshgen.codegen.passes.convolution_to_phases import convolution_to_phases
from meshgen.codegen.passes.copy_operands import copy_operands
from meshgen.codegen.passes.expand_complex import expand_complex
from meshgen.codegen.passes.expand_composites import expand_composites
from meshgen.codegen.passes.expand_linalg import expand_linalg
from meshgen.codegen.passes.fetch_drop_local_rows import fetch_drop_local_rows
from meshgen.codegen.passes.loop_recompute import loop_recompute
from meshgen.codegen.passes.loop_to_recurrence import loop_to_recurrence
from meshgen.codegen.passes.loop_to_scan import loop_to_scan
from meshgen.codegen.passes.reduce_window_to_slices import reduce_window_to_slices
from meshgen.codegen.passes.row_sums_to_runs import row_sums_to_runs
from meshgen.codegen.passes.scatter_to_rows import scatter_to_rows
from meshgen.codegen.passes.scatter_to_select import scatter_to_select
from meshgen.codegen.passes.slice_to_subview import slice_to_subview
from meshgen.codegen.passes.softmax_into_dot import softmax_into_dot
from meshgen.codegen.passes.split_reduction import split_reduction
from meshgen.codegen.passes.transpose_before_reduce import transpose_before_reduce
from meshgen.codegen.passes.transpose_into_dot import transpose_into_dot
from meshgen.compilation import Compilation
from meshgen.ir.graph import Graph, Module, Node, Value
from meshgen.ir.loops import trip_count
from meshgen.ir.notes import Notes
from meshgen.ir.predicates import is_constant, is_control, is_loop
from meshgen.ir.regions import captured, rewired
from meshgen.ops.classes import COMMUNICATING

SIMPLIFICATIONS = (  # Passes that simplify programs, including programs with symbolic sizes.
    all_reduce_promote,
    expand_composites,
    canonicalize,
)
BEFORE_KERNELS = (  # Passes that change collectives, or loops around collectives.
    *SIMPLIFICATIONS,
    expand_linalg,
    expand_complex,
    loop_to_recurrence,
    loop_to_scan,
    reduce_window_to_slices,
    fetch_drop_local_rows,
    collective_outermost_dim,
)
PASSES = (
    *BEFORE_KERNELS,
    scatter_to_select,
    scatter_to_rows,
    transpose_into_dot,
    transpose_before_reduce,
    form_attention,
    softmax_into_dot,
    loop_recompute,
    convolution_to_phases,
    row_sums_to_runs,
    split_reduction,
    slice_to_subview,
    copy_operands,
    concatenate_in_place,
    concatenate_to_group_call,
)


def fuse(module: Module, context: Compilation | None = None) -> Module:
    """Run the passes that prepare a module for kernels, then fuse it. The result's `Module.kernels` holds the kernel
    bodies.

    Args:
        module: a module at stage partition, after the pass `loop-unroll`.
    """
    context = context or Compilation()
    module = context.apply(module, PASSES)
    kernels = Kernels()
    graph = _fused_graph(context.latest(grouped, module.graph), kernels)
    return replace(module, graph=graph, stage="fuse", kernels=kernels.bodies)


def _fused_graph(grouping: Grouping, kernels: Kernels, outer_producers: Mapping[Value, Node] | None = None) -> Graph:
    """Write one function, or one region of a control flow op, with launches of kernels.

    Values that are used outside of kernels remain the same `Value` objects. `outer_producers` maps captured values to their
    producers.
    """
    return _FusedGraphWriter(grouping, kernels, {**(outer_producers or {}), **grouping.producer}).write()


class _FusedGraphWriter:
    """Writes the fused graph: one node per group, in program order unless dependences require another one."""

    def __init__(
        self,
        grouping: Grouping,
        kernels: Kernels,
        producers: Mapping[Value, Node],
    ) -> None:
        graph = self._graph = grouping.graph
        self._grouping, self._kernels, self._producers = grouping, kernels, producers
        self._out = Graph(graph.name, list(graph.inputs))
        self._users: dict[Value, list[Group]] = {}
        for group in grouping.groups:
            for value in group.reads:
                self._users.setdefault(value, []).append(group)
        self._available: set[Value] = set(graph.inputs)
        self._made: dict[Group, Value] = {}  # one value that each emitted group stores in memory
        # for each tuple of barrier operands, the first result of the barrier
        self._barriers: dict[tuple[Value, ...], Value] = {}

    def write(self) -> Graph:
        self._constants()
        for group in _ordered_groups(self._grouping):
            self._group(group)
        for value in self._graph.outputs:
            self._view(value)
        self._out.outputs = list(self._graph.outputs)
        return self._out

    def _stays(self, node: Node) -> bool:
        """Whether a node is an array constant, which is data of the module and not part of a kernel."""
        return is_constant(node) and node.attrs.value.ndim > 0

    def _constants(self) -> None:
        for node in self._graph.nodes:
            if self._stays(node) or (is_constant(node) and node.result in self._grouping.must):
                self._out.nodes.append(node)
                self._available.add(node.result)

    def _view(self, value: Value) -> None:
        """Emit the views that make `value` available: a reshape or a part of a value in memory."""
        node, root = self._grouping.producer.get(value), self._grouping.view_root(value)
        if value in self._available or (root is value and node not in self._grouping.views):
            return
        if root is not value:
            self._view(root)
            self._out.nodes.append(Node("view", [root], [value], {}, value.loc))
        elif node is not None:
            self._view(node.operands[0])
            self._out.nodes.append(node)
        self._available.add(value)

    def _group(self, group: Group) -> None:
        (first, *_) = group.members
        if first.op in COMMUNICATING or is_control(first):
            for value in (*first.operands, *captured(first)):
                self._view(value)
            node = rewired(first, self._ordered(group, [*first.operands, *captured(first)]))
            regions = tuple(self._fused_region(region) for region in node.regions)
            self._out.nodes.append(replace(node, regions=regions, notes=self._loop_notes(first)))
            self._define(group, first.results)
            return
        if first.op == "join":
            for value in first.operands:
                self._view(value)
            self._out.nodes.append(first)
            self._define(group, first.results)
            return
        members = sorted(group.members, key=self._grouping.position.__getitem__)
        outputs = [v for node in members for v in node.results if self._leaves(v, group)]
        if group.form is KernelForm.OPAQUE:
            for value in (*first.operands, *captured(first)):
                is_absorbed = self._producers.get(value) in self._grouping.free.absorbed
                if not is_absorbed and self._grouping.in_memory(self._grouping.view_root(value)):
                    self._view(value)
        body, reads = Cutter(self._grouping.producer, lambda node: self._is_recomputed(node, group)).cut(
            members, outputs
        )
        for value in reads:
            self._view(value)
        replaced = self._ordered(group, reads)
        operands = [replaced.get(value, value) for value in reads]
        self._out.nodes.append(kernel_node(self._kernels, body, operands, outputs, members[-1].loc))
        self._define(group, outputs)

    def _define(self, group: Group, results: Sequence[Value]) -> None:
        self._available.update(results)
        self._made.update((group, value) for value in results[:1])

    def _ordered(self, group: Group, reads: Sequence[Value]) -> dict[Value, Value]:
        """Return replacements for the launch's operands that make the launch wait for the groups in `group.waits`.

        The result of an optimization barrier replaces the first operand. Returns no replacements if data dependences
        already imply the order.
        """
        waits = producing_groups(group.waits, self._grouping)
        waits.pop(group, None)
        owner, root = self._grouping.owner, self._grouping.memory_root
        producers = {owner[root(value)]: None for value in reads if root(value) in owner}
        needs = functools.reduce(operator.or_, (other.needs for other in (*waits, *producers)), 0)
        unordered = [
            self._made[g] for g in waits if g in self._made and g not in producers and not needs >> g.number & 1
        ]
        if not unordered or not reads:
            return {}
        key = (reads[0], *unordered)
        if key not in self._barriers:
            results = [Value(value.type, value.name, loc=value.loc) for value in key]
            self._out.nodes.append(Node("optimization_barrier", list(key), results, {}, reads[0].loc))
            self._barriers[key] = results[0]
        return {reads[0]: self._barriers[key]}

    def _loop_notes(self, node: Node) -> Notes:
        """Return the notes of a node. If the node is a loop with a known trip count, add the trip count.

        Later stages cannot compute the trip count, because the loop counter is inside kernels.
        """
        trips = trip_count(node, self._producers) if is_loop(node) else None
        return node.notes if trips is None else replace(node.notes, trips=max(1, trips))

    def _fused_region(self, region: Graph) -> Graph:
        """Fuse a region. Constants move out of the region, because they are data of the module."""
        fused = _fused_graph(grouped(region), self._kernels, self._producers)
        self._out.nodes += [node for node in fused.nodes if is_constant(node)]
        return Graph(fused.name, fused.inputs, [n for n in fused.nodes if not is_constant(n)], fused.outputs)

    def _is_recomputed(self, node: Node, group: Group) -> bool:
        """Whether the kernel of `group` recomputes `node`, because no group computes the node or `group` duplicates it."""
        if node in group.extra:
            return True
        return (
            node.results[0] not in self._grouping.owner and not self._stays(node) and node not in self._grouping.views
        )

    def _leaves(self, value: Value, group: Group) -> bool:
        return value in self._grouping.must or any(g is not group for g in self._users.get(value, ()))


def _ordered_groups(grouping: Grouping) -> list[Group]:
    """Return the groups in dependence order.

    Among the groups that are ready, the one that ends first in the program comes first.
    """
    end = {g: max(grouping.position[n] for n in g.members) for g in grouping.groups}
    memory_reads = {
        g: map(grouping.memory_root, g.reads) for g in grouping.groups
    }  # A view reads the memory of its operand, so it waits for the operand's group.
    producers = {
        g: dict.fromkeys(grouping.owner[v] for v in memory_reads[g] if v in grouping.owner) for g in grouping.groups
    }
    for group in grouping.groups:
        producers[group].update((g, None) for g in producing_groups(group.waits, grouping) if g is not group)
    for earlier, later in itertools.pairwise(grouping.messages):
        producers[later][earlier] = None
    pending = {g: len(producers[g]) for g in grouping.groups}
    users: dict[Group, list[Group]] = {g: [] for g in grouping.groups}
    for group, needed_groups in producers.items():
        for producer in needed_groups:
            users[producer].append(group)
    ready = [(end[g], g.number, g) for g in grouping.groups if not pending[g]]
    heapq.heapify(ready)
    order: list[Group] = []
    while ready:
        group = heapq.heappop(ready)[2]
        order.append(group)
        for user in users[group]:
            pending[user] -= 1
            if not pending[user]:
                heapq.heappush(ready, (end[user], user.number, user))
    assert len(order) == len(grouping.groups), "the groups depend on each other in a circle"
    return order
