"""Refinement of groups: readers recompute a value if writing and reading it would cost more. No kernel is added."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from meshgen.codegen.fusion.form import KernelForm
from meshgen.codegen.fusion.group import Group
from meshgen.codegen.fusion.group_growth import Grouping
from meshgen.codegen.fusion.loads import Maker, Needed
from meshgen.codegen.fusion.ordering import wait
from meshgen.cost_model.model import DEFAULT
from meshgen.ir.graph import Node, Value
from meshgen.ops.classes import EXPENSIVE, LOOKUPS, POINTWISE

# FLOP per byte of memory traffic that a memory-bound kernel computes at no additional time: a seventh of a device's
# peak.
_NODES_PER_BYTE = 2

# Most nodes of a value that several readers may each recompute. Chosen: the memory traffic of readers hides so few.
_LIGHT_NODES = 8

# If a reader has more than this many times the elements of a value, recomputing the value multiplies the arithmetic.
_GROWTH = 8

# Most nodes of a value that a reader with many more elements may recompute. Chosen: half of `_LIGHT_NODES`.
_GROWING_NODES = 4


class Recipe(NamedTuple):
    """The nodes that recompute a value, in program order, and the values in memory that these nodes read."""

    nodes: tuple[Node, ...]
    sources: tuple[Value, ...]


class Traffic:
    """Reads and writes of groups, with operations that change them.

    Attributes:
        users: maps each value in memory to the groups that read it.
    """

    def __init__(self, grouping: Grouping) -> None:
        self.of = grouping
        self.users: dict[Value, dict[Group, None]] = {}
        self._loaded: dict[Group, Counter[Value]] = {}
        for group in grouping.groups:
            self.read(group, group.reads)

    def read(self, group: Group, values: Sequence[Value] | dict[Value, None]) -> None:
        """Record that `group` reads `values`, and order it after the groups that compute them."""
        self._loaded.pop(group, None)
        for value in values:
            group.reads[value] = None
            self.users.setdefault(value, {})[group] = None
            source_group = self.of.owner.get(value)
            if source_group is not None and source_group is not group:
                self.of.order(source_group, group)

    def stop_reading(self, group: Group, value: Value) -> None:
        """Record that `group` no longer reads `value`."""
        self._loaded.pop(group, None)
        group.reads.pop(value, None)
        self.users.get(value, {}).pop(group, None)

    def is_written(self, value: Value) -> bool:
        """Whether the value is written to memory."""
        return value in self.of.must or bool(self.users.get(value))

    def remove(self, group: Group) -> None:
        """Empty a group and remove it from the graph of groups."""
        self.of.has_removed = True
        for value in list(group.reads):
            self.stop_reading(group, value)
        for earlier in group.before:
            earlier.after.pop(group, None)
        for later in group.after:
            later.before.pop(group, None)
        group.members.clear()

    # ---- whole groups

    def dissolve(self) -> None:
        """Recompute element-wise groups inside their readers, if that moves fewer bytes."""
        for group in sorted(self.of.groups, key=lambda g: (-g.level, -g.number)):
            results = [v for node in group.members for v in node.results]
            readers = list(dict.fromkeys(g for v in results for g in self.users.get(v, ())))
            if not self._dissolves(group, results, readers):
                continue
            for value in results:
                del self.of.owner[value]
            for reader in readers:
                for value in results:
                    self.stop_reading(reader, value)
                self.read(reader, group.reads)
                wait(reader, group.waits, self.of)
            self.remove(group)

    def is_crowded(self, group: Group, again: Sequence[Node], loaded: Counter[Value]) -> bool:
        """Whether a kernel would need too many loads for one of its values if it recomputed the nodes in `again`.

        Args:
            loaded: the loads of the recomputed nodes: each value in memory, with the number of indices at which it is
                read.
        """
        if self._is_roomy(group, again, loaded):
            return False
        nodes, cache = {*group.members, *group.extra, *again}, dict[Value, Needed]()

        def maker(value: Value) -> Node | None:
            node = self.of.producer.get(value)
            return node if node in nodes else self.of.producer_in(group, value)

        return not all(self.of.loads.fit(self.of.loads.by(node, maker, cache)) for node in nodes)

    def _is_roomy(self, group: Group, again: Sequence[Node], loaded: Counter[Value]) -> bool:
        """Whether an upper bound proves that the kernel `group` has room for all loads if it also computes the nodes in
        `again`.

        The bound repeats the loads of these nodes at each index at which the kernel now loads one of their results. It
        is invalid if the kernel itself computes a value that these nodes load. In this case, returns False.
        """
        current_loads = self.loaded(group)
        of_nodes = loaded.total()
        read_at = sum([current_loads[value] for node in again for value in node.results])
        if max(of_nodes, current_loads.total() + of_nodes * read_at) > DEFAULT.fusion.loads:
            return False
        owner, producer = self.of.owner, self.of.producer
        return not any(owner.get(value) is group or producer.get(value) in group.extra for value in loaded)

    def loaded(self, group: Group) -> Counter[Value]:
        """Return the loads of a kernel: each value that it reads, with the number of indices at which it reads the
        value.

        The result is cached until the reads of the group change.
        """
        if (loads := self._loaded.get(group)) is None:
            nodes = [*group.members, *group.extra]
            loads = self._loaded[group] = self._loaded_by(nodes, lambda value: self.of.producer_in(group, value))
        return loads

    def _loaded_by(self, nodes: Sequence[Node], producer: Maker) -> Counter[Value]:
        cache = dict[Value, Needed]()
        return Counter(
            value for value, _ in Needed().union(*[self.of.loads.by(node, producer, cache) for node in nodes])
        )

    def _loaded_again(self, nodes: Sequence[Node]) -> Counter[Value]:
        """Return the loads that nodes need if a kernel recomputes them from values in memory."""

        def maker(value: Value) -> Node | None:
            node = self.of.producer.get(value)
            return node if node in nodes or not self.of.in_memory(value) else None

        return self._loaded_by(nodes, maker)

    def _dissolves(self, group: Group, results: Sequence[Value], readers: Sequence[Group]) -> bool:
        if group.form is not KernelForm.MAP or not readers or any(v in self.of.must for v in results):
            return False
        if any(r.form is KernelForm.OPAQUE or self.of.multiplies(r, results) for r in readers):
            return False
        written = [v for v in results if any(v in r.reads for r in readers)]
        out = sum(v.type.nbytes for v in written)
        ops = [n for n in group.members if n.op in POINTWISE or n.op in LOOKUPS]
        costly = any(n.op in EXPENSIVE for n in ops)
        grows = any(self._computes_per_element(r, written) for r in readers)
        light = not costly and all(self._is_light(len(ops), out, r) for r in readers)
        if any(len(r.reads) + len(group.reads) > DEFAULT.fusion.inputs for r in readers):
            return False
        if grows and (costly or (len(ops) > _GROWING_NODES and not light)):
            return False
        if any(self.is_crowded(r, group.members, self.loaded(group)) for r in readers):
            return False
        if len(readers) == 1 or (out <= DEFAULT.fusion.tiny_bytes and len(ops) <= _LIGHT_NODES):
            return True
        read = sum(v.type.nbytes for v in group.reads)
        light = light or len(ops) <= _LIGHT_NODES
        return not costly and light and read * len(readers) <= out * (len(readers) + 1)

    def _computes_per_element(self, reader: Group, values: Sequence[Value]) -> bool:
        """Whether a reader would recompute `values`, which have far fewer elements, for each of the reader's elements.

        The epilogue of a dot recomputes them once per row and column of a tile. If there is one value per row, a
        reduction recomputes them once per row.
        """
        few, space = max(v.type.size for v in values), reader.space
        if reader.form is KernelForm.GEMM or (
            space.has_reduce and space.size <= few * math.prod(v.high + 1 for v in space.reduced)
        ):
            return False
        return space.size > _GROWTH * few

    def _is_light(self, ops: int, out: int, reader: Group) -> bool:
        """Whether a reader can recompute a value while it waits for memory.

        Args:
            ops: ops per element of the value.
            out: bytes of the value on one device.
        """
        written = [v for node in reader.members for v in node.results if self.is_written(v)]
        moved = sum(v.type.nbytes for v in (*reader.reads, *written))
        return out * DEFAULT.fusion.table <= moved and ops * reader.space.size <= moved * _NODES_PER_BYTE

    # ---- single values

    def recompute(self) -> None:
        """Let readers recompute a value from others in memory, if that moves fewer bytes.

        For example, `exp(x - m)` of a distributed softmax and `x - mean` of a backward pass are not written, only `m`
        and `mean` are.
        """
        for group in sorted(self.of.groups, key=lambda g: (-g.level, -g.number)):
            members = sorted(group.members, key=self.of.position.__getitem__, reverse=True)
            for value in [v for node in members for v in node.results]:
                readers = list(self.users.get(value, ()))
                if group.form is not KernelForm.OPAQUE and (recipe := self._recipe(value, group, readers)) is not None:
                    self._apply(value, recipe, readers)
            self._prune(group)

    def _recipe(self, value: Value, group: Group, readers: Sequence[Group]) -> Recipe | None:
        """Return the recipe for recomputing `value`, or None if writing and reading the value is cheaper."""
        if not readers or value in self.of.must or value.type.nbytes < DEFAULT.fusion.big_bytes:
            return None
        if any(r.form is KernelForm.OPAQUE or self.of.multiplies(r, [value]) for r in readers):
            return None
        recipe = self._trace(value, group)
        if recipe is None or any(len(r.reads) + len(recipe.sources) > DEFAULT.fusion.inputs for r in readers):
            return None
        again = self._loaded_again(recipe.nodes)
        if any(self.is_crowded(r, recipe.nodes, again) for r in readers):
            return None
        moved = sum(v.type.nbytes for v in recipe.sources if self.of.owner.get(v) is group and not self.is_written(v))
        moved += sum(v.type.nbytes for r in readers for v in recipe.sources if v not in r.reads)
        return recipe if moved < value.type.nbytes * (1 + len(readers)) else None

    def _trace(self, value: Value, group: Group) -> Recipe | None:
        """Walk back from `value` to values that are small or in memory, and return the nodes between as a recipe.

        The walk continues through a value that has no owner (its group was dissolved, or the value was pruned), because
        it is not in memory. Returns None if a node on the way is not element-wise, or if there are too many nodes.
        """
        nodes, sources, stack = dict[Node, None](), dict[Value, None](), [value]
        while stack:
            current = stack.pop()
            node = self.of.producer.get(current)
            inside = self.of.owner.get(current) is group or (node is not None and node in group.extra)
            small = current.type.nbytes * DEFAULT.fusion.smaller <= value.type.nbytes
            kept = not inside or small or (self.is_written(current) and node not in group.extra)
            if current is not value and kept and self.of.in_memory(current):
                sources[current] = None
                continue
            if node is None or node.op not in POINTWISE or len(nodes) >= DEFAULT.fusion.recipe_nodes:
                return None
            if node not in nodes:
                nodes[node] = None
                stack += self.of.node_sources(node)
        return Recipe(tuple(sorted(nodes, key=self.of.position.__getitem__)), tuple(sources))

    def _apply(self, value: Value, recipe: Recipe, readers: Sequence[Group]) -> None:
        for reader in readers:
            reader.extra.update(dict.fromkeys(recipe.nodes))
            self.stop_reading(reader, value)
            self.read(reader, [v for v in recipe.sources if self.of.owner.get(v) is not reader])
            wait(reader, [v for node in recipe.nodes for v in self.of.free.waits_of(node)], self.of)

    def _prune(self, group: Group) -> None:
        """Remove members whose results are neither written nor read by other members."""
        needed = {source for node in group.extra for source in self.of.node_sources(node)}
        kept: list[Node] = []
        for node in sorted(group.members, key=self.of.position.__getitem__, reverse=True):
            if group.form is KernelForm.OPAQUE or any(v in needed or self.is_written(v) for v in node.results):
                kept.append(node)
                needed.update(self.of.node_sources(node))
            else:
                for value in node.results:
                    del self.of.owner[value]
        if len(kept) == len(group.members):
            return
        group.members[:] = [n for n in group.members if n in kept]
        self._loaded.pop(group, None)
        if not kept:
            self.remove(group)
