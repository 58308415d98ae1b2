"""Analysis of gathers and scatters that use one index per row.

The analysis separates operand dims along which the index counts rows (0, 1, 2, ...) from dims that are looked up.

logits[arange(n), labels]    operand [n, words], indices [n, 2]: component 0 counts rows, component 1 is looked up
take_along_axis              indices [n, 1, 1] with batching dims, which count the rows
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from meshgen.ir.builder import Builder
from meshgen.ir.graph import Node, TensorType, Value
from meshgen.ops.constants import constant_of

# Largest index tensor, in elements, that is constant-folded to test whether the indices count rows (chosen: 8 MB).
_MAX_FOLDED_ELEMENTS = 1 << 20


class IndexedRows:
    """The indices of a gather or a scatter, as an array of index vectors.

    A position is the position of an index vector in this array.

    Args:
        shape: shape of the operand.
        mapped: for each component of an index vector, the operand dim that it indexes.
        batching: for each batching dim of the operand, the matching dim of the indices.
        vector: the dim of the indices that holds the components of an index vector.

    Attributes:
        places: shape of the array of index vectors: the sizes of the dims of the indices without `vector`.
        bound: for each operand dim along which the indices count rows, the matching position dim: the index vector at
            coordinate i of this position dim addresses coordinate i of the operand dim.
    """

    def __init__(self, indices: Value, shape: Sequence[int], mapped: Sequence[int], batching: Mapping[int, int],
                 vector: int, producers: Mapping[Value, Node]) -> None:  # fmt: skip
        self._indices, self._shape, self._mapped, self._vector = indices, shape, mapped, vector
        self._producers = producers
        self.places = tuple(n for d, n in enumerate(indices.type.sizes) if d != vector)
        self.bound = {d: at - (at > vector) for d, at in batching.items()}
        for component, d in enumerate(mapped):
            counted = self._counted(component)
            if counted is not None and self.places[counted] == shape[d] and counted not in self.bound.values():
                self.bound[d] = counted

    @property
    def are_rows_disjoint(self) -> bool:
        """Whether no two index vectors address the same row."""
        return all(n == 1 or position_dim in self.bound.values() for position_dim, n in enumerate(self.places))

    @property
    def looked_up_dims(self) -> list[tuple[int, int]]:
        """Return (operand dim, component) pairs: the looked-up dims, each with the index-vector component that
        addresses it.
        """
        return [(d, component) for component, d in enumerate(self._mapped) if d not in self.bound]

    def dims_of(self, position_dim: int) -> list[int]:
        """Return the operand dims that `bound` maps to position dim `position_dim`."""
        return [d for d, bound in self.bound.items() if bound == position_dim]

    def _counted(self, component: int) -> int | None:
        """Return the position dim along which `component` of the indices is 0, 1, 2, ..., or None if it counts along
        none.
        """
        value, inside = self._source(component)
        folded = constant_of(value, self._producers.get, most_elements=_MAX_FOLDED_ELEMENTS)
        if folded is None:
            return None
        column = np.take(folded, inside, self._vector) if self._vector < folded.ndim else folded
        counts = (
            np.arange(n).reshape([n if d == position_dim else 1 for d in range(column.ndim)])
            for position_dim, n in enumerate(self.places)
        )
        return next(
            (position_dim for position_dim, count in enumerate(counts) if count.size > 1 and (column == count).all()),
            None,
        )

    def _source(self, component: int) -> tuple[Value, int]:
        """Find one component of the indices in the operands of the concatenation that built the index vectors.

        Returns:
            The concatenated operand that holds the component, and the component's index in that operand.
        """
        value = self._indices
        while (
            (node := self._producers.get(value)) is not None
            and node.op == "concatenate"
            and node.attrs.dim == self._vector
        ):
            for part in node.operands:
                if component < (count := part.type.sizes[self._vector]):
                    value = part
                    break
                component -= count
        return value, component

    def hit(self, builder: Builder, dim: int, component: int, is_clamped: bool = False) -> Value:
        """Compare a component of the indices with the coordinate along operand dim `dim`.

        Returns an i1 value of the operand's shape, true at the elements that an index addresses. If `is_clamped`, an
        index that is out of bounds addresses the nearest element that is in bounds.
        """
        value, inside = self._source(component)
        if self._vector < value.type.rank and value.type.sizes[self._vector] > 1:
            value = builder.rows(value, self._vector, inside, inside + 1)
        value = builder.reshape(value, self.places)
        # Clamp in the type of the indices: in a signed type, the largest unsigned indices would be negative.
        if is_clamped:
            last = min(self._shape[dim] - 1, np.iinfo(value.type.numpy_dtype).max)
            bounds = [builder.broadcast_scalar(bound, value.type) for bound in (0, last)]
            value = builder.emit("clamp", [bounds[0], value, bounds[1]], value.type)
        is_long = value.type.dtype in ("i64", "ui64", "ui32") or self._shape[dim] >= 2**31
        value = builder.convert(value, "i64" if is_long else "i32")
        dims = {position_dim: d for position_dim in range(len(self.places)) for d in self.dims_of(position_dim)}
        return builder.compare(
            "EQ", self.count(builder, dim, value.type.dtype), spread(builder, value, dims, self._shape)
        )

    def divided(self, builder: Builder, number: int, by: int) -> Value:
        """Return the indices with component `number` divided by `by`.

        The quotient of an index that is out of bounds is also out of bounds, or is the nearest quotient in bounds.
        """
        value = builder.convert(self._indices, "i32") if self._indices.type.dtype == "i8" else self._indices
        quotient = builder.elementwise("divide", value, builder.broadcast_scalar(by, value.type))
        if self._vector >= value.type.rank or value.type.sizes[self._vector] == 1:
            return quotient
        component = builder.emit("iota", [], TensorType(value.type.shape, "i32"), dim=self._vector)
        is_number = builder.compare("EQ", component, builder.broadcast_scalar(number, component.type))
        return builder.emit("select", [is_number, quotient, value], value.type)

    def count(self, builder: Builder, dim: int, dtype: str) -> Value:
        """Return the coordinate along operand dim `dim`, in the shape of the operand."""
        return builder.emit("iota", [], TensorType(tuple(self._shape), dtype), dim=dim)


def spread(builder: Builder, value: Value, dims: Mapping[int, int], shape: Sequence[int]) -> Value:
    """Broadcast `value` to `shape`. `dims` lists the result dim of each dim of `value` that is not dropped."""
    source_dims = sorted(dims)
    value = builder.reshape(value, [value.type.sizes[d] for d in source_dims])
    order = sorted(range(len(source_dims)), key=lambda n: dims[source_dims[n]])
    if order != sorted(order):
        value = builder.transpose(value, order)
    return builder.spread(value, shape, sorted(dims.values()))
