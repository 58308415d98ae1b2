"""Find the cheapest labelling of a network of costs: exactly, or where it is too wide a good one with a bound.

Example on x=4, in microseconds: a dot split over its rows or not (labels r, w), the sum of its rows (r, w), and the edge between
them, an all-gather of 5 where the labels differ:

    (dot,): [10, 40]   (sum,): [2, 3]   (dot, sum): [[0, 5], [5, 0]]      cheapest: r, r, cost 12

The steps that lose nothing (`network.py`) leave of most programs no variable, and of others a core of a few per cent. A core that is too wide has
variables fixed, the most connected first, to the label of an earlier labelling of a similar network, or to the one that is best if
all others could follow; then others are fixed to their labels in the best labelling so far, and the guessed ones are free again:
the cost can only fall.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from meshgen.cost_model.model import DEFAULT
from meshgen.sharding.propagation.network import Network
from meshgen.sharding.propagation.network import Table as Table


class Labelling(NamedTuple):
    """Label of every variable, total cost, and whether it is proven cheapest: no variable was fixed on the way."""

    labels: tuple[int, ...]
    cost: float
    is_exact: bool


def cheapest(sizes: list[int], tables: list[Table], guess: Callable[[], Sequence[int]] = tuple) -> Labelling:
    """The labelling of least total cost; of equals one with small labels, the same one in every order of the tables.

    Args:
        sizes: number of labels of each variable, at least 1.
        tables: costs in any unit; infinity forbids a combination.
        guess: asked where the network is too wide to be solved exactly: a labelling to begin with, -1 for variables without a guess.
    """
    network = Network(sizes, tables)
    network.reduce(DEFAULT.search.narrow_cells)
    network.reduce(DEFAULT.search.table_cells)
    return _Core(network).cheapest(guess() if network.left else ())


def least_cost(sizes: list[int], tables: list[Table]) -> float:
    """A cost that no labelling is below: that of the cheapest one where no variable has to be relaxed."""
    network = Network(sizes, tables)
    while True:
        network.reduce(DEFAULT.search.table_cells)
        if not (left := network.left):
            return network.constant
        network.relax(min(left, key=lambda v: (network.width(v), v)), DEFAULT.search.table_cells)


class _Found(NamedTuple):
    """A labelling of the core, and the variables that were fixed for it."""

    labels: tuple[int, ...]
    cost: float
    fixed: tuple[int, ...]


class _Core:
    """What is left of a network, solved several times with other variables fixed."""

    def __init__(self, network: Network) -> None:
        self.network, self.steps = network, network.steps
        self.often = dict.fromkeys(network.left, 0)

    def cheapest(self, guess: Sequence[int]) -> Labelling:
        best = self._attempt(guess)
        if not best.fixed:
            return Labelling(self._whole(best), best.cost, is_exact=True)
        found, limits = best, DEFAULT.search
        for _ in range(limits.refixed_rounds):
            for variable in found.fixed:
                self.often[variable] += 1
            before, found = best, self._attempt(best.labels)
            best = found if found.cost < best.cost else best
            if best.cost >= before.cost * (1 - limits.refixed_gain):
                break
        return Labelling(self._whole(best), best.cost, is_exact=False)

    def _whole(self, found: _Found) -> tuple[int, ...]:
        """The labels of all variables, of a labelling of the core."""
        return self.network.completed(found.labels)

    def _attempt(self, kept: Sequence[int] = ()) -> _Found:
        """Solve the core; variables that have to be fixed take their label of `kept`, those fixed least often first."""
        network, fixed = self.network.copy(), list[int]()
        while left := network.left:
            variable = max(left, key=lambda v: (network.degree(v) / (1 + self.often[v]), -v))
            labels = network.labels[variable]
            is_kept = bool(kept) and kept[variable] in labels
            network.fix(variable, kept[variable] if is_kept else labels[int(network.least(variable).argmin())])
            fixed.append(variable)
            network.reduce(DEFAULT.search.table_cells)
        return _Found(network.chosen(self.steps), network.constant, tuple(fixed))
