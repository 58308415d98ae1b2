"""The solver: what enumeration finds, within a cap on memory, with a bound that is one."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.optimize import OptimizeResult

from meshgen.search import solve as module
from meshgen.search.solve import bytes_of, cost_of, solve
from meshgen.sharding.propagation.network import Array, Table


def _random(seed: int, variables: int = 6, labels: int = 3) -> tuple[list[int], list[Table], dict[int, Array]]:
    numbers = np.random.default_rng(seed)
    pairs = [pair for pair in itertools.combinations(range(variables), 2) if numbers.random() < 0.6]
    tables = [Table((v,), numbers.random(labels) * 1e-4) for v in range(variables)]
    tables += [Table(pair, numbers.random((labels, labels)) * 1e-4) for pair in pairs]
    memory = {v: numbers.integers(1, 9, labels).astype(float) for v in range(0, variables, 2)}
    return [labels] * variables, tables, memory


def _best(sizes: list[int], tables: list[Table], memory: dict[int, Array], cap: float | None) -> float | None:
    every = itertools.product(*map(range, sizes))
    return min((cost_of(tables, each) for each in every if cap is None or bytes_of(memory, each) <= cap), default=None)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("cap", [None, 16.0, 9.0, 2.0])
def test_the_solution_is_what_enumeration_finds(seed: int, cap: float | None) -> None:
    sizes, tables, memory = _random(seed)
    found, best = solve(sizes, tables, memory, cap, 20.0), _best(sizes, tables, memory, cap)
    assert (found is None) == (best is None)
    if found is not None and best is not None:
        assert found.seconds == pytest.approx(best) == pytest.approx(cost_of(tables, found.labels))
        assert cap is None or bytes_of(memory, found.labels) <= cap
        assert found.gap == 0 and found.least_seconds <= best * (1 + 1e-9)


@pytest.mark.parametrize("seed", range(8))
def test_prices_of_memory_find_a_labelling_within_the_cap(seed: int) -> None:
    sizes, tables, memory = _random(seed)
    found, best = solve(sizes, tables, memory, 12.0, 20.0, relaxed_only=True), _best(sizes, tables, memory, 12.0)
    if found is not None:
        assert best is not None and bytes_of(memory, found.labels) <= 12.0
        assert found.least_seconds <= best * (1 + 1e-9) <= found.seconds * (1 + 2e-9)


@pytest.mark.parametrize("seed", range(4))
def test_without_a_linear_program_in_time_there_is_a_solution(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cap on memory needs the price that the program gives."""
    sizes, tables, memory = _random(seed)
    monkeypatch.setattr(module, "linprog", lambda *_, **__: OptimizeResult(status=1))
    found, best = solve(sizes, tables, memory, None, 20.0), _best(sizes, tables, memory, None)
    assert found is not None and best is not None
    assert found.least_seconds <= best * (1 + 1e-9) <= found.seconds * (1 + 2e-9)
    assert found.seconds == pytest.approx(cost_of(tables, found.labels))
    assert solve(sizes, tables, memory, 9.0, 20.0) is None


def test_solutions_are_the_same_each_time() -> None:
    sizes, tables, memory = _random(3, variables=9)
    assert len({solve(sizes, tables, memory, 20.0, 20.0) for _ in range(3)}) == 1
