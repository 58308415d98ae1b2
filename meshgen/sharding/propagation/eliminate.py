"""Find the cheapest labeling of a cost network: exactly, or a good labeling with a bound if the network is too wide.

Example on x=4, in microseconds: a dot split over its rows or not (labels r, w), the sum of its rows (r, w), and the
edge between them, an all-gather of 5 where the labels differ:

    (dot,): [10, 40]   (sum,): [2, 3]   (dot, sum): [[0, 5], [5, 0]]      cheapest: r, r, cost 12

The lossless steps (`network.py`) solve most programs completely, and leave a core of a few percent of the variables in
others. A core that is too wide has variables fixed, the most connected first. Each is fixed to its label in the
solution of a similar network, or to the label that would be best if all others could follow. In later rounds other
variables are fixed to their labels in the best labeling so far, and the earlier ones are free again, so the cost can
only fall.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from meshgen.cost_model.model import DEFAULT
from meshgen.sharding.propagation.network import Network
from meshgen.sharding.propagation.network import Table as Table


class Labeling(NamedTuple):
    """A label for every variable, the total cost, and whether the cost is proven minimal (no variable was fixed)."""

    labels: tuple[int, ...]
    cost: float
    is_exact: bool


def cheapest(sizes: list[int], tables: list[Table], guess: Callable[[], Sequence[int]] = tuple) -> Labeling:
    """Return the labeling of least total cost. Ties go to small labels, whatever the order of the tables.

    Args:
        sizes: number of labels of each variable, at least 1.
        tables: costs in any unit; infinity forbids a combination.
        guess: returns an initial labeling, with -1 for variables without a guess. Called only if the network is too
        wide to solve exactly.
    """
    network = Network(sizes, tables)
    network.reduce(DEFAULT.search.narrow_cells)
    network.reduce(DEFAULT.search.table_cells)
    return _Core(network).cheapest(guess() if network.left else ())


def least_cost(sizes: list[int], tables: list[Table]) -> float:
    """Return a lower bound on the cost of every labeling. The bound is exact if no variable has to be relaxed."""
    network = Network(sizes, tables)
    while True:
        network.reduce(DEFAULT.search.table_cells)
        if not (left := network.left):
            return network.constant
        network.relax(min(left, key=lambda v: (network.width(v), v)), DEFAULT.search.table_cells)


class _CoreLabeling(NamedTuple):
    """A labeling of the core, with its cost and the variables that were fixed to find it."""

    labels: tuple[int, ...]
    cost: float
    fixed: tuple[int, ...]


class _Core:
    """The core of a network: the variables that lossless steps leave. It is solved several times with other variables
    fixed.
    """

    def __init__(self, network: Network) -> None:
        self.network, self.steps = network, network.steps
        self.often = dict.fromkeys(network.left, 0)

    def cheapest(self, guess: Sequence[int]) -> Labeling:
        best = self._attempt(guess)
        if not best.fixed:
            return Labeling(self._complete(best), best.cost, is_exact=True)
        attempt, limits = best, DEFAULT.search
        for _ in range(limits.refixed_rounds):
            for variable in attempt.fixed:
                self.often[variable] += 1
            previous, attempt = best, self._attempt(best.labels)
            best = attempt if attempt.cost < best.cost else best
            if best.cost >= previous.cost * (1 - limits.refixed_gain):
                break
        return Labeling(self._complete(best), best.cost, is_exact=False)

    def _complete(self, core_labeling: _CoreLabeling) -> tuple[int, ...]:
        """Return the labels of all variables, given a labeling of the core."""
        return self.network.completed(core_labeling.labels)

    def _attempt(self, initial_labels: Sequence[int] = ()) -> _CoreLabeling:
        """Solve the core by fixing variables until lossless steps solve the rest, variables with many neighbors first.

        Variables that earlier attempts fixed come later. A fixed variable takes its label in `initial_labels`, or its
        cheapest label.
        """
        network, fixed = self.network.copy(), list[int]()
        while left := network.left:
            variable = max(left, key=lambda v: (network.degree(v) / (1 + self.often[v]), -v))
            labels = network.labels[variable]
            has_initial_label = bool(initial_labels) and initial_labels[variable] in labels
            network.fix(
                variable,
                initial_labels[variable] if has_initial_label else labels[int(network.least(variable).argmin())],
            )
            fixed.append(variable)
            network.reduce(DEFAULT.search.table_cells)
        return _CoreLabeling(network.chosen(self.steps), network.constant, tuple(fixed))
