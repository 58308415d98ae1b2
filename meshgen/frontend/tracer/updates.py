"""Traced changes of elements: `x.at[index].set(value)`, `.add`, ..., as in JAX."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from meshgen.frontend.tracer.elementwise import divide, maximum, minimum, multiply, power
from meshgen.frontend.tracer.indexing import Places, dynamic_update_slice, getitem, index_vectors, places
from meshgen.frontend.tracer.joining import flip
from meshgen.frontend.tracer.logic import where
from meshgen.frontend.tracer.operands import broadcast, common_shape, tensor
from meshgen.frontend.tracer.recording import missing, named, refuse
from meshgen.frontend.tracer.regions import body, emit_regions
from meshgen.frontend.tracer.shapes import reshape, transpose
from meshgen.frontend.tracer.tensor import Operand, Tensor
from meshgen.ir.graph import TensorType

# How an element and its update are combined, in the region of a scatter.
_COMBINED: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "set": lambda old, new: new,
    "add": lambda old, new: old + new,
    "multiply": multiply,
    "min": minimum,
    "max": maximum,
}


class At:
    """`x.at`; `x.at[index]` are elements that can be read and changed."""

    def __init__(self, x: Tensor) -> None:
        self._x = x

    def __getitem__(self, index: Any) -> Elements:
        return Elements(self._x, index)


class Elements:
    """Elements of a tensor. Each method gives the whole tensor with these changed; an update outside of it is left out.

    Several updates of one element are all taken by `add`, `multiply`, `min` and `max`; of `set` it gets the last one. Hints are those
    of JAX: `indices_are_sorted` and `unique_indices` are believed, `mode` may be any that leaves out what is outside.
    """

    def __init__(self, x: Tensor, index: Any) -> None:
        self._x, self._index = x, index

    def get(self) -> Tensor:
        """The elements themselves, as `x[index]`."""
        return getitem(self._x, self._index)

    def set(self, values: Operand, **hints: Any) -> Tensor:
        """With the values in their place."""
        return self._updated("set", values, **hints)

    def add(self, values: Operand, **hints: Any) -> Tensor:
        """With the values added."""
        return self._updated("add", values, **hints)

    def subtract(self, values: Operand, **hints: Any) -> Tensor:
        """With the values subtracted."""
        return self._updated("add", -tensor(values, self._x.type.dtype), **hints)

    def multiply(self, values: Operand, **hints: Any) -> Tensor:
        """With the values as factors."""
        return self._updated("multiply", values, **hints)

    def divide(self, values: Operand, **hints: Any) -> Tensor:
        """With the values as divisors."""
        return self._updated("multiply", divide(1, values), **hints)

    def min(self, values: Operand, **hints: Any) -> Tensor:
        """With the smaller of each element and its value."""
        return self._updated("min", values, **hints)

    def max(self, values: Operand, **hints: Any) -> Tensor:
        """With the larger of each element and its value."""
        return self._updated("max", values, **hints)

    def power(self, values: Operand) -> Tensor:
        """To the power of the values; for places that differ."""
        return self.set(power(self.get(), values))

    def apply(self, function: Callable[[Tensor], Tensor]) -> Tensor:
        """With a function of them in their place; for places that differ."""
        return self.set(function(self.get()))

    def __getattr__(self, name: str) -> Any:
        raise missing(name, "x.at[...].", dir(type(self)))

    def _updated(self, kind: str, values: Operand, *, indices_are_sorted: bool = False, unique_indices: bool = False,
                 mode: str | None = None) -> Tensor:  # fmt: skip
        if mode not in (None, "drop", "fill", "promise_in_bounds"):
            refuse(f"mode '{mode}' of an update is not supported", "clip the indices first, with meshgen.clip")
        x = self._x
        values = tensor(values, x.type.dtype)
        flags = self._index
        if isinstance(flags, np.ndarray) and flags.dtype == np.bool_:
            flags = tensor(flags)
        if isinstance(flags, Tensor) and flags.type.dtype == "i1":
            return _where(x, flags, values, kind)
        found = places(x, self._index)
        if not found.rows and all(r.step == 1 or len(r) < 2 for r in found.ranges):
            return _replaced(x, found, values, kind)
        return _scattered(x, found, values, kind, indices_are_sorted, unique_indices)


@named("at")
def at(x: Tensor) -> At:
    """`x.at[index].set(values)`, `.add`, `.multiply`, `.min`, `.max`, ...: the tensor with changed elements."""
    return At(x)


def _where(x: Tensor, flags: Tensor, values: Tensor, kind: str) -> Tensor:
    """Elements where flags over the first dims hold."""
    if flags.shape != x.shape[: flags.ndim]:
        refuse(f"flags {flags.type} do not fit the first dims of {x.type}")
    if values.ndim:
        refuse("elements chosen by flags are changed by one number", "use where(flags, values, x) for others")
    spread = reshape(flags, flags.shape + (1,) * (x.ndim - flags.ndim))
    return where(spread, _COMBINED[kind](x, values), x)


def _replaced(x: Tensor, found: Places, values: Tensor, kind: str) -> Tensor:
    """A block at a fixed place."""
    starts, sizes = [r.start for r in found.ranges], [len(r) for r in found.ranges]
    values = flip(reshape(_fitting(values, found.basic), sizes), found.flipped)
    if kind != "set":
        old = getitem(x, tuple(slice(r.start, r.start + len(r)) for r in found.ranges))
        values = _COMBINED[kind](old, values)
    return values if tuple(sizes) == x.shape else dynamic_update_slice(x, values, starts)


def _fitting(values: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Updates at the shape of the elements."""
    while values.ndim > len(shape) and values.shape[0] == 1:
        values = reshape(values, values.shape[1:])
    return broadcast(values, shape)


def _scattered(x: Tensor, found: Places, values: Tensor, kind: str, is_sorted: bool, is_unique: bool) -> Tensor:
    """Elements at places that are data, or that are apart: every dim that is not taken whole has row numbers."""
    whole = [b for b in range(len(found.dims)) if _is_whole(x, found, b)]
    common = common_shape(*found.rows.values()) if found.rows else ()
    stays = [b for b in range(len(found.basic)) if b not in found.rows]
    order = [
        *((b, 0) for b in stays[: found.first]),
        *((-1, n) for n in range(len(common))),
        *((b, 0) for b in stays[found.first :]),
    ]
    sizes = [found.basic[b] if b >= 0 else common[n] for b, n in order]
    numbered = [each for each in order if each[0] not in whole]  # the result's dims along which row numbers go
    rows = _row_numbers_by_dim(x, found, numbered)
    shape, vectors = index_vectors(
        {dim: broadcast(each, [sizes[order.index(at)] for at in numbered]) for dim, each in rows.items()}
    )
    updates = transpose(
        _fitting(values, tuple(sizes)), [order.index(each) for each in (*numbered, *((b, 0) for b in whole))]
    )
    element = TensorType((), x.type.dtype)
    attrs = {
        "update_window_dims": tuple(range(len(shape), updates.ndim)),
        "inserted_window_dims": tuple(rows),
        "input_batching_dims": (),
        "scatter_indices_batching_dims": (),
        "scatter_dims_to_operand_dims": tuple(rows),
        "index_vector_dim": len(shape),
        "indices_are_sorted": is_sorted,
        "unique_indices": is_unique,
    }
    return emit_regions("scatter", [x, vectors, updates], [x.type], [body(_COMBINED[kind], element, element)], attrs)[0]


def _is_whole(x: Tensor, found: Places, basic: int) -> bool:
    """Whether a dim of the result is a dim of the tensor as it is."""
    dim = found.dims[basic]
    if dim is None or basic in found.rows or dim in found.flipped:
        return False
    return found.ranges[dim] == range(x.shape[dim])


def _row_numbers_by_dim(x: Tensor, found: Places, numbered: list[tuple[int, int]]) -> dict[int, Tensor]:
    """Row numbers of each dim of the tensor that is not whole, along those dims of the result that it depends on."""
    basic_of = {dim: basic for basic, dim in enumerate(found.dims) if dim is not None}
    numbers: dict[int, Tensor] = {}
    for dim in range(x.ndim):
        basic = basic_of.get(dim, -2)
        if basic in found.rows:
            rows = found.rows[basic]
            lead = [at for at in numbered if at[0] == -1][-rows.ndim :] if rows.ndim else []
            numbers[dim] = reshape(rows, [rows.shape[lead.index(at)] if at in lead else 1 for at in numbered])
        elif basic == -2 or (basic, 0) in numbered:
            taken = found.ranges[dim][::-1] if dim in found.flipped else found.ranges[dim]
            at_once = [len(taken) if at == (basic, 0) else 1 for at in numbered]
            numbers[dim] = tensor(np.asarray(taken, np.int32).reshape(at_once))
    return numbers
