"""A network of cost tables over variables, with steps that shrink it and keep at least one cheapest labeling.

Example, costs in seconds, of variables a, b and c with two labels each:

    tables          (a, b): [[0, 3], [3, 1]]   (b, c): [[2, 0], [0, 2]]   (c,): [0, 5]
    eliminate a     (b,): [0, 1]               cheapest a: [0, 1] for b = 0, 1
    drop c = 1      it costs at least 5 more, and saves at most 2 elsewhere
    eliminate c     (b,): [2, 0]               cheapest c: [0, 0]
    eliminate b     [2, 1]: b = 1, then a = 1 and c = 0; cost 1

Eliminating a variable joins its tables and keeps the least cost for every combination of its neighbors' labels. A label
is dropped if another label of its variable never costs more, whatever the neighbors take (dead-end elimination). Arrays
are hash-consed and results are cached by array identity, so identical layers cost as much as one layer. Sources:
Dechter, Artificial Intelligence 113, 1999 (elimination); Goldstein, Biophysical Journal 66, 1994 (dead ends).
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, NamedTuple

import numpy as np

from meshgen.sharding.propagation.array_cache import Array as Array
from meshgen.sharding.propagation.array_cache import ArrayCache, Scope


class Table(NamedTuple):
    """The costs over the labels of `variables`. The array has one axis per variable, in rising order of variables."""

    variables: Scope
    costs: Array


class _Step(NamedTuple):
    """The elimination of a variable: the best label for each combination of labels of the variable's neighbors."""

    variable: int
    labels: Scope
    neighbors: Scope
    label_lists: tuple[Scope, ...]  # the labels that each neighbor had when the variable was eliminated
    best: Any

    def label(self, labels: Sequence[int]) -> int:
        """Return the best label, given the labels of all other variables."""
        positions = tuple(
            [
                candidates.index(labels[other])
                for other, candidates in zip(self.neighbors, self.label_lists, strict=True)
            ]
        )
        return self.labels[self.best[positions]]


class Network:
    """Variables with labels, and at most one cost table over each set of variables.

    `labels[v]` lists the labels that variable v may still take, by original index. `constant` is the cost that no
    longer depends on any label.
    """

    def __init__(self, sizes: Sequence[int], tables: Iterable[Table]) -> None:
        self.labels: list[Scope] = [tuple(range(size)) for size in sizes]
        self.constant = 0.0
        self._tables: list[dict[Scope, Array]] = [{} for _ in sizes]  # per variable: scope -> costs of its table
        self._steps: list[_Step] = []
        self._memo = ArrayCache()
        self._near: list[set[int]] = [set() for _ in sizes]  # neighbors: variables that share a table with this one
        self._sizes, self._widths = list(sizes), list(sizes)
        self._left = {variable for variable, size in enumerate(sizes) if size > 1}
        self._changed = set(self._left)  # variables whose labels must be compared again
        # `_new`: variables that changed since the last call of `reduce`, which had the limit of `_reduced` cells.
        self._new, self._reduced = set(self._left), 0
        # (id, shape) of a source array -> the array, which keeps its id valid, and its reshaped copy
        squeezed: dict[tuple[int, tuple[int, ...]], tuple[Array, Array]] = {}
        for variables, costs in tables:
            multi_label = (
                variables
                if min(map(sizes.__getitem__, variables), default=0) > 1
                else tuple(v for v in variables if sizes[v] > 1)
            )
            if not multi_label:
                self.constant += costs.item()
            elif multi_label is variables:
                self._insert(multi_label, self._memo.one(costs))
            else:
                key = id(costs), tuple(sizes[v] for v in multi_label)
                if key not in squeezed:
                    squeezed[key] = costs, self._memo.one(costs.reshape(key[1]))
                self._insert(multi_label, squeezed[key][1])

    def copy(self) -> Network:
        """Return a network that can change independently; both share the caches of arrays."""
        duplicate = object.__new__(Network)
        duplicate.labels, duplicate.constant, duplicate._memo = list(self.labels), self.constant, self._memo
        duplicate._tables = [dict(tables) if tables else tables for tables in self._tables]
        duplicate._near = [set(near) if near else near for near in self._near]
        duplicate._widths = list(self._widths)
        duplicate._steps, duplicate._left, duplicate._changed = list(self._steps), set(self._left), set(self._changed)
        duplicate._sizes, duplicate._new, duplicate._reduced = list(self._sizes), set(self._new), self._reduced
        return duplicate

    @property
    def left(self) -> frozenset[int]:
        """Return the variables that have more than one label and are not eliminated."""
        return frozenset(self._left)

    @property
    def joins(self) -> int:
        """Return the number of distinct joins computed so far."""
        return len(self._memo.joins)

    def degree(self, variable: int) -> int:
        """Return the number of other variables in the tables of a variable."""
        return len(self._near[variable])

    def width(self, variable: int) -> int:
        """Return the number of cells of the joined table that eliminating a variable computes."""
        return self._widths[variable]

    def tables(self) -> Iterator[Table]:
        """Yield each remaining table once."""
        for variable, own_tables in enumerate(self._tables):
            yield from (Table(scope, costs) for scope, costs in own_tables.items() if scope[0] == variable)

    @np.errstate(invalid="ignore")  # Comparing forbidden labels subtracts infinities.
    def reduce(self, cells: int, kept: AbstractSet[int] = frozenset()) -> None:
        """Eliminate variables and drop dominated labels, as long as either is possible.

        A variable is eliminated, narrow ones first, only if its joined table has at most `cells` cells. Once no
        variable is narrow enough, the labels of all changed variables are compared, each variable once. Variables in
        `kept` keep all their labels, because these differ in more than cost.
        """
        narrow, wide = list[tuple[int, int]](), set[int]()
        left, widths = self._left, self._widths
        queued: dict[int, int] = {}  # the width at which each variable was last pushed to `narrow`

        def sort(variables: Iterable[int]) -> None:
            for variable in variables:
                if variable in left and variable not in kept:
                    if (width := widths[variable]) > cells:
                        wide.add(variable)
                    elif queued.get(variable) != width:
                        queued[variable] = width
                        heapq.heappush(narrow, (width, variable))

        sort(self._new if self._reduced == cells and not kept else self._left)
        while narrow or wide:
            while narrow:
                width, variable = heapq.heappop(narrow)
                if variable in left and width == widths[variable]:
                    sort(self._eliminate(variable))
            batch = sorted((widths[variable], variable) for variable in wide & left & self._changed)
            wide.clear()
            for _, variable in batch:
                if variable in left:
                    sort(self._drop_dominated(variable))
        self._new, self._reduced = set(), 0 if kept else cells

    def fix(self, variable: int, label: int) -> None:
        """Restrict a variable to one label."""
        self._new |= self._keep(variable, (label,))

    def least(self, variable: int) -> Array:
        """Return a lower bound on the cost of each label: the sum of the minima of the tables of `variable`."""
        bound = np.zeros(len(self.labels[variable]))
        for scope, costs in self._tables[variable].items():
            bound = bound + costs.min(axis=tuple(i for i, v in enumerate(scope) if v != variable))
        return bound

    @property
    def steps(self) -> int:
        """Return the number of eliminated variables."""
        return len(self._steps)

    def chosen(self, begin: int = 0) -> tuple[int, ...]:
        """Return the best label of every variable, once all variables are eliminated or have one label.

        The labeling is the cheapest one, except for variables that the steps before `begin` eliminated.
        """
        labeling = [labels[0] for labels in self.labels]
        for step in reversed(self._steps[begin:]):
            labeling[step.variable] = step.label(labeling)
        return tuple(labeling)

    def completed(self, labels: Sequence[int]) -> tuple[int, ...]:
        """Return `labels`, with the labels of eliminated variables replaced by the best ones given the other labels."""
        labeling = list(labels)
        for step in reversed(self._steps):
            labeling[step.variable] = step.label(labeling)
        return tuple(labeling)

    def relax(self, variable: int, cells: int) -> None:
        """Eliminate a variable by mini-buckets, which makes the remaining minimum a lower bound.

        The tables of the variable are partitioned into groups that join to at most `cells` cells. Each group may choose
        another label of the variable.
        """
        groups: list[dict[Scope, Array]] = []
        for scope, costs in sorted(self._tables[variable].items(), key=lambda table: (-len(table[0]), table[0])):
            group = next((g for g in groups if self._cells({*scope}.union(*g)) <= cells), None)
            if group is None:
                groups.append(group := {})
            group[scope] = costs
        neighbors = self._near[variable]
        self._remove(variable)
        for neighbor in neighbors:  # Variables of different groups stop being neighbors.
            self._near[neighbor] = set().union(*self._tables[neighbor]) - {neighbor}
            self._widths[neighbor] = self._sizes[neighbor] * self._cells(self._near[neighbor])
        for group in groups:
            scope = tuple(sorted(set().union(*group)))
            _, least_costs = self._joined(variable, scope, group)
            self._insert(tuple(v for v in scope if v != variable), least_costs)
            self._new.update(scope)
        self._left.discard(variable)

    def _cells(self, variables: Iterable[int]) -> int:
        return math.prod([self._sizes[variable] for variable in variables])

    def _insert(self, scope: Scope, costs: Array) -> None:
        if not scope:
            self.constant += float(costs)
            return
        tables = self._tables
        if (previous := tables[scope[0]].get(scope)) is not None:
            costs = self._memo.sum(previous, costs)
        for variable in scope:
            tables[variable][scope] = costs
        if previous is None and len(scope) > 1:
            self._connect(scope)

    def _connect(self, scope: Scope) -> None:
        """Make the variables of a new table neighbors."""
        sizes, all_neighbors, widths = self._sizes, self._near, self._widths
        if len(scope) == 2:
            one, other = scope
            if other not in all_neighbors[one]:
                all_neighbors[one].add(other)
                all_neighbors[other].add(one)
                widths[one] *= sizes[other]
                widths[other] *= sizes[one]
            return
        both = set(scope)
        for variable in scope:
            neighbors = all_neighbors[variable]
            if new := both - neighbors:
                neighbors |= new
                neighbors.discard(variable)
                widths[variable] *= math.prod([sizes[other] for other in new if other != variable])

    def _remove(self, variable: int) -> dict[Scope, Array]:
        """Remove a variable's tables from the network and return them.

        Its neighbors stay neighbors of each other: the caller inserts tables over them.
        """
        removed, count = self._tables[variable], self._sizes[variable]
        for other in self._near[variable]:
            self._near[other].discard(variable)
            self._widths[other] //= count
        for scope in removed:
            for other in scope:
                if other != variable:
                    del self._tables[other][scope]
        self._tables[variable], self._near[variable] = {}, set()
        return removed

    def _key(self, variable: int, variables: Sequence[int], tables: dict[Scope, Array]) -> Any:
        """Return the cache key of a join: the arrays, and the positions of their axes among the sorted variables."""
        if len(variables) == 2:  # the common case: each table is over one of the variables, or over both
            first = variables[0]
            parts = [(id(costs), -1 if len(scope) == 2 else scope[0] == first) for scope, costs in tables.items()]
        else:
            position = {v: number for number, v in enumerate(variables)}.__getitem__
            parts = [(id(costs), *map(position, scope)) for scope, costs in tables.items()]
        parts.sort()
        return self._sizes[variable], variables.index(variable), *parts

    def _joined(self, variable: int, variables: Scope, tables: dict[Scope, Array]) -> tuple[Any, Array]:
        """Return the best label for each combination of the other variables' labels, and the costs with that label."""
        key = self._key(variable, variables, tables)
        if key not in self._memo.joins:
            total: Any = 0.0
            for scope, costs in sorted(tables.items()):
                total = total + costs.reshape([self._sizes[v] if v in scope else 1 for v in variables])
            axis = variables.index(variable)
            best = total.argmin(axis=axis)
            least_costs = self._memo.one(np.array(total.min(axis=axis), order="C"))
            self._memo.joins[key] = best.astype(np.min_scalar_type(total.shape[axis])), least_costs
        return self._memo.joins[key]

    def _eliminate(self, variable: int) -> set[int]:
        """Eliminate a variable and return its neighbors, which now share a table."""
        neighbors: Collection[int] = self._near[variable]
        tables = self._remove(variable)
        self._left.discard(variable)
        if not tables:
            self.labels[variable], self._sizes[variable] = self.labels[variable][:1], 1
            return set()
        variables = tuple(sorted([variable, *neighbors]))
        best, least_costs = self._joined(variable, variables, tables)
        neighbors = tuple(sorted(neighbors))
        neighbor_labels = tuple([self.labels[other] for other in neighbors])
        self._steps.append(_Step(variable, self.labels[variable], neighbors, neighbor_labels, best))
        self._insert(neighbors, least_costs)
        self._changed.update(neighbors)
        return {*neighbors}

    def _keep(self, variable: int, labels: Scope) -> set[int]:
        """Restrict a variable to some of its labels and return the variables whose tables changed."""
        positions = tuple(self.labels[variable].index(label) for label in labels)
        changed = {variable, *self._near[variable]}
        tables = self._remove(variable)
        self.labels[variable], self._sizes[variable], self._widths[variable] = labels, len(labels), len(labels)
        for scope, costs in tables.items():
            part = self._memo.part(costs, scope.index(variable), positions)
            self._insert(scope if len(labels) > 1 else tuple([v for v in scope if v != variable]), part)
        if len(labels) == 1:
            self._left.discard(variable)
        self._changed |= changed
        return changed

    def _drop_dominated(self, variable: int) -> set[int]:
        """Drop the labels that never cost less than another label, and return the variables whose tables changed."""
        if variable not in self._changed:
            return set()
        self._changed.discard(variable)
        labels = self.labels[variable]
        key = tuple(sorted([(id(costs), scope.index(variable)) for scope, costs in self._tables[variable].items()]))
        if key not in self._memo.kept:
            self._memo.kept[key] = self._undominated_positions(variable, len(labels))
        positions = self._memo.kept[key]
        return (
            self._keep(variable, tuple(labels[position] for position in positions))
            if len(positions) < len(labels)
            else set()
        )

    def _undominated_positions(self, variable: int, count: int) -> Scope:
        """Return the positions of the labels that no other label dominates."""
        extra_costs = np.zeros((count, count))  # [i, j]: the least amount by which label i costs more than label j
        for scope, costs in self._tables[variable].items():
            extra_costs = extra_costs + self._memo.cost_differences(costs, scope.index(variable))
        undominated, extra_cost_rows = list(range(count)), extra_costs.tolist()
        for label in reversed(range(count)):
            if any(extra_cost_rows[label][other] >= 0 for other in undominated if other != label):
                undominated.remove(label)
        return tuple(undominated)
