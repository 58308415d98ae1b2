"""Hash-cons arrays and cache results by array identity, so that identical layers cost as much as one layer.

Example: the tables of twelve equal layers are one array, so the solver compares its labels only once.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[np.float64]]
Scope = tuple[int, ...]


@dataclass
class ArrayCache:
    """Hash-conses arrays, so that joins and reductions over equal tables are computed once.

    Entries are keyed by the identity of the arrays, which the caches keep alive.
    """

    arrays: dict[tuple[Scope, bytes], Array] = field(default_factory=dict[tuple[Scope, bytes], Array])
    seen: dict[int, tuple[Array, Array]] = field(default_factory=dict[int, tuple[Array, Array]])
    sums: dict[tuple[int, int], Array] = field(default_factory=dict[tuple[int, int], Array])
    joins: dict[Any, tuple[Any, Array]] = field(default_factory=dict[Any, tuple[Any, Array]])
    kept: dict[Any, Scope] = field(default_factory=dict[Any, Scope])
    parts: dict[Any, Array] = field(default_factory=dict[Any, Array])
    apart: dict[tuple[int, int], Array] = field(default_factory=dict[tuple[int, int], Array])

    def one(self, array: Array) -> Array:
        """Return the array that represents all equal arrays."""
        if (cached := self.seen.get(id(array))) is None:
            digest = blake2b(array.tobytes()).digest()
            cached = array, self.arrays.setdefault((array.shape, digest), array)
            self.seen[id(array)] = cached
        return cached[1]

    def sum(self, one: Array, other: Array) -> Array:
        key = id(one), id(other)
        if key not in self.sums:
            self.sums[key] = self.one(one + other)
        return self.sums[key]

    def cost_differences(self, array: Array, axis: int) -> Array:
        """Return a matrix m of cost differences: label i of `axis` costs at least m[i, j] more than label j.

        m[i, j] is the minimum of the difference over the labels of all other axes.
        """
        key = id(array), axis
        if key not in self.apart:
            label_costs = array.swapaxes(0, axis).reshape(array.shape[axis], -1)
            # A difference of two infinities is NaN: both labels are forbidden there, so the entry does not matter.
            self.apart[key] = np.fmin.reduce(label_costs[:, None] - label_costs, axis=2, initial=np.inf)
        return self.apart[key]

    def part(self, array: Array, axis: int, places: Scope) -> Array:
        """Return the array restricted to the positions `places` along `axis`.

        With one position, the axis is removed.
        """
        key = id(array), axis, places
        if key not in self.parts:
            selected = np.take(array, places[0] if len(places) == 1 else places, axis)
            self.parts[key] = self.one(np.array(selected, order="C"))
        return self.parts[key]
