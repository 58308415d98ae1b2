"""Make the tables of a value's edge: what its uses cost in the states in which they read it, given the one in which it is made.

Example, a value of 24 kB made split (0) or whole, and read by two users, each split or whole, on x=4; an all-gather takes 5 us:

    direct   made 0, read whole: 5 us by each user
    shared   made 0, both read whole: 5 us, as they share one gathered copy

    table over (maker, first, second): [[[0, 5], [5, 5]], [[0, 0], [0, 0]]]

Whether there is a copy, and in which state, is chosen within the table, where that is small; else the copy is a variable of its own. Copies
that never pay are left out, and uses that none would serve have a table of their own. An optimization barrier shares reduced copies alone:
one that was gathered for users before it would have to be kept for those behind it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from meshgen.cost_model.model import DEFAULT
from meshgen.sharding.propagation.network import Array
from meshgen.sharding.propagation.states import State

Prices = Mapping[tuple[State, State], float]  # seconds from one state to another
_Placed = tuple[tuple[int, ...], Array]


class EdgeTables(NamedTuple):
    """The tables of an edge, each over places in its scope: its maker, its uses, and a copy that they share, which has `copies` states.

    Places are in rising order of sites, none is of a site with one label; `seconds` are certain.
    """

    copies: int
    tables: list[_Placed]
    seconds: float

    def at(self, labels: Sequence[int]) -> float:
        """Seconds with these labels of the maker and the uses, by number, and the best copy."""
        found: Any = self.seconds
        for places, costs in self.tables:
            found = found + costs[tuple([labels[place] if place < len(labels) else slice(None) for place in places])]
        return float(np.min(found))


def edge_tables(
    scope: Sequence[int], made: Sequence[State], wanted: Sequence[Sequence[State]], prices: Sequence[Prices], weights: Sequence[float],
    barriers: Sequence[bool],
) -> EdgeTables:  # fmt: skip
    """The tables of an edge.

    Args:
        scope: the site that makes the value, then that of each use, by number.
        made: the state of the value for each label of its maker.
        wanted: the state of it for each label of each use.
        prices: of each use, times its weight.
        barriers: whether each use is an optimization barrier.
    """
    if all(state == made[0] for side in (made, *wanted) for state in side):  # nothing is resharded, whatever is chosen
        return EdgeTables(0, [], 0.0)
    direct = [
        np.array([[price[m, w] * weight for w in states] for m in made])
        for states, price, weight in zip(wanted, prices, weights, strict=True)
    ]
    tables: list[_Placed] = [((0, number), costs) for number, costs in enumerate(direct, 1)]
    shared = _Shared.of(made, wanted, prices, weights, direct, barriers)
    copies = 0
    if shared is not None:
        tables = [tables[number] for number in range(len(direct)) if number not in shared.users]
        copies, more = shared.tables(direct)
        tables += more
    return _in_order_of_sites(scope, [len(made), *map(len, wanted), copies], copies, tables)


class _Shared(NamedTuple):
    """Copies that may pay: seconds to make each, by label of the maker, and to read each, by label of each of the `users`."""

    users: tuple[int, ...]
    price: Array  # (labels of the maker, copies)
    read: list[Array]  # (labels of the maker, copies, labels of a user)

    @staticmethod
    def of(
        made: Sequence[State], wanted: Sequence[Sequence[State]], prices: Sequence[Prices], weights: Sequence[float], direct: Sequence[Array],
        barriers: Sequence[bool],
    ) -> _Shared | None:  # fmt: skip
        """None if no copy is ever cheaper than to reshard the value for each use alone."""
        copies = _shared_states(made, wanted)
        if not copies:
            return None
        dearest = max(weights)
        price = np.array([[max(table[m, c] for table in prices) * dearest for c in copies] for m in made])
        is_reduced = np.array([isinstance(state, str) for state in made])[:, None, None]
        read = [
            np.where(is_reduced | (not is_barrier), [[price[c, w] * weight for w in states] for c in copies], np.inf)
            for states, price, weight, is_barrier in zip(wanted, prices, weights, barriers, strict=True)
        ]
        saved = [np.maximum(d[:, None] - r, 0).max(axis=2) for d, r in zip(direct, read, strict=True)]
        pays = (np.sum(saved, axis=0) > price).any(axis=0)
        users = tuple([number for number, most in enumerate(saved) if most[:, pays].any()])
        return _Shared(users, price[:, pays], [read[number][:, pays] for number in users]) if len(users) > 1 else None

    def tables(self, direct: Sequence[Array]) -> tuple[int, list[_Placed]]:
        """How many states a variable for the copy has, and the tables of the users."""
        options = self.price.shape[1] + 1
        price = np.concatenate([np.zeros((len(self.price), 1)), self.price], axis=1)  # at first: no copy
        near: list[_Placed] = []
        for user, read in zip(self.users, self.read, strict=True):
            costs = np.minimum(direct[user][..., None], read.transpose(0, 2, 1))
            costs = np.concatenate([direct[user][..., None], costs], axis=2)
            if costs.shape[1] == 1:  # nothing is left to choose here
                price = price + costs[:, 0]
            else:
                near.append(((user + 1,), costs))
        if math.prod([price.size, *[costs.shape[1] for _, costs in near]]) > DEFAULT.search.copy_cells:
            copy = len(direct) + 1
            return options, [((0, copy), price), *[((0, *place, copy), costs) for place, costs in near]]
        total = price.reshape(len(price), *[1] * len(near), options)
        for number, (_, costs) in enumerate(near):
            total = total + np.expand_dims(costs, [1 + axis for axis in range(len(near)) if axis != number])
        return 0, [((0, *[place for places, _ in near for place in places]), total.min(axis=-1))]


def _shared_states(made: Sequence[State], wanted: Sequence[Sequence[State]]) -> list[State]:
    """States that at least two users may need and in which the producer may not make the value."""
    if len(wanted) < 2 or (len(made) == 1 and all(set(states) == {made[0]} for states in wanted)):
        return []
    count: dict[State, int] = {}
    for states in wanted:
        for state in dict.fromkeys(states):
            count[state] = count.get(state, 0) + 1
    return [state for state, users in count.items() if users > 1 and any(m not in (state, None) for m in made)]


def _in_order_of_sites(
    scope: Sequence[int], sizes: Sequence[int], copies: int, tables: Sequence[_Placed]
) -> EdgeTables:
    """The tables with the places of each in rising order of sites: a site that occurs twice is taken on the diagonal."""
    numbers = [*scope, max(scope) + 1]
    found: list[_Placed] = []
    seconds = 0.0
    for places, costs in tables:
        order = sorted(range(len(places)), key=lambda i: numbers[places[i]])
        costs, kept = np.transpose(costs, order), [places[i] for i in order]
        for axis in reversed(range(1, len(kept))):
            if numbers[kept[axis]] == numbers[kept[axis - 1]]:
                costs = np.moveaxis(np.diagonal(costs, 0, axis - 1, axis), -1, axis - 1)
                del kept[axis]
        kept = [place for place in kept if sizes[place] > 1]
        costs = costs.reshape([sizes[place] for place in kept])
        if not kept:
            seconds += costs.item()
        elif costs.any():
            found.append((tuple(kept), np.ascontiguousarray(costs)))
    return EdgeTables(copies, found, seconds)
