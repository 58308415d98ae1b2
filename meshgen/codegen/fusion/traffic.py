"""Refinement of groups: recompute values that cost more to write and read. It adds no kernel."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from meshgen.codegen.fusion.form import KernelForm
from meshgen.codegen.fusion.group import Group
from meshgen.codegen.fusion.groups import Grouping
from meshgen.codegen.fusion.loads import Maker, Needed
from meshgen.codegen.fusion.ordering import wait
from meshgen.cost_model.model import DEFAULT
from meshgen.ir.graph import Node, Value
from meshgen.ops.classes import EXPENSIVE, LOOKUPS, POINTWISE

# FLOP per byte that a reader computes behind its traffic: a seventh of a device's peak.
_NODES_PER_BYTE = 2

# Nodes that several readers may each compute again.
_LIGHT_NODES = 8

# Times the elements from which computing again is computing many more.
_GROWTH = 8

# Nodes that may be computed again for many more elements.
_GROWING_NODES = 4


class Recipe(NamedTuple):
    """How to compute a value again: nodes in program order, and the values in memory that they start from."""

    nodes: tuple[Node, ...]
    sources: tuple[Value, ...]


class Traffic:
    """What groups read and write, and what changes it: `users` says which groups read a value."""

    def __init__(self, grouping: Grouping) -> None:
        self.of = grouping
        self.users: dict[Value, dict[Group, None]] = {}
        self._loaded: dict[Group, Counter[Value]] = {}
        for group in grouping.groups:
            self.read(group, group.reads)

    def read(self, group: Group, values: Sequence[Value] | dict[Value, None]) -> None:
        self._loaded.pop(group, None)
        for value in values:
            group.reads[value] = None
            self.users.setdefault(value, {})[group] = None
            maker = self.of.owner.get(value)
            if maker is not None and maker is not group:
                self.of.order(maker, group)

    def read_no_more(self, group: Group, value: Value) -> None:
        self._loaded.pop(group, None)
        group.reads.pop(value, None)
        self.users.get(value, {}).pop(group, None)

    def is_written(self, value: Value) -> bool:
        return value in self.of.must or bool(self.users.get(value))

    def remove(self, group: Group) -> None:
        """Take an emptied group out of the graph of groups."""
        self.of.has_removed = True
        for value in list(group.reads):
            self.read_no_more(group, value)
        for earlier in group.before:
            earlier.after.pop(group, None)
        for later in group.after:
            later.before.pop(group, None)
        group.members.clear()

    # ---- whole groups

    def dissolve(self) -> None:
        """Compute element-wise groups inside their readers where that moves fewer bytes."""
        for group in sorted(self.of.groups, key=lambda g: (-g.level, -g.number)):
            made = [v for node in group.members for v in node.results]
            readers = list(dict.fromkeys(g for v in made for g in self.users.get(v, ())))
            if not self._dissolves(group, made, readers):
                continue
            for value in made:
                del self.of.owner[value]
            for reader in readers:
                for value in made:
                    self.read_no_more(reader, value)
                self.read(reader, group.reads)
                wait(reader, group.waits, self.of)
            self.remove(group)

    def is_crowded(self, group: Group, again: Sequence[Node], loaded: Counter[Value]) -> bool:
        """Whether a kernel would load too much for one of its values if it computed these nodes again.

        Args:
            loaded: what is loaded for the nodes, at how many indices each.
        """
        if self._is_roomy(group, again, loaded):
            return False
        nodes, known = {*group.members, *group.extra, *again}, dict[Value, Needed]()

        def maker(value: Value) -> Node | None:
            node = self.of.producer.get(value)
            return node if node in nodes else self.of.made_in(group, value)

        return not all(self.of.loads.fit(self.of.loads.by(node, maker, known)) for node in nodes)

    def _is_roomy(self, group: Group, again: Sequence[Node], loaded: Counter[Value]) -> bool:
        """Whether a kernel that also computes these nodes has room for all that it then loads for any of its values.

        Where it computes nothing that they load, it loads that for a value of theirs at each index at which it loads the value now.
        """
        own = self.loaded(group)
        of_nodes = loaded.total()
        read_at = sum([own[value] for node in again for value in node.results])
        if max(of_nodes, own.total() + of_nodes * read_at) > DEFAULT.fusion.loads:
            return False
        owner, producer = self.of.owner, self.of.producer
        return not any(owner.get(value) is group or producer.get(value) in group.extra for value in loaded)

    def loaded(self, group: Group) -> Counter[Value]:
        """What a kernel loads for one element of each of its values, at how many indices; known until it reads something else."""
        if (found := self._loaded.get(group)) is None:
            nodes = [*group.members, *group.extra]
            found = self._loaded[group] = self._loaded_by(nodes, lambda value: self.of.made_in(group, value))
        return found

    def _loaded_by(self, nodes: Sequence[Node], maker: Maker) -> Counter[Value]:
        known = dict[Value, Needed]()
        return Counter(value for value, _ in Needed().union(*[self.of.loads.by(node, maker, known) for node in nodes]))

    def _loaded_again(self, nodes: Sequence[Node]) -> Counter[Value]:
        """What is loaded for nodes that are computed from what is in memory."""

        def maker(value: Value) -> Node | None:
            node = self.of.producer.get(value)
            return node if node in nodes or not self.of.in_memory(value) else None

        return self._loaded_by(nodes, maker)

    def _dissolves(self, group: Group, made: Sequence[Value], readers: Sequence[Group]) -> bool:
        if group.form is not KernelForm.MAP or not readers or any(v in self.of.must for v in made):
            return False
        if any(r.form is KernelForm.OPAQUE or self.of.multiplies(r, made) for r in readers):
            return False
        written = [v for v in made if any(v in r.reads for r in readers)]
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
        """Whether a reader with many more elements computes values of few again for each.

        A dot's epilogue does for each row and column of a tile, a reduction for each row if there is one value for each.
        """
        few, space = max(v.type.size for v in values), reader.space
        if reader.form is KernelForm.GEMM or (
            space.has_reduce and space.size <= few * math.prod(v.high + 1 for v in space.reduced)
        ):
            return False
        return space.size > _GROWTH * few

    def _is_light(self, ops: int, out: int, reader: Group) -> bool:
        """Whether a table of `out` bytes, of so many ops for each element, is computed in the time in which the reader waits for memory."""
        written = [v for node in reader.members for v in node.results if self.is_written(v)]
        moved = sum(v.type.nbytes for v in (*reader.reads, *written))
        return out * DEFAULT.fusion.table <= moved and ops * reader.space.size <= moved * _NODES_PER_BYTE

    # ---- single values

    def recompute(self) -> None:
        """Let readers compute a value again from others in memory where that moves fewer bytes.

        What softmax over several devices or a backward pass keep, `exp(x - m)` or `x - mean`, is not written:
        only the few numbers per row are.
        """
        for group in sorted(self.of.groups, key=lambda g: (-g.level, -g.number)):
            members = sorted(group.members, key=self.of.position.__getitem__, reverse=True)
            for value in [v for node in members for v in node.results]:
                readers = list(self.users.get(value, ()))
                if group.form is not KernelForm.OPAQUE and (recipe := self._recipe(value, group, readers)) is not None:
                    self._apply(value, recipe, readers)
            self._prune(group)

    def _recipe(self, value: Value, group: Group, readers: Sequence[Group]) -> Recipe | None:
        """How to compute the value again, if that is cheaper than to write it and read it."""
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
        """Walk back from the value to what is in memory or small.

        What no group owns any more, since its group was dissolved or it was pruned, is in no memory: it is walked through.
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
            self.read_no_more(reader, value)
            self.read(reader, [v for v in recipe.sources if self.of.owner.get(v) is not reader])
            wait(reader, [v for node in recipe.nodes for v in self.of.free.waits_of(node)], self.of)

    def _prune(self, group: Group) -> None:
        """Drop unused members."""
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
