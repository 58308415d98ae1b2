"""Look-ups and updates with one index for each row: which dims of the operand the places of the indices count, and where a place is looked for.

logits[arange(n), labels]      operand [n, words], indices [n, 2]: the first number of each counts the rows, the second is looked for
take_along_axis                indices [n, 1, 1] with batching dims: rows are counted by these
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from meshgen.ir.builder import Builder
from meshgen.ir.graph import Node, TensorType, Value
from meshgen.ops.constants import constant_of

_MOST_NUMBERS = 1 << 20  # of a value that is computed here to see whether it counts rows (chosen: 8 MB)


class IndexedRows:
    """The indices of a gather or a scatter.

    Args:
        shape: of the operand.
        mapped: per number of an index the dim of the operand; `batching` has the dims of the indices by those of the operand
            that go with them, `vector` is the dim along the numbers of an index.

    Attributes:
        places: sizes of the dims of the places, each of which has an index.
        bound: by dim of the operand, the dim of the places along which each place has its own part of it.
    """

    def __init__(self, indices: Value, shape: Sequence[int], mapped: Sequence[int], batching: Mapping[int, int],
                 vector: int, producers: Mapping[Value, Node]) -> None:  # fmt: skip
        self._indices, self._shape, self._mapped, self._vector = indices, shape, mapped, vector
        self._producers = producers
        self.places = tuple(n for d, n in enumerate(indices.type.sizes) if d != vector)
        self.bound = {d: at - (at > vector) for d, at in batching.items()}
        for number, d in enumerate(mapped):
            place = self._counted(number)
            if place is not None and self.places[place] == shape[d] and place not in self.bound.values():
                self.bound[d] = place

    @property
    def are_apart(self) -> bool:
        """Whether no two places have a row in common."""
        return all(n == 1 or place in self.bound.values() for place, n in enumerate(self.places))

    @property
    def looked_for(self) -> list[tuple[int, int]]:
        """Dims of the operand along which the index says the place, each with the number of it in an index."""
        return [(d, number) for number, d in enumerate(self._mapped) if d not in self.bound]

    def dims_of(self, place: int) -> list[int]:
        """Dims of the operand that go with a dim of the places."""
        return [d for d, bound in self.bound.items() if bound == place]

    def _counted(self, number: int) -> int | None:
        """The dim of the places along which one of the numbers of the indices is 0, 1, 2, ...; None if it is known of none."""
        value, inside = self._source(number)
        found = constant_of(value, self._producers.get, most_elements=_MOST_NUMBERS)
        if found is None:
            return None
        column = np.take(found, inside, self._vector) if self._vector < found.ndim else found
        counts = (
            np.arange(n).reshape([n if d == place else 1 for d in range(column.ndim)])
            for place, n in enumerate(self.places)
        )
        return next((place for place, count in enumerate(counts) if count.size > 1 and (column == count).all()), None)

    def _source(self, number: int) -> tuple[Value, int]:
        """What a number of the indices is part of, before these were joined, and its own number in that."""
        value = self._indices
        while (
            (node := self._producers.get(value)) is not None
            and node.op == "concatenate"
            and node.attrs.dim == self._vector
        ):
            for part in node.operands:
                if number < (count := part.type.sizes[self._vector]):
                    value = part
                    break
                number -= count
        return value, number

    def hit(self, builder: Builder, dim: int, number: int, is_clamped: bool = False) -> Value:
        """Where a number of the indices is the place along a dim of the operand; `is_clamped`: what is outside is the next place inside."""
        value, inside = self._source(number)
        if self._vector < value.type.rank and value.type.sizes[self._vector] > 1:
            value = builder.rows(value, self._vector, inside, inside + 1)
        value = builder.reshape(value, self.places)
        if is_clamped:  # in the type of the indices: as signed numbers the greatest unsigned ones would be negative
            last = min(self._shape[dim] - 1, np.iinfo(value.type.numpy_dtype).max)
            bounds = [builder.broadcast_scalar(bound, value.type) for bound in (0, last)]
            value = builder.emit("clamp", [bounds[0], value, bounds[1]], value.type)
        is_long = value.type.dtype in ("i64", "ui64", "ui32") or self._shape[dim] >= 2**31
        value = builder.convert(value, "i64" if is_long else "i32")
        dims = {place: d for place in range(len(self.places)) for d in self.dims_of(place)}
        return builder.compare(
            "EQ", self.count(builder, dim, value.type.dtype), spread(builder, value, dims, self._shape)
        )

    def divided(self, builder: Builder, number: int, by: int) -> Value:
        """The indices with one of their numbers divided; what is out of bounds stays so, or becomes the nearest place inside."""
        value = builder.convert(self._indices, "i32") if self._indices.type.dtype == "i8" else self._indices
        quotient = builder.elementwise("divide", value, builder.broadcast_scalar(by, value.type))
        if self._vector >= value.type.rank or value.type.sizes[self._vector] == 1:
            return quotient
        place = builder.emit("iota", [], TensorType(value.type.shape, "i32"), dim=self._vector)
        is_number = builder.compare("EQ", place, builder.broadcast_scalar(number, place.type))
        return builder.emit("select", [is_number, quotient, value], value.type)

    def count(self, builder: Builder, dim: int, dtype: str) -> Value:
        """The place along a dim of the operand."""
        return builder.emit("iota", [], TensorType(tuple(self._shape), dtype), dim=dim)


def spread(builder: Builder, value: Value, dims: Mapping[int, int], shape: Sequence[int]) -> Value:
    """A value whose dims are some of the result's, or of one element, over all of it."""
    kept = sorted(dims)
    value = builder.reshape(value, [value.type.sizes[d] for d in kept])
    order = sorted(range(len(kept)), key=lambda place: dims[kept[place]])
    if order != sorted(order):
        value = builder.transpose(value, order)
    return builder.spread(value, shape, sorted(dims.values()))
