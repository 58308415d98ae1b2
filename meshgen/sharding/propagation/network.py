"""A network of costs over variables, and the steps that make it smaller without losing its cheapest labelling.

Example, costs in seconds, of variables a, b and c with two labels each:

    tables          (a, b): [[0, 3], [3, 1]]   (b, c): [[2, 0], [0, 2]]   (c,): [0, 5]
    eliminate a     (b,): [0, 1]               cheapest a: [0, 1] for b = 0, 1
    drop c = 1      it costs at least 5 more, and saves at most 2 elsewhere
    eliminate c     (b,): [2, 0]               cheapest c: [0, 0]
    eliminate b     [2, 1]: b = 1, then a = 1 and c = 0; cost 1

Eliminating a variable joins its tables and keeps, for every combination of its neighbours' labels, the least cost; a label is
dropped if another one of its variable is never dearer, whatever the neighbours take (dead-end elimination). Equal arrays are
one array, and what is found of the same arrays in the same places is found once: layers that are alike cost as much as one.
Sources: Dechter, Artificial Intelligence 113, 1999 (elimination); Goldstein, Biophysical Journal 66, 1994 (dead ends).
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, NamedTuple

import numpy as np

from meshgen.sharding.propagation.known_arrays import Array as Array
from meshgen.sharding.propagation.known_arrays import KnownArrays, Scope


class Table(NamedTuple):
    """Costs over the labels of `variables`, one array axis each, in rising order of variable."""

    variables: Scope
    costs: Array


class _Step(NamedTuple):
    """A variable that was eliminated: the best of its labels for those of its neighbours, by their numbers at that time."""

    variable: int
    labels: Scope
    others: Scope
    known: tuple[Scope, ...]  # the labels that each of the others had
    best: Any

    def label(self, labels: Sequence[int]) -> int:
        """The best label, given those of the other variables."""
        place = tuple([known.index(labels[other]) for other, known in zip(self.others, self.known, strict=True)])
        return self.labels[self.best[place]]


class Network:
    """Variables with labels, and one table at most over each set of variables.

    `labels[v]` are the labels that a variable still has, by their first numbers. `constant` is the cost that is certain.
    """

    def __init__(self, sizes: Sequence[int], tables: Iterable[Table]) -> None:
        self.labels: list[Scope] = [tuple(range(size)) for size in sizes]
        self.constant = 0.0
        self._tables: list[dict[Scope, Array]] = [{} for _ in sizes]  # of each variable, by scope
        self._steps: list[_Step] = []
        self._memo = KnownArrays()
        self._near: list[set[int]] = [set() for _ in sizes]  # neighbours: variables that share a table with it
        self._sizes, self._widths = list(sizes), list(sizes)
        self._left = {variable for variable, size in enumerate(sizes) if size > 1}
        self._changed = set(self._left)  # since their labels were compared
        self._new, self._reduced = set(self._left), 0  # variables that changed since all were reduced to so many cells
        squeezed: dict[tuple[int, tuple[int, ...]], tuple[Array, Array]] = {}  # by the source, which they keep alive
        for variables, costs in tables:
            kept = (
                variables
                if min(map(sizes.__getitem__, variables), default=0) > 1
                else tuple(v for v in variables if sizes[v] > 1)
            )
            if not kept:
                self.constant += costs.item()
            elif kept is variables:
                self._insert(kept, self._memo.one(costs))
            else:
                key = id(costs), tuple(sizes[v] for v in kept)
                if key not in squeezed:
                    squeezed[key] = costs, self._memo.one(costs.reshape(key[1]))
                self._insert(kept, squeezed[key][1])

    def copy(self) -> Network:
        """A network that can change on its own; both share what is known of arrays."""
        other = object.__new__(Network)
        other.labels, other.constant, other._memo = list(self.labels), self.constant, self._memo
        other._tables = [dict(tables) if tables else tables for tables in self._tables]
        other._near = [set(near) if near else near for near in self._near]
        other._widths = list(self._widths)
        other._steps, other._left, other._changed = list(self._steps), set(self._left), set(self._changed)
        other._sizes, other._new, other._reduced = list(self._sizes), set(self._new), self._reduced
        return other

    @property
    def left(self) -> frozenset[int]:
        """Variables that have more than one label and are not eliminated."""
        return frozenset(self._left)

    @property
    def joins(self) -> int:
        """How many different joins were made."""
        return len(self._memo.joins)

    def degree(self, variable: int) -> int:
        """How many other variables its tables have."""
        return len(self._near[variable])

    def width(self, variable: int) -> int:
        """Cells of the table that eliminating a variable makes, with its own labels."""
        return self._widths[variable]

    def tables(self) -> Iterator[Table]:
        """The tables that are left, each once."""
        for variable, found in enumerate(self._tables):
            yield from (Table(scope, costs) for scope, costs in found.items() if scope[0] == variable)

    @np.errstate(invalid="ignore")  # forbidden labels are compared
    def reduce(self, cells: int, kept: AbstractSet[int] = frozenset()) -> None:
        """Eliminate the variables whose joined tables have so many cells at most, narrow ones first, and drop dominated labels, while there are any.

        Labels are compared once no variable is narrow enough, of all variables that changed since, before any is compared again.
        Variables that are `kept` stay as they are: their labels differ in more than cost.
        """
        narrow, wide = list[tuple[int, int]](), set[int]()
        left, widths = self._left, self._widths
        queued: dict[int, int] = {}  # the width with which each was put into `narrow` last

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
        """Leave a variable one label."""
        self._new |= self._keep(variable, (label,))

    def least(self, variable: int) -> Array:
        """The cost of each label if all other variables could follow it, table by table."""
        bound = np.zeros(len(self.labels[variable]))
        for scope, costs in self._tables[variable].items():
            bound = bound + costs.min(axis=tuple(i for i, v in enumerate(scope) if v != variable))
        return bound

    @property
    def steps(self) -> int:
        """How many variables were eliminated."""
        return len(self._steps)

    def chosen(self, begin: int = 0) -> tuple[int, ...]:
        """A label of every variable, once none is left: the cheapest labelling, but for the variables that the steps before `begin` eliminated."""
        found = [labels[0] for labels in self.labels]
        for step in reversed(self._steps[begin:]):
            found[step.variable] = step.label(found)
        return tuple(found)

    def completed(self, labels: Sequence[int]) -> tuple[int, ...]:
        """The labelling with the best labels of the variables that were eliminated, given those of the others."""
        found = list(labels)
        for step in reversed(self._steps):
            found[step.variable] = step.label(found)
        return tuple(found)

    def relax(self, variable: int, cells: int) -> None:
        """Eliminate a variable as if it could take another label for each group of its tables that has so many cells at most: a bound from below."""
        groups: list[dict[Scope, Array]] = []
        for scope, costs in sorted(self._tables[variable].items(), key=lambda table: (-len(table[0]), table[0])):
            group = next((g for g in groups if self._cells({*scope}.union(*g)) <= cells), None)
            if group is None:
                groups.append(group := {})
            group[scope] = costs
        others = self._near[variable]
        self._remove(variable)
        for other in others:  # those of different groups are neighbours no more
            self._near[other] = set().union(*self._tables[other]) - {other}
            self._widths[other] = self._sizes[other] * self._cells(self._near[other])
        for group in groups:
            scope = tuple(sorted(set().union(*group)))
            _, least = self._joined(variable, scope, group)
            self._insert(tuple(v for v in scope if v != variable), least)
            self._new.update(scope)
        self._left.discard(variable)

    def _cells(self, variables: Iterable[int]) -> int:
        return math.prod([self._sizes[variable] for variable in variables])

    def _insert(self, scope: Scope, costs: Array) -> None:
        if not scope:
            self.constant += float(costs)
            return
        tables = self._tables
        if (known := tables[scope[0]].get(scope)) is not None:
            costs = self._memo.sum(known, costs)
        for variable in scope:
            tables[variable][scope] = costs
        if known is None and len(scope) > 1:
            self._link(scope)

    def _link(self, scope: Scope) -> None:
        """Note that a table over these variables is there."""
        sizes, nears, widths = self._sizes, self._near, self._widths
        if len(scope) == 2:
            one, other = scope
            if other not in nears[one]:
                nears[one].add(other)
                nears[other].add(one)
                widths[one] *= sizes[other]
                widths[other] *= sizes[one]
            return
        both = set(scope)
        for variable in scope:
            near = nears[variable]
            if new := both - near:
                near |= new
                near.discard(variable)
                widths[variable] *= math.prod([sizes[other] for other in new if other != variable])

    def _remove(self, variable: int) -> dict[Scope, Array]:
        """The tables of a variable, taken out of the network.

        Its neighbours stay neighbours of each other: a table over all of them, or over those of each table, follows.
        """
        found, count = self._tables[variable], self._sizes[variable]
        for other in self._near[variable]:
            self._near[other].discard(variable)
            self._widths[other] //= count
        for scope in found:
            for other in scope:
                if other != variable:
                    del self._tables[other][scope]
        self._tables[variable], self._near[variable] = {}, set()
        return found

    def _key(self, variable: int, variables: Sequence[int], tables: dict[Scope, Array]) -> Any:
        """What a join depends on: arrays, and their places among the variables, which are in rising order."""
        if len(variables) == 2:  # as most are: a table is over one of them, or over both
            first = variables[0]
            parts = [(id(costs), -1 if len(scope) == 2 else scope[0] == first) for scope, costs in tables.items()]
        else:
            place = {v: number for number, v in enumerate(variables)}.__getitem__
            parts = [(id(costs), *map(place, scope)) for scope, costs in tables.items()]
        parts.sort()
        return self._sizes[variable], variables.index(variable), *parts

    def _joined(self, variable: int, variables: Scope, tables: dict[Scope, Array]) -> tuple[Any, Array]:
        """The best label for the others' labels, and its cost."""
        key = self._key(variable, variables, tables)
        if key not in self._memo.joins:
            total: Any = 0.0
            for scope, costs in sorted(tables.items()):
                total = total + costs.reshape([self._sizes[v] if v in scope else 1 for v in variables])
            axis = variables.index(variable)
            best = total.argmin(axis=axis)
            least = self._memo.one(np.array(total.min(axis=axis), order="C"))
            self._memo.joins[key] = best.astype(np.min_scalar_type(total.shape[axis])), least
        return self._memo.joins[key]

    def _eliminate(self, variable: int) -> set[int]:
        """The neighbours, which now have a table together."""
        others: Collection[int] = self._near[variable]
        tables = self._remove(variable)
        self._left.discard(variable)
        if not tables:
            self.labels[variable], self._sizes[variable] = self.labels[variable][:1], 1
            return set()
        variables = tuple(sorted([variable, *others]))
        best, least = self._joined(variable, variables, tables)
        others = tuple(sorted(others))
        known = tuple([self.labels[other] for other in others])
        self._steps.append(_Step(variable, self.labels[variable], others, known, best))
        self._insert(others, least)
        self._changed.update(others)
        return {*others}

    def _keep(self, variable: int, labels: Scope) -> set[int]:
        """Leave a variable some of its labels; the variables whose tables changed."""
        places = tuple(self.labels[variable].index(label) for label in labels)
        touched = {variable, *self._near[variable]}
        tables = self._remove(variable)
        self.labels[variable], self._sizes[variable], self._widths[variable] = labels, len(labels), len(labels)
        for scope, costs in tables.items():
            part = self._memo.part(costs, scope.index(variable), places)
            self._insert(scope if len(labels) > 1 else tuple([v for v in scope if v != variable]), part)
        if len(labels) == 1:
            self._left.discard(variable)
        self._changed |= touched
        return touched

    def _drop_dominated(self, variable: int) -> set[int]:
        """Drop the labels that another one of the variable is never dearer than; the variables whose tables changed."""
        if variable not in self._changed:
            return set()
        self._changed.discard(variable)
        labels = self.labels[variable]
        key = tuple(sorted([(id(costs), scope.index(variable)) for scope, costs in self._tables[variable].items()]))
        if key not in self._memo.kept:
            self._memo.kept[key] = self._undominated_places(variable, len(labels))
        places = self._memo.kept[key]
        return self._keep(variable, tuple(labels[place] for place in places)) if len(places) < len(labels) else set()

    def _undominated_places(self, variable: int, count: int) -> Scope:
        more = np.zeros((count, count))  # by how much a label is dearer than another one at least
        for scope, costs in self._tables[variable].items():
            more = more + self._memo.dearer(costs, scope.index(variable))
        kept, rows = list(range(count)), more.tolist()
        for label in reversed(range(count)):
            if any(rows[label][other] >= 0 for other in kept if other != label):
                kept.remove(label)
        return tuple(kept)
