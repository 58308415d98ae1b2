"""Solve a labeling problem under a memory cap by integer programming: exact reductions first, HiGHS for the rest.

Example: input `%w` replicated (8 GB) or split (2 GB), a dot that reads it replicated; memory of 4 GB

    y00 + y01 = w0   y10 + y11 = w1      a cell of the table (w, dot) is chosen if both of its labels are
    y00 + y10 = d0   y01 + y11 = d1
    8 w0 + 2 w1 <= 4                     so `%w` is split, and gathered

Variables without memory that have few neighbors are eliminated first (`network.py`). The rest becomes a mixed integer
program with a 0-1 variable for each label, and a continuous variable for each cell of a table after equal slices are
merged. Usually its relaxation is integral. If not, the dual of the memory constraint gives a price per byte, which
leads to a good solution within the cap, and HiGHS looks for a better one. The bound proves how far from the optimum the
result can be. Source: Huangfu and Hall, Mathematical Programming Computation 10, 2018 (HiGHS).
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from scipy import sparse
from scipy.optimize import Bounds, LinearConstraint, linprog, milp

from meshgen.cost_model.model import DEFAULT
from meshgen.sharding.propagation.eliminate import cheapest, least_cost
from meshgen.sharding.propagation.network import Array, Network, Table

# Number of memory prices to try, and the ratio of each price to the previous one (chosen: up to 3 times the dual
# price).
PRICE_COUNT, PRICE_RATIO = 12, 1.1
# Fraction of the remaining time for an integer program whose relaxation is not integral (chosen: planning needs the
# rest).
INTEGER_SHARE = 0.25
# Time limit in seconds of a linear program that must be solved (chosen: after a timeout, elimination is the only
# alternative).
RELAXED_SECONDS = 60.0
LEAST_SECONDS = 1.0  # Minimal time limit in seconds of an integer program (chosen: a last attempt at the deadline).
SCALE = 1e6  # Seconds to microseconds: the solver's absolute tolerances of 1e-7 suit such costs.


@dataclass(frozen=True)
class Solution:
    """A label of every variable, its cost in seconds, and a lower bound on the cost of any labeling within the cap."""

    labels: tuple[int, ...]
    seconds: float
    least_seconds: float

    @property
    def gap(self) -> float:
        """Return the fraction of the solution's cost by which this cost may exceed the optimum, or 0 if it is proven
        optimal.
        """
        gap = 1 - self.least_seconds / self.seconds if self.seconds > 0 else 0.0
        return gap if gap > 1e-6 else 0.0


def solve(
    sizes: Sequence[int], tables: Sequence[Table], memory: Mapping[int, Array], cap: float | None, seconds: float,
    *, relaxed_only: bool = False,
) -> Solution | None:  # fmt: skip
    """Return the cheapest labeling whose memory is within `cap` bytes, or None if none exists or is found in time.

    Without a cap a labeling is always found, except with `relaxed_only`.

    Args:
        memory: bytes by label, for the variables that take memory.
        cap: None if memory does not matter.
        seconds: time limit; the first linear program may exceed it. After a timeout, elimination finds a labeling
        without proof.
        relaxed_only: without a cap, return None if the linear program is not integral.
    """
    deadline = time.monotonic() + seconds
    network = Network(sizes, tables)
    network.reduce(DEFAULT.search.core_cells, frozenset(() if cap is None else memory))
    program = _Program(network, {} if cap is None else memory, cap)
    relaxed = program.relaxed(seconds if relaxed_only else max(seconds, RELAXED_SECONDS))
    if relaxed is None:
        return None if relaxed_only or cap is not None else _eliminated(sizes, tables)
    if relaxed.labels is not None:
        return program.solution(relaxed.labels, relaxed.least)
    if relaxed_only and cap is None:
        return None
    priced = _priced(sizes, tables, memory, cap, relaxed.price, deadline) if cap is not None else None
    if relaxed_only:
        return None if priced is None else Solution(priced, cost_of(tables, priced), network.constant + relaxed.least)
    integral_labels, lower_bound = program.integral(max((deadline - time.monotonic()) * INTEGER_SHARE, LEAST_SECONDS))
    lower_bound = max(lower_bound, relaxed.least)
    candidates = [program.solution(integral_labels, lower_bound)] if integral_labels is not None else []
    if priced is not None:
        candidates.append(Solution(priced, cost_of(tables, priced), network.constant + lower_bound))
    return min(candidates, key=lambda candidate: candidate.seconds, default=None)


def cost_of(tables: Sequence[Table], labels: Sequence[int]) -> float:
    """Return the cost of a labeling."""
    return math.fsum(float(costs[tuple(labels[v] for v in scope)]) for scope, costs in tables)


def bytes_of(memory: Mapping[int, Array], labels: Sequence[int]) -> float:
    """Return the memory that a labeling takes."""
    return math.fsum(float(bytes_[labels[variable]]) for variable, bytes_ in memory.items())


def _eliminated(sizes: Sequence[int], tables: Sequence[Table]) -> Solution:
    """Find a labeling by elimination, after the linear program ran out of time."""
    labeling = cheapest([*sizes], [*tables])
    return Solution(labeling.labels, labeling.cost, least_cost([*sizes], [*tables]))


def _priced(
    sizes: Sequence[int], tables: Sequence[Table], memory: Mapping[int, Array], cap: float, price: float, deadline: float
) -> tuple[int, ...] | None:  # fmt: skip
    """Return a labeling within the cap, by minimizing cost plus a price per byte that rises from the dual price.

    The integer programs with a price have no memory constraint, so their relaxations are usually integral.
    """
    for _ in range(PRICE_COUNT):
        price *= PRICE_RATIO
        costs = [Table((variable,), price * bytes_) for variable, bytes_ in memory.items()]
        solution = solve(
            sizes, [*tables, *costs], memory, None, max(deadline - time.monotonic(), LEAST_SECONDS), relaxed_only=True
        )
        if solution and bytes_of(memory, solution.labels) <= cap:
            return solution.labels
    return None


@dataclass(frozen=True)
class _Relaxed:
    """The result of the linear program.

    It has a lower bound on the cost, the labels if they are integral, and the seconds that one more byte of cap would
    save.
    """

    least: float
    labels: dict[int, int] | None
    price: float


class _Program:
    """The mixed integer program of a reduced network."""

    def __init__(self, network: Network, memory: Mapping[int, Array], cap: float | None) -> None:
        self.network, self.memory, self.cap = network, memory, cap
        self.left = sorted(network.left)
        self.costs: list[float] = []
        self.whole: list[int] = []
        self.rows: list[
            tuple[list[int], list[float], float]
        ] = []  # constraints, as (columns, coefficients, right-hand side)
        self.columns = {variable: self._columns(len(network.labels[variable]), 1) for variable in self.left}
        for columns in self.columns.values():
            self.rows.append((columns, [1.0] * len(columns), 1.0))
        for scope, costs in network.tables():
            self._add_table(scope, costs)

    @property
    def least_bytes(self) -> float:
        """Return the total bytes of the variables whose labels are fixed: each has only one label left."""
        return sum(float(self.memory[v][self.network.labels[v][0]]) for v in self.memory if v not in self.columns)

    def solution(self, labels: Mapping[int, int], lower_bound: float) -> Solution:
        """Complete the labels of the remaining variables to a solution, which gets the lower bound of this program."""
        network = self.network.copy()
        lower_bound += network.constant
        for variable, label in labels.items():
            network.fix(variable, label)
        return Solution(network.chosen(), network.constant, min(lower_bound, network.constant))

    def relaxed(self, seconds: float) -> _Relaxed | None:
        """Solve the linear program. Returns None if no labeling is within the cap, or the time limit is exceeded."""
        if not self.left:
            return None if self.cap is not None and self.least_bytes > self.cap else _Relaxed(0.0, {}, 0.0)
        equalities, right_sides = self._equalities()
        limit = self._memory_row()
        upper = {"A_ub": limit[0], "b_ub": limit[1]} if limit else {}
        result: Any = linprog(
            self.costs, **upper, A_eq=equalities, b_eq=right_sides, bounds=(0, 1), method="highs-ds",
            # Presolve takes as long as solving, and removes little.
            options={"time_limit": seconds, "presolve": False},
        )  # fmt: skip
        if result.status != 0:
            return None
        price = -float(result.ineqlin.marginals[0]) / SCALE / self.cap if limit and self.cap else 0.0
        integral_labels = self._integral_labels(result.x)
        return _Relaxed(
            float(result.fun) / SCALE, integral_labels if len(integral_labels) == len(self.columns) else None, price
        )

    def integral(self, seconds: float) -> tuple[dict[int, int] | None, float]:
        """Solve the integer program. Returns the labels, or None if none were found, and a lower bound in seconds."""
        equalities, right_sides = self._equalities()
        limits = [LinearConstraint(equalities, cast("Any", right_sides), cast("Any", right_sides))]
        if limit := self._memory_row():
            limits.append(LinearConstraint(limit[0], -np.inf, cast("Any", limit[1])))
        options = {"time_limit": seconds, "mip_rel_gap": 0.0}
        result: Any = milp(
            np.array(self.costs), integrality=np.array(self.whole), bounds=Bounds(0, 1), constraints=limits, options=options
        )  # fmt: skip
        lower_bound = -math.inf if result.mip_dual_bound is None else float(result.mip_dual_bound) / SCALE
        return None if result.x is None else self._labels(result.x), lower_bound

    def _integral_labels(self, values: Array) -> dict[int, int]:
        """Return the label of each variable for which the linear program's solution `values` is integral."""
        labels = self._labels(values)
        return {v: label for v, label in labels.items() if np.max(values[self.columns[v]]) > 1 - 1e-6}

    def _labels(self, values: Array) -> dict[int, int]:
        return {v: self.network.labels[v][int(np.argmax(values[columns]))] for v, columns in self.columns.items()}

    def _columns(self, count: int, is_integer: int) -> list[int]:
        """Append new columns, integer if `is_integer` is 1."""
        start = len(self.costs)
        self.costs += [0.0] * count
        self.whole += [is_integer] * count
        return list(range(start, start + count))

    def _add_table(self, scope: Sequence[int], costs: Array) -> None:
        """Add a column per allowed cell of a table, after merging labels with equal slices."""
        if len(scope) == 1:
            for column, cost in zip(self.columns[scope[0]], costs, strict=True):
                self.costs[column] += float(cost) * SCALE
            return
        groups: list[Any] = []
        for axis in range(costs.ndim):
            costs, group = _without_repeated_slices(costs, axis)
            groups.append(group)
        cells = np.argwhere(costs < DEFAULT.propagation.use_seconds)
        columns = np.array(self._columns(len(cells), 0), int)
        self.costs[len(self.costs) - len(cells) :] = list(costs[tuple(cells.T)] * SCALE)
        for axis, (variable, group) in enumerate(zip(scope, groups, strict=True)):
            label_columns = np.array(self.columns[variable])
            for row in range(costs.shape[axis]):
                cell_columns, labels = columns[cells[:, axis] == row].tolist(), label_columns[group == row].tolist()
                self.rows.append(([*cell_columns, *labels], [1.0] * len(cell_columns) + [-1.0] * len(labels), 0.0))

    def _equalities(self) -> tuple[Any, Array]:
        row_indices = [index for index, (columns, _, _) in enumerate(self.rows) for _ in columns]
        columns = [column for row in self.rows for column in row[0]]
        coefficients = [factor for row in self.rows for factor in row[1]]
        matrix = sparse.csr_array((coefficients, (row_indices, columns)), shape=(len(self.rows), len(self.costs)))
        right_sides = np.array([side for _, _, side in self.rows])
        return matrix, right_sides

    def _memory_row(self) -> tuple[Array, Array] | None:
        """Return the memory constraint in fractions of the cap, so that it suits the solver's tolerances."""
        if self.cap is None:
            return None
        row = np.zeros((1, len(self.costs)))
        for variable, bytes_ in self.memory.items():
            for column, label in zip(self.columns.get(variable, ()), self.network.labels[variable], strict=False):
                row[0, column] = bytes_[label] / self.cap
        return row, np.array([1 - self.least_bytes / self.cap])


def _without_repeated_slices(costs: Array, axis: int) -> tuple[Array, Any]:
    """Return the array without repeated slices along an axis, and for each original slice its index in the result."""
    rows = np.moveaxis(costs, axis, 0).reshape(costs.shape[axis], -1)
    _, first, group = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    return np.take(costs, first, axis), group.reshape(-1)
