"""Build the cost tables of a value's edge: the reshard cost of each use, given the states at the producer and the use.

Example, a value of 24 kB produced split (0) or replicated, and read by two users, each split or replicated, on x=4; an
all-gather takes 5 us:

    direct   produced 0, read replicated: 5 us by each user
    shared   produced 0, both read replicated: 5 us, as they share one gathered copy

    table over (producer, first, second): [[[0, 5], [5, 5]], [[0, 0], [0, 0]]]

A small table decides internally whether there is a shared copy, and in which state; otherwise the copy is a variable of
its own. Copies that are never profitable are left out, and uses that no copy would serve have a table of their own. An
optimization barrier shares only reduced copies: a copy gathered for users before the barrier would have to stay alive
for the users behind it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from meshgen.cost_model.model import DEFAULT
from meshgen.sharding.propagation.network import Array
from meshgen.sharding.propagation.states import State

Prices = Mapping[tuple[State, State], float]  # (source state, target state) -> seconds to reshard
_Placed = tuple[tuple[int, ...], Array]


class EdgeTables(NamedTuple):
    """The cost tables of one edge. Each is over positions in the edge's scope: the producer, the uses, and a shared
    copy.

    The copy is a variable with `copies` states. Positions are in rising order of sites and exclude sites with one
    label. `seconds` is the constant part of the cost.
    """

    copies: int
    tables: list[_Placed]
    seconds: float

    def at(self, labels: Sequence[int]) -> float:
        """Return the seconds of the edge, given the label index of the producer and of each use, with the best shared
        copy.
        """
        seconds: Any = self.seconds
        for positions, costs in self.tables:
            seconds = (
                seconds
                + costs[tuple([labels[position] if position < len(labels) else slice(None) for position in positions])]
            )
        return float(np.min(seconds))


def edge_tables(
    scope: Sequence[int], producer_states: Sequence[State], use_states: Sequence[Sequence[State]], prices: Sequence[Prices], weights: Sequence[float],
    barriers: Sequence[bool],
) -> EdgeTables:  # fmt: skip
    """Build the tables of an edge.

    Args:
        scope: the site that produces the value, then the site of each use.
        producer_states: the state of the value for each label of its producer.
        use_states: the state of the value for each label of each use.
        prices: reshard seconds of each use.
        weights: factor on the seconds of each use.
        barriers: whether each use is an optimization barrier.
    """
    if all(
        state == producer_states[0] for side in (producer_states, *use_states) for state in side
    ):  # All states are equal, so nothing is ever resharded.
        return EdgeTables(0, [], 0.0)
    direct = [
        np.array([[price[m, w] * weight for w in states] for m in producer_states])
        for states, price, weight in zip(use_states, prices, weights, strict=True)
    ]
    tables: list[_Placed] = [((0, use), costs) for use, costs in enumerate(direct, 1)]
    shared = _Shared.of(producer_states, use_states, prices, weights, direct, barriers)
    copies = 0
    if shared is not None:
        tables = [tables[use] for use in range(len(direct)) if use not in shared.users]
        copies, shared_tables = shared.tables(direct)
        tables += shared_tables
    return _in_order_of_sites(scope, [len(producer_states), *map(len, use_states), copies], copies, tables)


class _Shared(NamedTuple):
    """Shared copies that may be profitable: the seconds to make each copy, and the seconds for each of `users` to read
    it.
    """

    users: tuple[int, ...]
    price: Array  # array over (labels of the producer, copies)
    read: list[Array]  # arrays over (labels of the producer, copies, labels of a user)

    @staticmethod
    def of(
        producer_states: Sequence[State], use_states: Sequence[Sequence[State]], prices: Sequence[Prices], weights: Sequence[float], direct: Sequence[Array],
        barriers: Sequence[bool],
    ) -> _Shared | None:  # fmt: skip
        """Return the profitable copies, or None if no copy is ever cheaper than one reshard per use."""
        copies = _shared_states(producer_states, use_states)
        if not copies:
            return None
        largest_weight = max(weights)
        price = np.array(
            [[max(table[m, c] for table in prices) * largest_weight for c in copies] for m in producer_states]
        )
        is_reduced = np.array([isinstance(state, str) for state in producer_states])[:, None, None]
        read = [
            np.where(is_reduced | (not is_barrier), [[price[c, w] * weight for w in states] for c in copies], np.inf)
            for states, price, weight, is_barrier in zip(use_states, prices, weights, barriers, strict=True)
        ]
        saved = [np.maximum(d[:, None] - r, 0).max(axis=2) for d, r in zip(direct, read, strict=True)]
        is_profitable = (np.sum(saved, axis=0) > price).any(axis=0)
        users = tuple([use for use, most_saved in enumerate(saved) if most_saved[:, is_profitable].any()])
        return (
            _Shared(users, price[:, is_profitable], [read[use][:, is_profitable] for use in users])
            if len(users) > 1
            else None
        )

    def tables(self, direct: Sequence[Array]) -> tuple[int, list[_Placed]]:
        """Return the number of states of the copy variable, or 0 if it needs none, and the tables of the users."""
        options = self.price.shape[1] + 1
        # option 0 stands for not making a copy
        price = np.concatenate([np.zeros((len(self.price), 1)), self.price], axis=1)
        user_tables: list[_Placed] = []
        for user, read in zip(self.users, self.read, strict=True):
            costs = np.minimum(direct[user][..., None], read.transpose(0, 2, 1))
            costs = np.concatenate([direct[user][..., None], costs], axis=2)
            if costs.shape[1] == 1:  # The user has one label, so there is nothing to choose.
                price = price + costs[:, 0]
            else:
                user_tables.append(((user + 1,), costs))
        if math.prod([price.size, *[costs.shape[1] for _, costs in user_tables]]) > DEFAULT.search.copy_cells:
            copy = len(direct) + 1
            return options, [((0, copy), price), *[((0, *position, copy), costs) for position, costs in user_tables]]
        total = price.reshape(len(price), *[1] * len(user_tables), options)
        for index, (_, costs) in enumerate(user_tables):
            total = total + np.expand_dims(costs, [1 + axis for axis in range(len(user_tables)) if axis != index])
        return 0, [((0, *[position for positions, _ in user_tables for position in positions]), total.min(axis=-1))]


def _shared_states(producer_states: Sequence[State], use_states: Sequence[Sequence[State]]) -> list[State]:
    """Return the states that at least two users may need and that the producer may have to reshard to."""
    if len(use_states) < 2 or (
        len(producer_states) == 1 and all(set(states) == {producer_states[0]} for states in use_states)
    ):
        return []
    count: dict[State, int] = {}
    for states in use_states:
        for state in dict.fromkeys(states):
            count[state] = count.get(state, 0) + 1
    return [
        state for state, users in count.items() if users > 1 and any(m not in (state, None) for m in producer_states)
    ]


def _in_order_of_sites(
    scope: Sequence[int], sizes: Sequence[int], copies: int, tables: Sequence[_Placed]
) -> EdgeTables:
    """Return the tables of an edge with the positions of each table in rising order of sites.

    If two positions of a table are the same site, only the diagonal of the table over them is kept.
    """
    sites = [*scope, max(scope) + 1]
    ordered_tables: list[_Placed] = []
    seconds = 0.0
    for positions, costs in tables:
        order = sorted(range(len(positions)), key=lambda i: sites[positions[i]])
        costs, kept_positions = np.transpose(costs, order), [positions[i] for i in order]
        for axis in reversed(range(1, len(kept_positions))):
            if sites[kept_positions[axis]] == sites[kept_positions[axis - 1]]:
                costs = np.moveaxis(np.diagonal(costs, 0, axis - 1, axis), -1, axis - 1)
                del kept_positions[axis]
        kept_positions = [position for position in kept_positions if sizes[position] > 1]
        costs = costs.reshape([sizes[position] for position in kept_positions])
        if not kept_positions:
            seconds += costs.item()
        elif costs.any():
            ordered_tables.append((tuple(kept_positions), np.ascontiguousarray(costs)))
    return EdgeTables(copies, ordered_tables, seconds)
