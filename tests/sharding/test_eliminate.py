"""Variable elimination compared with an exhaustive search over all labelings."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from meshgen.sharding.propagation import eliminate
from meshgen.sharding.propagation.eliminate import Table, cheapest, least_cost
from meshgen.sharding.propagation.network import Network
from tests.cost_models import use


def random_problem(rng: np.random.Generator) -> tuple[list[int], list[Table]]:
    sizes = [int(s) for s in rng.integers(1, 4, rng.integers(1, 7))]
    tables: list[Table] = []
    for _ in range(int(rng.integers(0, 9))):
        chosen = rng.choice(len(sizes), min(len(sizes), int(rng.integers(1, 4))), replace=False)
        variables = tuple(sorted(int(v) for v in chosen))
        tables.append(Table(variables, rng.integers(0, 9, tuple(sizes[v] for v in variables)).astype(float)))
    return sizes, tables


def cost(labels: tuple[int, ...], tables: list[Table]) -> float:
    return sum(float(t.costs[tuple(labels[v] for v in t.variables)]) for t in tables)


def test_elimination_finds_cheapest_labeling() -> None:
    rng = np.random.default_rng(1)
    for _ in range(300):
        sizes, tables = random_problem(rng)
        solution = cheapest(sizes, tables)
        best = min(cost(labels, tables) for labels in itertools.product(*map(range, sizes)))
        assert solution.is_exact
        assert cost(solution.labels, tables) == solution.cost == best


def test_elimination_labels_wide_graph_approximately(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(2)
    tables = [Table((i, j), rng.random((3, 3))) for i in range(9) for j in range(i + 1, 9)]
    exact = cheapest([3] * 9, tables)
    use(monkeypatch, {"search.table_cells": 81}, eliminate)
    rough = cheapest([3] * 9, tables)
    assert exact.is_exact and not rough.is_exact
    assert abs(cost(rough.labels, tables) - rough.cost) < 1e-9
    assert exact.cost <= rough.cost + 1e-9


def test_elimination_refines_guesses_in_wide_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    """Over 12 random graphs, refinement never costs more than the first guess and finds the optimum more often."""
    rng = np.random.default_rng(3)
    guessed, refined = 0, 0
    for _ in range(12):
        tables = [Table((i, j), rng.random((3, 3))) for i in range(9) for j in range(i + 1, 9)]
        use(monkeypatch, {}, eliminate)
        exact = cheapest([3] * 9, tables)
        use(monkeypatch, {"search.table_cells": 243}, eliminate)
        better = cheapest([3] * 9, tables)
        use(monkeypatch, {"search.table_cells": 243, "search.refixed_rounds": 0}, eliminate)
        guess = cheapest([3] * 9, tables)
        assert exact.cost - 1e-9 <= better.cost <= guess.cost
        assert abs(cost(better.labels, tables) - better.cost) < 1e-9
        guessed += guess.cost < exact.cost + 1e-9
        refined += better.cost < exact.cost + 1e-9
    assert refined > guessed + 2


def test_least_cost_bounds_cheapest_labeling(monkeypatch: pytest.MonkeyPatch) -> None:
    """Over 12 random wide graphs, the bound never exceeds the optimum, and often exceeds the sum of table minima."""
    rng, tight = np.random.default_rng(4), 0
    for _ in range(12):
        tables = [Table((i, j), rng.random((3, 3))) for i in range(9) for j in range(i + 1, 9)]
        use(monkeypatch, {}, eliminate)
        exact = cheapest([3] * 9, tables)
        use(monkeypatch, {"search.narrow_cells": 81, "search.table_cells": 243}, eliminate)
        bound = least_cost([3] * 9, tables)
        assert bound <= exact.cost + 1e-9
        tight += bound > sum(float(table.costs.min()) for table in tables)
    assert tight > 6


def test_elimination_joins_equal_components_once() -> None:
    """Check that ten equal disjoint graphs need no more joins of cost tables than one graph."""
    rng = np.random.default_rng(5)
    one = {(i, j): rng.random((3, 3)) for i in range(6) for j in range(i + 1, 6)}

    def copies(count: int) -> Network:
        tables = [Table((6 * n + i, 6 * n + j), costs) for n in range(count) for (i, j), costs in one.items()]
        network = Network([3] * (6 * count), tables)
        network.reduce(cells=3**6)
        assert not network.left
        return network

    assert copies(10).joins == copies(1).joins
    assert copies(10).chosen() == 10 * copies(1).chosen()
    assert copies(10).constant == pytest.approx(10 * copies(1).constant)


def test_elimination_drops_forbidden_labels() -> None:
    inf = np.inf
    tables = [Table((0, 1), np.array([[inf, inf], [0.0, 1.0]])), Table((0,), np.array([0.0, 5.0]))]
    solution = cheapest([2, 2], tables)
    assert (solution.labels, solution.cost, solution.is_exact) == ((1, 0), 5.0, True)
