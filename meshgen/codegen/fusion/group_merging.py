"""Merging of groups into one kernel: epilogues with several results, groups over one space, and small groups side by
side.

    m' = f(m, g)    v' = g(v, g)    p' = h(p, m', v')       one kernel: the gradient is read once, and m' and v' are not
    read again

Groups grow in program order, so whether two groups share operands is known only afterwards. Merging adds no memory
traffic and saves a launch. A group that waits for a collective is not merged with a group that does not.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from meshgen.codegen.expr import linearize, variable
from meshgen.codegen.fusion.form import KernelForm
from meshgen.codegen.fusion.group import Group
from meshgen.codegen.fusion.ordering import producing_groups, wait
from meshgen.codegen.fusion.row_subtiles import columns_reduced
from meshgen.codegen.fusion.space import Space
from meshgen.codegen.fusion.tiles import tile_shape
from meshgen.codegen.fusion.traffic import Traffic
from meshgen.cost_model.model import DEFAULT
from meshgen.ir.graph import Node, Value
from meshgen.ir.matchers import transitive_operands
from meshgen.ops.classes import COMMUNICATING, LOOKUPS, POINTWISE, REDUCTIONS
from meshgen.ops.row_reductions import row_length, summed_runs


class Joins:
    """Merges groups of a grouping in place. `traffic` tracks which groups read each value."""

    def __init__(self, traffic: Traffic) -> None:
        self.traffic, self.of = traffic, traffic.of
        self._waiting = sum(1 << g.number for g in self.of.groups if g.members and g.members[0].op in COMMUNICATING)

    def join_kernels(self) -> None:
        """Merge groups with a common iteration space, then small groups side by side."""
        self._join_spaces()
        self._join_siblings()

    def join_epilogues(self) -> bool:
        """Merge groups into the epilogues of dots. Return whether some dot's kernel now reduces subtiles of rows."""
        self._join_epilogues(KernelForm.MAP)
        return self._join_epilogues(KernelForm.REDUCE)

    def _maps(self) -> list[Group]:
        return [g for g in self.of.groups if g.form is KernelForm.MAP and g.members]

    def _written(self, *groups: Group) -> list[Value]:
        return [v for g in groups for n in g.members for v in n.results if self.traffic.is_written(v)]

    # ---- epilogues with several results

    def _join_epilogues(self, form: KernelForm) -> bool:
        """Merge groups of form `form` into the epilogue of a dot whose result they read. Return whether any group was
        merged.
        """
        is_changed = False
        for group in [g for g in self.of.groups if g.form is form and g.members]:
            source_groups = {self.of.owner[v]: None for v in group.reads if v in self.of.owner}
            dots = sorted((g for g in source_groups if g.form is KernelForm.GEMM), key=lambda g: -g.number)
            # Try the latest dot first. First require that members are added in program order, then allow any order.
            for dot, in_order in [*((dot, True) for dot in dots), *((dot, False) for dot in dots)]:
                if (space := self._space_with_epilogue(group, dot, in_order=in_order)) is not None:
                    self._join(group, dot, space)
                    is_changed = True
                    break
        return is_changed

    def _space_with_epilogue(self, group: Group, dot: Group, *, in_order: bool) -> Space | None:
        """Return the iteration space of the kernel `dot` with the members of `group` added to its epilogue.

        Returns None if they cannot be added.

        Args:
            in_order: whether to add the members in program order, so that each member reads only values that were added
                before it.
        """
        if not self._has_room(dot, group) or len(dot.space.dots) > 1 or any(n.op in LOOKUPS for n in group.members):
            return None
        for source_group in self._needed(group):
            if source_group is dot:
                continue
            waits = source_group.members[0].op in COMMUNICATING and not self.of.depends(dot, source_group)
            if waits or self.of.depends(source_group, dot):
                return None
        columns = columns_reduced(dot.members[0], (*dot.members, *group.members))
        if group.form is KernelForm.REDUCE and not columns:
            return None
        anchor, *epilogue = dot.members
        space = self._space_of(anchor, (dot, group), columns)
        members = [*epilogue, *sorted(group.members, key=self.of.position.__getitem__)]
        # The kernel may recompute the values to reduce from the dot's result, so add the recomputed nodes too.
        if columns:
            computed = {*anchor.results, *(v for node in members for v in node.results)}
            chain = self._read_through([*members, *dot.extra, *group.extra])
            members = [n for n in chain if n in members or self._is_made_of(n, computed)]
        if in_order:
            return space if all(space.add(node) for node in members) else None
        return None if space.add_all(members, self._read_through(members)) else space

    def _is_made_of(self, node: Node, computed: set[Value]) -> bool:
        """Whether `node` is element-wise and reads a value in `computed`. If so, add the node's results to `computed`."""
        if node.op not in POINTWISE or computed.isdisjoint(
            source for v in node.operands for source in self.of.free.sources(v)
        ):
            return False
        computed.update(node.results)
        return True

    def _has_room(self, *groups: Group) -> bool:
        limits, reads = DEFAULT.fusion, {v for g in groups for v in g.reads}
        return (
            sum(len(g.members) for g in groups) <= limits.epilogue_nodes
            and len(self._written(*groups)) <= limits.epilogue_outputs
            and len(reads) <= limits.inputs
        )

    def _space_of(self, anchor: Node, groups: Sequence[Group], columns: int = 0) -> Space:
        """Return the iteration space that starts with `anchor`, for one kernel of all `groups`.

        The kernel recomputes the extra nodes of each group. `columns` is passed to `Space.start`.
        """
        extra = {v for g in groups for n in g.extra for v in n.results}
        space = Space(lambda v: self.of.producer[v] if v in extra else self.of.copied(v))
        space.start(anchor, columns)
        return space

    # ---- groups over one space

    def _join_spaces(self) -> None:
        """Merge maps and reductions over the same elements if they share operands or one reads the other's results.

        Pairs that save the most bytes are merged first.
        """
        for is_summed in (True, False):
            for group in [g for g in self.of.groups if g.form.is_row_wise]:
                if is_summed and (group.form is KernelForm.MAP or not any(map(summed_runs, group.members))):
                    continue  # In the first round, merge only sums of runs of rows, with the reductions of these rows.
                while group.members and (pair := self._best_partner(group, is_summed)):
                    self._join(*pair)

    def _best_partner(self, group: Group, is_summed: bool) -> tuple[Group, Group, Space] | None:
        """Find the group whose merge with `group` saves the most bytes.

        Returns the later and the earlier of the two groups and their common space, or None if no group can be merged.
        """
        saved: dict[Group, int] = {}
        for other in self._partners(group):
            if is_summed and (other.form is KernelForm.MAP or not any(map(row_length, other.members))):
                continue
            first, second = sorted((group, other), key=lambda g: (g.level, g.number))
            saved[other] = sum(v.type.nbytes for v in first.reads if v in second.reads)
            saved[other] += sum(self._fed(v, second) for n in first.members for v in n.results if v in second.reads)
        for other in sorted(saved, key=lambda g: (-saved[g], g.number)):
            first, second = sorted((group, other), key=lambda g: (g.level, g.number))
            if self._may_join(first, second) and (space := self._common_space(first, second)):
                return second, first, space
        return None

    def _partners(self, group: Group) -> Iterable[Group]:
        """Return the row-wise groups that read or compute a value of `group` with as many elements as the group's
        space.

        For a reduction, values with as many elements as its result count too.
        """
        results = [v for n in group.members for v in n.results]
        sizes = {group.space.size, *(n.result.type.size for n in group.members if n.op in REDUCTIONS)}
        values = [v for v in (*group.reads, *results) if v.type.size in sizes]
        partners = [g for v in values for g in self.traffic.users.get(v, ())]
        partners += [self.of.owner[v] for v in values if v in self.of.owner]
        return [g for g in dict.fromkeys(partners) if g is not group and g.members and g.form.is_row_wise]

    def _fed(self, value: Value, reader: Group) -> int:
        """Return the bytes of memory traffic saved by merging the producer of `value` with the group `reader`."""
        users = self.traffic.users.get(value, {})
        stays_in_memory = value in self.of.must or any(user is not reader for user in users)
        return value.type.nbytes * (1 if stays_in_memory else 2)

    def _may_join(self, first: Group, second: Group) -> bool:
        """Whether two groups fit in one kernel, depend on each other at most directly, and wait for the same
        collectives.
        """
        if not self._has_room(first, second) or (first.needs ^ second.needs) & self._waiting:
            return False
        if any(g is not first and self.of.depends(g, first) for g in self._needed(second)):
            return False
        if first in producing_groups(second.waits, self.of) and not any(
            self.of.owner.get(v) is first for v in second.reads
        ):
            return False
        return not self.of.depends(first, second)

    def _needed(self, group: Group) -> dict[Group, None]:
        """Return the groups that compute the values that `group` reads or waits for."""
        source_groups = {self.of.owner[v]: None for v in group.reads if v in self.of.owner}
        return source_groups | producing_groups(group.waits, self.of)

    def _common_space(self, first: Group, second: Group) -> Space | None:
        """Return an iteration space that contains all members of both groups, or None if none exists.

        Each written value must be computed at one point of the space.
        """
        groups = (first, second)
        members = sorted((n for g in groups for n in g.members), key=self.of.position.__getitem__)
        reductions = [n for n in members if n.op in REDUCTIONS]
        if first.form is not second.form and not all(self._fits(n, groups) for n in reductions):
            return None
        reductions.sort(key=lambda n: not row_length(n))
        for anchor in reductions[:1] or [n for n in members if n.result in (*self._written(second),)][:1]:
            space = self._space_of(anchor, groups)
            unplaced = space.add_all([n for n in members if n is not anchor], self._read_through(members))
            if not unplaced and self._is_one_tile(space, groups):
                again, loaded = (*first.members, *first.extra), self.traffic.loaded(first)
                return None if self.traffic.is_crowded(second, again, loaded) else space
        return None

    def _read_through(self, members: Sequence[Node]) -> list[Node]:
        """Return `members` and the free nodes through which they read memory, in program order."""
        read = transitive_operands([v for node in members for v in node.operands], self.of.copied)
        nodes = {*members, *(node for value in read if (node := self.of.copied(value)) is not None)}
        return sorted(nodes, key=self.of.position.__getitem__)

    def _fits(self, reduction: Node, groups: Sequence[Group]) -> bool:
        """Whether `reduction` has enough rows to be merged with each group in `groups`."""
        return all(self.of.is_parallel_enough(reduction, g) for g in groups)

    def _is_one_tile(self, space: Space, groups: Sequence[Group]) -> bool:
        """Whether every written value is computed at one point of the space.

        This holds if the kernel keeps rows in registers, or if it computes equal positions of all written values.
        """
        if space.has_reduce:
            are_reductions = all(g.form is KernelForm.REDUCE for g in groups)
            return are_reductions or not tile_shape(space, DEFAULT.kernels.devices[0].multiprocessors).loops
        flat = linearize(tuple(variable(f"d{i}", n) for i, n in enumerate(self._sizes(space))), self._sizes(space))
        written = self._written(*groups)
        indices = {v: space.index.get(v) for v in written}
        return all(index is not None and linearize(index, v.type.sizes) == flat for v, index in indices.items())

    def _sizes(self, space: Space) -> tuple[int, ...]:
        return next(iter(space.index)).type.sizes

    # ---- small kernels side by side

    def _join_siblings(self) -> None:
        """Merge small element-wise groups that share an operand and compute results of the same size.

        Each of these groups would take less time than its launch.
        """
        latest: dict[tuple[Value, int], Group] = {}
        for group in self._maps():
            written = self._written(group)
            sizes = {v.type.size for v in written}
            moved = sum(v.type.nbytes for v in (*group.reads, *written))
            if len(sizes) != 1 or moved > DEFAULT.fusion.sibling_bytes or any(n.op in LOOKUPS for n in group.members):
                continue
            (size,) = sizes
            keys = [(value, size) for value in group.reads]
            first = next(
                (latest[key] for key in keys if key in latest and self._are_siblings(latest[key], group)), None
            )
            if first is not None:
                self._join(group, first, first.space)
            latest.update(dict.fromkeys(keys, first or group))

    def _are_siblings(self, first: Group, second: Group) -> bool:
        if not self._has_room(first, second):
            return False
        return not self.of.depends(first, second) and not self.of.depends(second, first)

    # ---- the change

    def _join(self, group: Group, into: Group, space: Space) -> None:
        """Merge `group` into the group `into`, whose iteration space becomes `space`."""
        members, reads, later = list(group.members), list(group.reads), list(group.after)
        self.traffic.remove(group)
        into.space = space
        if into.form is KernelForm.MAP:
            into.form = group.form
        into.extra.update(group.extra)
        into.members += members
        for node in members:
            self.of.owner.update(dict.fromkeys(node.results, into))
        self.traffic.read(into, [v for v in reads if self.of.owner.get(v) is not into])
        for value in [v for n in into.members for v in n.results]:
            self.traffic.stop_reading(into, value)
        wait(into, group.waits, self.of)
        for group_after in later:
            if group_after is not into:
                self.of.order(into, group_after)
