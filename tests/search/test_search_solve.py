"""Tests of the solver: it finds the optimum of enumeration within a memory cap, and its lower bound holds."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.optimize import OptimizeResult

from meshgen.search import solve as module
from meshgen.search.solve import bytes_of, cost_of, solve
from meshgen.sharding.propagation.network import Array, Table


def _random(seed: int, variables: int = 6, labels: int = 3) -> tuple[list[int], list[Table], dict[int, Array]]:
    rng = np.random.default_rng(seed)
    pairs = [pair for pair in itertools.combinations(range(variables), 2) if rng.random() < 0.6]
    tables = [Table((v,), rng.random(labels) * 1e-4) for v in range(variables)]
    tables += [Table(pair, rng.random((labels, labels)) * 1e-4) for pair in pairs]
    memory = {v: rng.integers(1, 9, labels).astype(float) for v in range(0, variables, 2)}
    return [labels] * variables, tables, memory


def _best(sizes: list[int], tables: list[Table], memory: dict[int, Array], cap: float | None) -> float | None:
    labelings = itertools.product(*map(range, sizes))
    return min(
        (cost_of(tables, labeling) for labeling in labelings if cap is None or bytes_of(memory, labeling) <= cap),
        default=None,
    )


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("cap", [None, 16.0, 9.0, 2.0])
def test_solver_matches_enumeration(seed: int, cap: float | None) -> None:
    sizes, tables, memory = _random(seed)
    solution, best = solve(sizes, tables, memory, cap, 20.0), _best(sizes, tables, memory, cap)
    assert (solution is None) == (best is None)
    if solution is not None and best is not None:
        assert solution.seconds == pytest.approx(best) == pytest.approx(cost_of(tables, solution.labels))
        assert cap is None or bytes_of(memory, solution.labels) <= cap
        assert solution.gap == 0 and solution.least_seconds <= best * (1 + 1e-9)


@pytest.mark.parametrize("seed", range(8))
def test_relaxed_solver_finds_a_labeling_within_the_memory_cap(seed: int) -> None:
    sizes, tables, memory = _random(seed)
    solution, best = solve(sizes, tables, memory, 12.0, 20.0, relaxed_only=True), _best(sizes, tables, memory, 12.0)
    if solution is not None:
        assert best is not None and bytes_of(memory, solution.labels) <= 12.0
        assert solution.least_seconds <= best * (1 + 1e-9) <= solution.seconds * (1 + 2e-9)


@pytest.mark.parametrize("seed", range(4))
def test_solver_without_linear_program_finds_a_solution(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Check a solver whose linear program fails.

    A solution is found nevertheless, unless a memory cap requires the dual price that the linear program would return.
    """
    sizes, tables, memory = _random(seed)
    monkeypatch.setattr(module, "linprog", lambda *_, **__: OptimizeResult(status=1))
    solution, best = solve(sizes, tables, memory, None, 20.0), _best(sizes, tables, memory, None)
    assert solution is not None and best is not None
    assert solution.least_seconds <= best * (1 + 1e-9) <= solution.seconds * (1 + 2e-9)
    assert solution.seconds == pytest.approx(cost_of(tables, solution.labels))
    assert solve(sizes, tables, memory, 9.0, 20.0) is None


def test_solver_is_deterministic() -> None:
    sizes, tables, memory = _random(3, variables=9)
    assert len({solve(sizes, tables, memory, 20.0, 20.0) for _ in range(3)}) == 1
