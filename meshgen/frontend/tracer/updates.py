"""Traced updates of elements by index: `x.at[index].set(value)`, `.add`, ..., as in JAX."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from meshgen.frontend.tracer.elementwise import divide, maximum, minimum, multiply, power
from meshgen.frontend.tracer.indexing import ParsedIndex, dynamic_update_slice, getitem, index_vectors, parse_index
from meshgen.frontend.tracer.joining import flip
from meshgen.frontend.tracer.logic import where
from meshgen.frontend.tracer.operands import broadcast, common_shape, tensor
from meshgen.frontend.tracer.recording import missing, named, refuse
from meshgen.frontend.tracer.shapes import reshape, transpose
from meshgen.frontend.tracer.tensor import Operand, Tensor
from meshgen.frontend.tracer.trace_regions import body, emit_regions
from meshgen.ir.graph import TensorType

# Regions of scatters: functions that combine an element with an update.
_COMBINED: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "set": lambda old, new: new,
    "add": lambda old, new: old + new,
    "multiply": multiply,
    "min": minimum,
    "max": maximum,
}


class At:
    """The value of `x.at`; `x.at[index]` selects elements that can be read and updated."""

    def __init__(self, x: Tensor) -> None:
        self._x = x

    def __getitem__(self, index: Any) -> Elements:
        return Elements(self._x, index)


class Elements:
    """The elements `x.at[index]` of a tensor. Each method returns the entire tensor with these elements updated.

    Updates outside the tensor are dropped. If several updates target one element, `add`, `multiply`, `min` and `max`
    apply all of them, and `set` applies the last one. The hints are JAX's: `indices_are_sorted` and `unique_indices`
    are not checked, and `mode` may be any mode that drops updates outside the tensor.
    """

    def __init__(self, x: Tensor, index: Any) -> None:
        self._x, self._index = x, index

    def get(self) -> Tensor:
        """Return the elements: `x[index]`."""
        return getitem(self._x, self._index)

    def set(self, values: Operand, **hints: Any) -> Tensor:
        """Replace the elements by `values`."""
        return self._updated("set", values, **hints)

    def add(self, values: Operand, **hints: Any) -> Tensor:
        """Add `values` to the elements."""
        return self._updated("add", values, **hints)

    def subtract(self, values: Operand, **hints: Any) -> Tensor:
        """Subtract `values` from the elements."""
        return self._updated("add", -tensor(values, self._x.type.dtype), **hints)

    def multiply(self, values: Operand, **hints: Any) -> Tensor:
        """Multiply the elements by `values`."""
        return self._updated("multiply", values, **hints)

    def divide(self, values: Operand, **hints: Any) -> Tensor:
        """Divide the elements by `values`."""
        return self._updated("multiply", divide(1, values), **hints)

    def min(self, values: Operand, **hints: Any) -> Tensor:
        """Replace each element by the minimum of the element and the value for it."""
        return self._updated("min", values, **hints)

    def max(self, values: Operand, **hints: Any) -> Tensor:
        """Replace each element by the maximum of the element and the value for it."""
        return self._updated("max", values, **hints)

    def power(self, values: Operand) -> Tensor:
        """Raise the elements to the power of `values`; the indices must be distinct."""
        return self.set(power(self.get(), values))

    def apply(self, function: Callable[[Tensor], Tensor]) -> Tensor:
        """Replace each element by `function` of the element. The indices must be distinct."""
        return self.set(function(self.get()))

    def __getattr__(self, name: str) -> Any:
        raise missing(name, "x.at[...].", dir(type(self)))

    def _updated(self, kind: str, values: Operand, *, indices_are_sorted: bool = False, unique_indices: bool = False,
                 mode: str | None = None) -> Tensor:  # fmt: skip
        if mode not in (None, "drop", "fill", "promise_in_bounds"):
            refuse(f"mode '{mode}' of an update is not supported", "clip the indices first, with meshgen.clip")
        x = self._x
        values = tensor(values, x.type.dtype)
        mask = self._index
        if isinstance(mask, np.ndarray) and mask.dtype == np.bool_:
            mask = tensor(mask)
        if isinstance(mask, Tensor) and mask.type.dtype == "i1":
            return _where(x, mask, values, kind)
        parsed = parse_index(x, self._index)
        if not parsed.rows and all(r.step == 1 or len(r) < 2 for r in parsed.ranges):
            return _replaced(x, parsed, values, kind)
        return _scattered(x, parsed, values, kind, indices_are_sorted, unique_indices)


@named("at")
def at(x: Tensor) -> At:
    """Return an object for updates by index: `x.at[index].set(values)`, `.add`, `.multiply`, `.min`, `.max`, ...

    Each update returns a new tensor.
    """
    return At(x)


def _where(x: Tensor, mask: Tensor, values: Tensor, kind: str) -> Tensor:
    """Update the elements for which `mask`, a mask over the first dims of x, is True."""
    if mask.shape != x.shape[: mask.ndim]:
        refuse(f"a mask {mask.type} does not fit the first dims of {x.type}")
    if values.ndim:
        refuse("an update with a mask must be a scalar", "use where(mask, values, x) for other values")
    mask_at_rank = reshape(mask, mask.shape + (1,) * (x.ndim - mask.ndim))
    return where(mask_at_rank, _COMBINED[kind](x, values), x)


def _replaced(x: Tensor, parsed: ParsedIndex, values: Tensor, kind: str) -> Tensor:
    """Update a contiguous block of x at a static offset."""
    starts, sizes = [r.start for r in parsed.ranges], [len(r) for r in parsed.ranges]
    values = flip(reshape(_fitting(values, parsed.basic), sizes), parsed.flipped)
    if kind != "set":
        old_values = getitem(x, tuple(slice(r.start, r.start + len(r)) for r in parsed.ranges))
        values = _COMBINED[kind](old_values, values)
    return values if tuple(sizes) == x.shape else dynamic_update_slice(x, values, starts)


def _fitting(values: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Broadcast the updates to `shape`, the shape of the selected elements, after dropping leading dims of size 1."""
    while values.ndim > len(shape) and values.shape[0] == 1:
        values = reshape(values, values.shape[1:])
    return broadcast(values, shape)


def _scattered(x: Tensor, parsed: ParsedIndex, values: Tensor, kind: str, is_sorted: bool, is_unique: bool) -> Tensor:
    """Update elements at dynamic or strided indices with a scatter.

    Each dim of which the index does not select all rows, in order, gets an index tensor.
    """
    full_dims = [b for b in range(len(parsed.dims)) if _is_whole(x, parsed, b)]
    gather_shape = common_shape(*parsed.rows.values()) if parsed.rows else ()
    basic_dims = [b for b in range(len(parsed.basic)) if b not in parsed.rows]
    order = [
        *((b, 0) for b in basic_dims[: parsed.first]),
        *((-1, n) for n in range(len(gather_shape))),
        *((b, 0) for b in basic_dims[parsed.first :]),
    ]
    sizes = [parsed.basic[b] if b >= 0 else gather_shape[n] for b, n in order]
    # The dims of the result along which the indices vary.
    indexed = [entry for entry in order if entry[0] not in full_dims]
    rows = _indices_by_dim(x, parsed, indexed)
    shape, vectors = index_vectors(
        {dim: broadcast(entry, [sizes[order.index(at)] for at in indexed]) for dim, entry in rows.items()}
    )
    updates = transpose(
        _fitting(values, tuple(sizes)), [order.index(entry) for entry in (*indexed, *((b, 0) for b in full_dims))]
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


def _is_whole(x: Tensor, parsed: ParsedIndex, basic: int) -> bool:
    """Whether dim `basic` of the indexed tensor (see `ParsedIndex.basic`) contains all rows of a dim of x, in order."""
    dim = parsed.dims[basic]
    if dim is None or basic in parsed.rows or dim in parsed.flipped:
        return False
    return parsed.ranges[dim] == range(x.shape[dim])


def _indices_by_dim(x: Tensor, parsed: ParsedIndex, numbered: list[tuple[int, int]]) -> dict[int, Tensor]:
    """Return an index tensor for each dim of x of which the index does not select all rows.

    The index tensors broadcast over the dims of the result in `numbered`.
    """
    basic_of = {dim: basic for basic, dim in enumerate(parsed.dims) if dim is not None}
    indices: dict[int, Tensor] = {}
    for dim in range(x.ndim):
        basic = basic_of.get(dim, -2)
        if basic in parsed.rows:
            rows = parsed.rows[basic]
            gather_entries = [at for at in numbered if at[0] == -1][-rows.ndim :] if rows.ndim else []
            indices[dim] = reshape(
                rows, [rows.shape[gather_entries.index(at)] if at in gather_entries else 1 for at in numbered]
            )
        elif basic == -2 or (basic, 0) in numbered:
            selected = parsed.ranges[dim][::-1] if dim in parsed.flipped else parsed.ranges[dim]
            index_shape = [len(selected) if at == (basic, 0) else 1 for at in numbered]
            indices[dim] = tensor(np.asarray(selected, np.int32).reshape(index_shape))
    return indices
