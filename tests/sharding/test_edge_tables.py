"""Cost tables of an edge: their sum is the least cost for all uses of a value, each direct or from a shared copy."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence

import pytest

from meshgen.sharding.propagation import edge_tables as module
from meshgen.sharding.propagation.edge_tables import Prices, edge_tables
from meshgen.sharding.propagation.states import State
from tests.cost_models import use

STATES: tuple[State, ...] = (None, 0, 1, "sum")


def random_prices(rng: random.Random) -> dict[tuple[State, State], float]:
    """Return random integer costs, so that sums are exact in any order."""
    return {(s, t): float(s != t) * rng.randint(0, 9) for s in STATES for t in STATES}


def least_read_seconds(
    produced: State, read: Sequence[State], priced: Sequence[Prices], weights: Sequence[float]
) -> float:
    """Return the least seconds in which all users of a value read it: each directly, or from one shared copy.

    `produced` is the state of the value, and `read` is the state that each user needs. The copy may have any state.
    """
    alone = [price[produced, state] * weight for state, price, weight in zip(read, priced, weights, strict=True)]
    totals = [sum(alone)]
    for copy in STATES:
        shared = [price[copy, state] * weight for state, price, weight in zip(read, priced, weights, strict=True)]
        price = max(table[produced, copy] for table in priced) * max(weights)
        totals.append(price + sum(map(min, alone, shared)))
    return min(totals)


@pytest.mark.parametrize("cells", [0, 1 << 12], ids=["a copy is a variable", "a copy is chosen in the table"])
@pytest.mark.parametrize("seed", range(30))
def test_sum_of_edge_tables_is_least_cost_of_all_reads(cells: int, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, {"search.copy_cells": cells}, module)
    rng = random.Random(seed)
    produced_states = rng.sample(STATES[1:], rng.randint(1, 3))
    user_states = [rng.sample(STATES, rng.randint(1, 4)) for _ in range(rng.randint(1, 4))]
    # Copies are only considered in states that at least two users can read, so most users here can read all states.
    user_states = [
        [*states, *(s for s in STATES if s not in states)] if rng.random() < 0.7 else states for states in user_states
    ]
    priced = [random_prices(rng) for _ in user_states]
    weights = [float(rng.randint(1, 2)) for _ in user_states]
    scope = [3, *range(5, 5 + len(user_states))]
    edge = edge_tables(scope, produced_states, user_states, priced, weights, [False] * len(user_states))
    is_shared = sum(len(states) == len(STATES) for states in user_states) > 1
    for labels in itertools.product(*map(range, map(len, [produced_states, *user_states]))):
        read = [states[n] for states, n in zip(user_states, labels[1:], strict=True)]
        alone = sum(p[produced_states[labels[0]], s] * w for s, p, w in zip(read, priced, weights, strict=True))
        best = least_read_seconds(produced_states[labels[0]], read, priced, weights)
        assert best <= edge.at(labels) <= alone
        if is_shared:
            assert edge.at(labels) == best
    if cells:
        assert not edge.copies


@pytest.mark.parametrize("cells", [0, 1 << 12])
def test_site_that_reads_value_twice_has_one_variable(cells: int, monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, {"search.copy_cells": cells}, module)
    price = {(s, t): float(s != t) for s in STATES for t in STATES}
    produced_states, user_states = [0, 1], [[None, 0], [None, 0]]
    same_site = edge_tables([3, 5, 5], produced_states, user_states, [price] * 2, [1.0] * 2, [False] * 2)
    two_sites = edge_tables([3, 5, 6], produced_states, user_states, [price] * 2, [1.0] * 2, [False] * 2)
    for producer, user in itertools.product(range(2), range(2)):
        assert same_site.at([producer, user, user]) == two_sites.at([producer, user, user])
    assert not any({1, 2} <= {*positions} for positions, _ in same_site.tables)


def test_unprofitable_copy_has_no_table() -> None:
    """Slicing a replicated value is free, so a copy saves nothing. A gather costs the same for two users as for one."""
    free = {(s, t): 0.0 if s is None else float(s != t) for s in STATES for t in STATES}
    alone = edge_tables([3, 5, 6], [None], [[0, None], [0, None]], [free] * 2, [1.0] * 2, [False] * 2)
    assert not alone.tables and not alone.copies and not alone.seconds
    shared = edge_tables([3, 5, 6], [0], [[0, None], [0, None]], [free] * 2, [1.0] * 2, [False] * 2)
    assert [shared.at([0, a, b]) for a in (0, 1) for b in (0, 1)] == [0, 1, 1, 1]
