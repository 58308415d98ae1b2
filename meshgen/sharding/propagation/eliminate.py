"""Find the cheapest labelling of a graph of choices, exactly, by eliminating one variable after the other.

Example, costs in seconds, of variables a, b and c with two labels each:

    tables          (a, b): [[0, 3], [3, 1]]   (b, c): [[2, 0], [0, 2]]   (c,): [0, 5]
    eliminate a     (b,): [0, 1]               cheapest a: [0, 1] for b = 0, 1
    eliminate c     (b,): [2, 0]               cheapest c: [0, 0]
    b               [2, 1]: b = 1, then a = 1 and c = 0; cost 1

A problem has variables, each with a number of labels, and tables: a table gives a cost to every combination of
labels of a few variables. Eliminating a variable joins its tables and keeps, for every combination of its
neighbours' labels, the least cost; walking back gives the labels. The work grows with the width of the graph, not
with its length: a model's layers form a long, narrow graph. Repeated joins are done once: equal tables are one array,
and the same arrays in the same places have the same join. Source: Dechter, Artificial Intelligence 113, 1999.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from meshgen.cost_model.model import DEFAULT
from meshgen.records import dataclass

Array = np.ndarray[Any, np.dtype[np.float64]]


class Table(NamedTuple):
    """Costs over the labels of `variables`, one array axis each, in rising order of variable."""

    variables: tuple[int, ...]
    costs: Array


@dataclass(frozen=True)
class Labelling:
    """Label of every variable, total cost, and whether it is proven cheapest."""

    labels: tuple[int, ...]
    cost: float
    is_exact: bool


def cheapest(sizes: list[int], tables: list[Table]) -> Labelling:
    """The labelling of least total cost; of equals the one with the smallest labels of late eliminated variables.

    Args:
        sizes: number of labels of each variable, at least 1.
        tables: costs in any unit; infinity forbids a combination.

    In a graph that is too wide some variables are first fixed to the label that is best if all others could follow. Then the
    first of them, the most connected, tries each of its labels, with all others guessed anew. Last, other variables are
    fixed to their labels in the best labelling so far, and the guessed ones are free again: the cost can only fall.
    """
    best, fixed = _Elimination(sizes, tables).run()
    if fixed:
        turns = [_Elimination(sizes, tables, given={fixed[0]: label}).run() for label in range(sizes[fixed[0]])]
        best, fixed = min([(best, fixed), *turns], key=lambda turn: turn[0].cost)
    often = [0] * len(sizes)
    for _ in range(DEFAULT.search.refixed_rounds if fixed else 0):
        for variable in fixed:
            often[variable] += 1
        before = best.cost
        found, fixed = _Elimination(sizes, tables, best.labels, often).run()
        best = found if found.cost < before else best
        if best.cost > before * (1 - DEFAULT.search.refixed_gain):
            break
    return best


class _Elimination:
    """One elimination; `kept` has the labels of variables that it may fix, those fixed least often first; `given` are fixed from the start."""

    def __init__(
        self,
        sizes: list[int],
        tables: list[Table],
        kept: tuple[int, ...] = (),
        often: Sequence[int] = (),
        given: Mapping[int, int] = MappingProxyType({}),
    ) -> None:
        self.sizes, self.kept, self.given = sizes, kept, given
        self.often = often or [0] * len(sizes)
        self.tables: list[list[Table]] = [[] for _ in sizes]  # of each variable
        self.neighbours: list[set[int]] = [set() for _ in sizes]
        self.order: list[tuple[int, tuple[int, ...], Any]] = []  # variable, neighbours, best label for theirs
        self.arrays: dict[tuple[tuple[int, ...], bytes], Array] = {}  # equal ones are the same
        self.seen: dict[int, tuple[Array, Array]] = {}  # arrays by identity, and the equal arrays that represent them
        self.joins: dict[tuple[Any, ...], tuple[Any, Array]] = {}  # best labels and least costs of each join
        self.wide = 0  # cells of the wide ones among them
        self.constant = 0.0
        self.fixed: list[int] = []
        for table in tables:
            self._insert(self._of_choices(table))

    def run(self) -> tuple[Labelling, list[int]]:
        """The labelling, and the variables that had to be fixed."""
        limits = DEFAULT.search
        for variable, label in self.given.items():
            self._fix(variable, label)
        left = {variable for variable, size in enumerate(self.sizes) if size > 1} - self.given.keys()
        queue = [(self._width(v), v) for v in sorted(left)]
        heapq.heapify(queue)
        while queue:
            width, variable = heapq.heappop(queue)
            if variable not in left or width != self._width(variable):
                continue  # stale: the variable was eliminated, or has a newer entry
            if width > (limits.table_cells if self.wide < limits.all_wide_cells else limits.wide_cells):
                variable = max(left, key=lambda v: (len(self.neighbours[v]) / (1 + self.often[v]), -v))
                self._fix(variable, self.kept[variable] if self.kept else self._guessed(variable))
            else:
                self._eliminate(variable)
            left.discard(variable)
            for other in sorted(self.neighbours[variable]):
                heapq.heappush(queue, (self._width(other), other))
        labels = [0] * len(self.sizes)
        for variable, others, best in reversed(self.order):
            labels[variable] = int(best[tuple(labels[o] for o in others)])
        return Labelling(tuple(labels), self.constant, not self.fixed), self.fixed

    def _of_choices(self, table: Table) -> Table:
        """The table over the variables that have a choice."""
        kept = tuple(variable for variable in table.variables if self.sizes[variable] > 1)
        return table if kept == table.variables else Table(kept, table.costs.reshape([self.sizes[v] for v in kept]))

    def _width(self, variable: int) -> int:
        cells = self.sizes[variable]
        for other in self.neighbours[variable]:
            cells *= self.sizes[other]
        return cells

    def _insert(self, table: Table) -> None:
        if not table.variables:
            self.constant += float(table.costs)
            return
        if (known := self.seen.get(id(table.costs))) is None:
            digest = blake2b(table.costs.tobytes()).digest()
            known = table.costs, self.arrays.setdefault((table.costs.shape, digest), table.costs)
            self.seen[id(table.costs)] = known
        if known[1] is not table.costs:
            table = Table(table.variables, known[1])
        for variable in table.variables:
            self.tables[variable].append(table)
            self.neighbours[variable].update(o for o in table.variables if o != variable)

    def _eliminate(self, variable: int) -> None:
        variables = tuple(sorted({variable, *self.neighbours[variable]}))
        axis = variables.index(variable)
        places = {v: place for place, v in enumerate(variables)}
        parts = [(id(t.costs), *[places[v] for v in t.variables]) for t in self.tables[variable]]
        key = (axis, *[self.sizes[v] for v in variables], *parts)
        if key not in self.joins:
            costs = self._join(variable, variables)
            best = costs.argmin(axis=axis).astype(np.min_scalar_type(self.sizes[variable]))
            self.joins[key] = best, costs.min(axis=axis)
            self.wide += costs.size if costs.size > DEFAULT.search.wide_cells else 0
        best, least = self.joins[key]
        others = variables[:axis] + variables[axis + 1 :]
        self.order.append((variable, others, best))
        self._drop(variable)
        self._insert(Table(others, least))

    def _fix(self, variable: int, label: int) -> None:
        self.fixed.append(variable)
        self.order.append((variable, (), np.array(label)))
        parts = self.tables[variable]
        self._drop(variable)
        for table in parts:
            others = tuple(v for v in table.variables if v != variable)
            self._insert(Table(others, np.take(table.costs, label, axis=table.variables.index(variable))))

    def _guessed(self, variable: int) -> int:
        """The label that is best if all others could follow it."""
        bound = np.zeros(self.sizes[variable])
        for table in self.tables[variable]:
            rest = tuple(i for i, v in enumerate(table.variables) if v != variable)
            bound = bound + np.min(table.costs, axis=rest)
        return int(np.argmin(bound))

    def _join(self, variable: int, variables: tuple[int, ...]) -> Array:
        """The sum of the variable's tables over all their variables."""
        total = np.zeros(tuple(self.sizes[v] for v in variables))
        for table in self.tables[variable]:
            shape = tuple(self.sizes[v] if v in table.variables else 1 for v in variables)
            total = total + table.costs.reshape(shape)
        return total

    def _drop(self, variable: int) -> None:
        gone = {id(table) for table in self.tables[variable]}
        for other in self.neighbours[variable]:
            self.tables[other] = [t for t in self.tables[other] if id(t) not in gone]
            self.neighbours[other] = {v for t in self.tables[other] for v in t.variables if v != other}
        self.tables[variable] = []
