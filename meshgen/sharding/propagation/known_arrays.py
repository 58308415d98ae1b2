"""Keep one array for all equal ones, and what was found of each: layers that are alike cost as much as one.

Example: the tables of twelve equal layers are one array; that its second label is never dearer than its first is found once.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[np.float64]]
Scope = tuple[int, ...]


@dataclass
class KnownArrays:
    """What is known of arrays, by their identity; they are kept alive."""

    arrays: dict[tuple[Scope, bytes], Array] = field(default_factory=dict[tuple[Scope, bytes], Array])
    seen: dict[int, tuple[Array, Array]] = field(default_factory=dict[int, tuple[Array, Array]])
    sums: dict[tuple[int, int], Array] = field(default_factory=dict[tuple[int, int], Array])
    joins: dict[Any, tuple[Any, Array]] = field(default_factory=dict[Any, tuple[Any, Array]])
    kept: dict[Any, Scope] = field(default_factory=dict[Any, Scope])
    parts: dict[Any, Array] = field(default_factory=dict[Any, Array])
    apart: dict[tuple[int, int], Array] = field(default_factory=dict[tuple[int, int], Array])

    def one(self, array: Array) -> Array:
        """The array that stands for all equal ones."""
        if (known := self.seen.get(id(array))) is None:
            digest = blake2b(array.tobytes()).digest()
            known = array, self.arrays.setdefault((array.shape, digest), array)
            self.seen[id(array)] = known
        return known[1]

    def sum(self, one: Array, other: Array) -> Array:
        key = id(one), id(other)
        if key not in self.sums:
            self.sums[key] = self.one(one + other)
        return self.sums[key]

    def dearer(self, array: Array, axis: int) -> Array:
        """By how much each label of an axis is dearer than each other one at least, whatever the others are."""
        key = id(array), axis
        if key not in self.apart:
            rows = array.swapaxes(0, axis).reshape(array.shape[axis], -1)
            # NaN where both are forbidden: either is as good.
            self.apart[key] = np.fmin.reduce(rows[:, None] - rows, axis=2, initial=np.inf)
        return self.apart[key]

    def part(self, array: Array, axis: int, places: Scope) -> Array:
        """The array with these places of an axis; without the axis if there is one place."""
        key = id(array), axis, places
        if key not in self.parts:
            taken = np.take(array, places[0] if len(places) == 1 else places, axis)
            self.parts[key] = self.one(np.array(taken, order="C"))
        return self.parts[key]
