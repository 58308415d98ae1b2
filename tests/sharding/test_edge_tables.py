"""The tables of an edge add up to the least of all ways to read a value: each use for itself, or from a copy that some share."""

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


def prices(rng: random.Random) -> dict[tuple[State, State], float]:
    """Whole numbers, so that sums are exact in any order."""
    return {(s, t): float(s != t) * rng.randint(0, 9) for s in STATES for t in STATES}


def least(made: State, read: Sequence[State], priced: Sequence[Prices], weights: Sequence[float]) -> float:
    """Seconds for one label of each site: with no copy, or with one in any state."""
    alone = [price[made, state] * weight for state, price, weight in zip(read, priced, weights, strict=True)]
    found = [sum(alone)]
    for copy in STATES:
        shared = [price[copy, state] * weight for state, price, weight in zip(read, priced, weights, strict=True)]
        price = max(table[made, copy] for table in priced) * max(weights)
        found.append(price + sum(map(min, alone, shared)))
    return min(found)


@pytest.mark.parametrize("cells", [0, 1 << 12], ids=["a copy is a variable", "a copy is chosen in the table"])
@pytest.mark.parametrize("seed", range(30))
def test_uses_read_a_value_in_the_cheapest_way(cells: int, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, {"search.copy_cells": cells}, module)
    rng = random.Random(seed)
    made = rng.sample(STATES[1:], rng.randint(1, 3))
    wanted = [rng.sample(STATES, rng.randint(1, 4)) for _ in range(rng.randint(1, 4))]
    # A copy is made in a state that at least two users can read, so that all may need it.
    wanted = [[*states, *(s for s in STATES if s not in states)] if rng.random() < 0.7 else states for states in wanted]
    priced = [prices(rng) for _ in wanted]
    weights = [float(rng.randint(1, 2)) for _ in wanted]
    scope = [3, *range(5, 5 + len(wanted))]
    found = edge_tables(scope, made, wanted, priced, weights, [False] * len(wanted))
    is_shared = sum(len(states) == len(STATES) for states in wanted) > 1
    for numbers in itertools.product(*map(range, map(len, [made, *wanted]))):
        read = [states[n] for states, n in zip(wanted, numbers[1:], strict=True)]
        alone = sum(p[made[numbers[0]], s] * w for s, p, w in zip(read, priced, weights, strict=True))
        best = least(made[numbers[0]], read, priced, weights)
        assert best <= found.at(numbers) <= alone
        if is_shared:
            assert found.at(numbers) == best
    if cells:
        assert not found.copies


@pytest.mark.parametrize("cells", [0, 1 << 12])
def test_a_site_that_reads_a_value_twice_has_one_place(cells: int, monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, {"search.copy_cells": cells}, module)
    price = {(s, t): float(s != t) for s in STATES for t in STATES}
    made, wanted = [0, 1], [[None, 0], [None, 0]]
    twice = edge_tables([3, 5, 5], made, wanted, [price] * 2, [1.0] * 2, [False] * 2)
    apart = edge_tables([3, 5, 6], made, wanted, [price] * 2, [1.0] * 2, [False] * 2)
    for maker, user in itertools.product(range(2), range(2)):
        assert twice.at([maker, user, user]) == apart.at([maker, user, user])
    assert not any({1, 2} <= {*places} for places, _ in twice.tables)


def test_a_copy_that_never_pays_is_left_out() -> None:
    """To slice a whole value is free for each user, and to gather the rows costs as much for one as for both: only that is shared."""
    free = {(s, t): 0.0 if s is None else float(s != t) for s in STATES for t in STATES}
    alone = edge_tables([3, 5, 6], [None], [[0, None], [0, None]], [free] * 2, [1.0] * 2, [False] * 2)
    assert not alone.tables and not alone.copies and not alone.seconds
    shared = edge_tables([3, 5, 6], [0], [[0, None], [0, None]], [free] * 2, [1.0] * 2, [False] * 2)
    assert [shared.at([0, a, b]) for a in (0, 1) for b in (0, 1)] == [0, 1, 1, 1]
