"""Variable elimination against trying all labellings."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from meshgen.sharding.propagation import eliminate
from meshgen.sharding.propagation.eliminate import Table, cheapest
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


def test_many_different_wide_tables_end_the_exact_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten graphs of nine variables side by side: once the first has used up the cells, the others have variables fixed."""
    rng = np.random.default_rng(4)
    pairs = [(9 * n + i, 9 * n + j) for n in range(10) for i in range(9) for j in range(i + 1, 9)]
    tables = [Table(pair, rng.random((3, 3))) for pair in pairs]
    exact = cheapest([3] * 90, tables)
    use(monkeypatch, {"search.wide_cells": 81, "search.all_wide_cells": 3**9}, eliminate)
    rough = cheapest([3] * 90, tables)
    assert exact.is_exact and not rough.is_exact
    assert exact.cost <= rough.cost == pytest.approx(cost(rough.labels, tables))


def test_equal_wide_tables_count_once(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(5)
    one = {(i, j): rng.random((3, 3)) for i in range(9) for j in range(i + 1, 9)}
    tables = [Table((9 * n + i, 9 * n + j), costs) for n in range(10) for (i, j), costs in one.items()]
    use(monkeypatch, {"search.wide_cells": 81, "search.all_wide_cells": 2 * 3**9}, eliminate)
    assert cheapest([3] * 90, tables).is_exact
