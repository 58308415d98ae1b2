"""Variable elimination against trying all labellings."""

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


def test_finds_the_cheapest_labelling() -> None:
    rng = np.random.default_rng(1)
    for _ in range(300):
        sizes, tables = random_problem(rng)
        found = cheapest(sizes, tables)
        best = min(cost(labels, tables) for labels in itertools.product(*map(range, sizes)))
        assert found.is_exact
        assert cost(found.labels, tables) == found.cost == best


def test_a_wide_graph_is_still_labelled(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(2)
    tables = [Table((i, j), rng.random((3, 3))) for i in range(9) for j in range(i + 1, 9)]
    exact = cheapest([3] * 9, tables)
    use(monkeypatch, {"search.table_cells": 81}, eliminate)
    rough = cheapest([3] * 9, tables)
    assert exact.is_exact and not rough.is_exact
    assert abs(cost(rough.labels, tables) - rough.cost) < 1e-9
    assert exact.cost <= rough.cost + 1e-9


def test_what_was_guessed_in_a_wide_graph_is_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """On 12 random graphs: never dearer than the first guess, and the cheapest one more often."""
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


def test_the_bound_is_below_every_labelling(monkeypatch: pytest.MonkeyPatch) -> None:
    """On random graphs that are too wide: never above the cheapest labelling, and often above what each table costs at least."""
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


def test_parts_that_are_alike_are_joined_once() -> None:
    """Ten equal graphs side by side take as many joins as one."""
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


def test_forbidden_labels_are_dropped() -> None:
    inf = np.inf
    tables = [Table((0, 1), np.array([[inf, inf], [0.0, 1.0]])), Table((0,), np.array([0.0, 5.0]))]
    found = cheapest([2, 2], tables)
    assert (found.labels, found.cost, found.is_exact) == ((1, 0), 5.0, True)
