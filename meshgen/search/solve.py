"""Solve a labelling problem under a cap on memory by integer programming: exact reductions first, HiGHS for what they leave.

Example: input `%w` whole (8 GB) or split (2 GB), a dot that reads it whole; memory of 4 GB

    y00 + y01 = w0   y10 + y11 = w1      a cell of the table (w, dot) is taken if both of its labels are
    y00 + y10 = d0   y01 + y11 = d1
    8 w0 + 2 w1 <= 4                     so `%w` is split, and gathered

Variables without memory that have few neighbours are eliminated before (`network.py`); what is left becomes a mixed integer
program with a 0-1 variable for each label and a continuous one for each cell of a table whose rows differ. Mostly its relaxation
is integral; else memory has the price that it gives, which finds a good solution within the cap, and HiGHS looks for a better one.
The bound proves how far from the best the result can be. Source: Huangfu and Hall, Mathematical Programming Computation 10, 2018 (HiGHS).
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

PRICES, DEARER = 12, 1.1  # prices of memory that are tried, each so much above the one before
INTEGER_SHARE = 0.25  # of the time that is left, for an integer program whose relaxation is not integral
RELAXED_SECONDS = 60.0  # that a linear program may take at most, where a solution is needed
LEAST_SECONDS = 1.0  # of an integer program, whatever time is left
SCALE = 1e6  # seconds to microseconds: what the solver's tolerances are made for


@dataclass(frozen=True)
class Solution:
    """A label of every variable, its cost in seconds, and a cost that no labelling within the cap is below."""

    labels: tuple[int, ...]
    seconds: float
    least_seconds: float

    @property
    def gap(self) -> float:
        """By what share of its cost it may be above the best; 0 if it is proven the best."""
        gap = 1 - self.least_seconds / self.seconds if self.seconds > 0 else 0.0
        return gap if gap > 1e-6 else 0.0


def solve(
    sizes: Sequence[int], tables: Sequence[Table], memory: Mapping[int, Array], cap: float | None, seconds: float,
    *, relaxed_only: bool = False,
) -> Solution | None:  # fmt: skip
    """The cheapest labelling whose memory is within `cap` bytes; None if there is none, or none was found in time. Without a cap one is.

    Args:
        memory: bytes by label, of the variables that take any.
        cap: None if memory does not matter.
        seconds: time limit; the first linear program may take longer. Without it elimination finds a labelling, which nothing proves to be the best.
        relaxed_only: give up without a cap where the linear program is not integral.
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
    found, least = program.integral(max((deadline - time.monotonic()) * INTEGER_SHARE, LEAST_SECONDS))
    least = max(least, relaxed.least)
    candidates = [program.solution(found, least)] if found is not None else []
    if priced is not None:
        candidates.append(Solution(priced, cost_of(tables, priced), network.constant + least))
    return min(candidates, key=lambda each: each.seconds, default=None)


def cost_of(tables: Sequence[Table], labels: Sequence[int]) -> float:
    """The cost of a labelling."""
    return math.fsum(float(costs[tuple(labels[v] for v in scope)]) for scope, costs in tables)


def bytes_of(memory: Mapping[int, Array], labels: Sequence[int]) -> float:
    """The memory that a labelling takes."""
    return math.fsum(float(bytes_[labels[variable]]) for variable, bytes_ in memory.items())


def _eliminated(sizes: Sequence[int], tables: Sequence[Table]) -> Solution:
    """A labelling by elimination, where no linear program was solved in time."""
    found = cheapest([*sizes], [*tables])
    return Solution(found.labels, found.cost, least_cost([*sizes], [*tables]))


def _priced(
    sizes: Sequence[int], tables: Sequence[Table], memory: Mapping[int, Array], cap: float, price: float, deadline: float
) -> tuple[int, ...] | None:  # fmt: skip
    """A labelling within the cap: the cheapest where a byte costs what the relaxation says, or more; those programs are mostly integral."""
    for _ in range(PRICES):
        price *= DEARER
        costs = [Table((variable,), price * bytes_) for variable, bytes_ in memory.items()]
        found = solve(
            sizes, [*tables, *costs], memory, None, max(deadline - time.monotonic(), LEAST_SECONDS), relaxed_only=True
        )
        if found and bytes_of(memory, found.labels) <= cap:
            return found.labels
    return None


@dataclass(frozen=True)
class _Relaxed:
    """What the linear program says: a cost that nothing is below, the labels if they are integral, seconds that a byte of the cap is worth."""

    least: float
    labels: dict[int, int] | None
    price: float


class _Program:
    """The mixed integer program of a network that is left."""

    def __init__(self, network: Network, memory: Mapping[int, Array], cap: float | None) -> None:
        self.network, self.memory, self.cap = network, memory, cap
        self.left = sorted(network.left)
        self.costs: list[float] = []
        self.whole: list[int] = []
        self.rows: list[tuple[list[int], list[float], float]] = []  # columns, factors, right-hand side
        self.columns = {variable: self._columns(len(network.labels[variable]), 1) for variable in self.left}
        for columns in self.columns.values():
            self.rows.append((columns, [1.0] * len(columns), 1.0))
        for scope, costs in network.tables():
            self._add_table(scope, costs)

    @property
    def least_bytes(self) -> float:
        """Bytes of variables that have one label left."""
        return sum(float(self.memory[v][self.network.labels[v][0]]) for v in self.memory if v not in self.columns)

    def solution(self, labels: Mapping[int, int], least: float) -> Solution:
        """With these labels of what is left, and a bound in seconds for it."""
        network = self.network.copy()
        least += network.constant
        for variable, label in labels.items():
            network.fix(variable, label)
        return Solution(network.chosen(), network.constant, min(least, network.constant))

    def relaxed(self, seconds: float) -> _Relaxed | None:
        """The linear program: without a cap its solution is mostly integral. None if nothing is within the cap, or it takes too long."""
        if not self.left:
            return None if self.cap is not None and self.least_bytes > self.cap else _Relaxed(0.0, {}, 0.0)
        equal, sides = self._equalities()
        limit = self._memory_row()
        upper = {"A_ub": limit[0], "b_ub": limit[1]} if limit else {}
        result: Any = linprog(
            self.costs, **upper, A_eq=equal, b_eq=sides, bounds=(0, 1), method="highs-ds",
            options={"time_limit": seconds, "presolve": False},  # which takes as long as solving, and removes little
        )  # fmt: skip
        if result.status != 0:
            return None
        price = -float(result.ineqlin.marginals[0]) / SCALE / self.cap if limit and self.cap else 0.0
        known = self._whole_labels(result.x)
        return _Relaxed(float(result.fun) / SCALE, known if len(known) == len(self.columns) else None, price)

    def integral(self, seconds: float) -> tuple[dict[int, int] | None, float]:
        """The integer program: the labels, if any were found, and a cost in seconds that nothing is below."""
        equal, sides = self._equalities()
        limits = [LinearConstraint(equal, cast("Any", sides), cast("Any", sides))]
        if limit := self._memory_row():
            limits.append(LinearConstraint(limit[0], -np.inf, cast("Any", limit[1])))
        options = {"time_limit": seconds, "mip_rel_gap": 0.0}
        result: Any = milp(
            np.array(self.costs), integrality=np.array(self.whole), bounds=Bounds(0, 1), constraints=limits, options=options
        )  # fmt: skip
        least = -math.inf if result.mip_dual_bound is None else float(result.mip_dual_bound) / SCALE
        return None if result.x is None else self._labels(result.x), least

    def _whole_labels(self, values: Array) -> dict[int, int]:
        """The variables whose label is decided, with it."""
        labels = self._labels(values)
        return {v: label for v, label in labels.items() if np.max(values[self.columns[v]]) > 1 - 1e-6}

    def _labels(self, values: Array) -> dict[int, int]:
        return {v: self.network.labels[v][int(np.argmax(values[columns]))] for v, columns in self.columns.items()}

    def _columns(self, count: int, whole: int) -> list[int]:
        """New columns, integers or not."""
        first = len(self.costs)
        self.costs += [0.0] * count
        self.whole += [whole] * count
        return list(range(first, first + count))

    def _add_table(self, scope: Sequence[int], costs: Array) -> None:
        """A column per cell, labels with equal rows taken together; cells that are forbidden have none."""
        if len(scope) == 1:
            for column, cost in zip(self.columns[scope[0]], costs, strict=True):
                self.costs[column] += float(cost) * SCALE
            return
        groups: list[Any] = []
        for axis in range(costs.ndim):
            costs, group = _without_repeated_slices(costs, axis)
            groups.append(group)
        places = np.argwhere(costs < DEFAULT.propagation.use_seconds)
        columns = np.array(self._columns(len(places), 0), int)
        self.costs[len(self.costs) - len(places) :] = list(costs[tuple(places.T)] * SCALE)
        for axis, (variable, group) in enumerate(zip(scope, groups, strict=True)):
            own = np.array(self.columns[variable])
            for row in range(costs.shape[axis]):
                taken, labels = columns[places[:, axis] == row].tolist(), own[group == row].tolist()
                self.rows.append(([*taken, *labels], [1.0] * len(taken) + [-1.0] * len(labels), 0.0))

    def _equalities(self) -> tuple[Any, Array]:
        numbers = [number for number, (columns, _, _) in enumerate(self.rows) for _ in columns]
        columns = [column for row in self.rows for column in row[0]]
        factors = [factor for row in self.rows for factor in row[1]]
        matrix = sparse.csr_array((factors, (numbers, columns)), shape=(len(self.rows), len(self.costs)))
        sides = np.array([side for _, _, side in self.rows])
        return matrix, sides

    def _memory_row(self) -> tuple[Array, Array] | None:
        """In shares of the cap, so that the solver's tolerances fit."""
        if self.cap is None:
            return None
        row = np.zeros((1, len(self.costs)))
        for variable, bytes_ in self.memory.items():
            for column, label in zip(self.columns.get(variable, ()), self.network.labels[variable], strict=False):
                row[0, column] = bytes_[label] / self.cap
        return row, np.array([1 - self.least_bytes / self.cap])


def _without_repeated_slices(costs: Array, axis: int) -> tuple[Array, Any]:
    """The array without repeated slices along an axis, and the slice that stands for each."""
    rows = np.moveaxis(costs, axis, 0).reshape(costs.shape[axis], -1)
    _, first, group = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    return np.take(costs, first, axis), group.reshape(-1)
