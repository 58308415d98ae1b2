"""PyTorch's operations that read and write elements by number."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from meshgen.frontend.torch.ops.shapes import slice_
from meshgen.frontend.torch.ops.table import aten, enter
from meshgen.frontend.torch.promotion import wide
from meshgen.frontend.tracer import elementwise, indexing, searching
from meshgen.frontend.tracer.creation import full, iota, zeros
from meshgen.frontend.tracer.indexing import getitem
from meshgen.frontend.tracer.logic import where
from meshgen.frontend.tracer.operands import axis_of, broadcast, convert, tensor
from meshgen.frontend.tracer.recording import refuse
from meshgen.frontend.tracer.regions import body, emit_regions
from meshgen.frontend.tracer.sampling import grid_samples
from meshgen.frontend.tracer.scans import cumsum
from meshgen.frontend.tracer.shapes import broadcast_arrays, expand_dims, moveaxis, reshape
from meshgen.frontend.tracer.tensor import Operand, Tensor
from meshgen.ir.graph import TensorType


@aten("embedding")
def embedding(weight: Tensor, indices: Tensor, *_: Any) -> Tensor:
    return indexing.gathered(weight, {0: indices}, 0)


def _entries(x: Tensor, indices: Sequence[Tensor | None]) -> tuple[Any, ...]:
    """An index as NumPy has it: None of PyTorch stands for all rows."""
    for each in indices:
        if each is not None and each.type.dtype == "i1":
            text = "indexing with truth values gives as many elements as hold, which is data"
            refuse(text, "keep all elements and choose with torch.where, or sum them under the mask", "MG0103")
    return tuple(slice(None) if each is None else each for each in indices)


@aten("index.Tensor", "_unsafe_index.Tensor")
def index(x: Tensor, indices: Sequence[Tensor | None]) -> Tensor:
    return indexing.getitem(x, _entries(x, indices))


@aten("index_put", "_unsafe_index_put")
def index_put(x: Tensor, indices: Sequence[Tensor | None], values: Tensor, accumulate: bool = False) -> Tensor:
    given = [each for each in indices if each is not None]
    if len(given) == 1 and given[0].type.dtype == "i1":
        at = next(dim for dim, each in enumerate(indices) if each is not None)
        return _put_where(x, at, given[0], values, accumulate)
    entries = x.at[_entries(x, indices)]
    return entries.add(values) if accumulate else entries.set(values)


def _put_where(x: Tensor, at: int, mask: Tensor, values: Tensor, accumulate: bool) -> Tensor:
    """x[.., mask, ..] = values, for a mask over the dims from `at` on: one value for all, or as many as hold, in their order."""
    before, after = x.shape[:at], x.shape[at + mask.ndim :]
    values = reshape(values, (1,) * (len(before) + 1 + len(after) - values.ndim) + values.shape)
    own = values.shape
    if own[at] == 1:
        rows = reshape(values, own[:at] + (1,) * mask.ndim + own[at + 1 :])
    else:
        number = elementwise.clip(cumsum(reshape(mask, -1)) - 1, 0, own[at] - 1)
        rows = reshape(indexing.gathered(values, {at: number}, at), own[:at] + mask.shape + own[at + 1 :])
    mask = reshape(mask, (1,) * at + mask.shape + (1,) * len(after))
    rows = convert(rows, x.type.dtype)
    return where(mask, x + rows if accumulate else rows, x)


@aten("masked_scatter")
def masked_scatter(x: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    x, mask = broadcast_arrays(x, mask)
    return _put_where(x, 0, mask, reshape(source, -1), False)


@aten("index_select")
def index_select(x: Tensor, dim: int, index: Tensor) -> Tensor:
    return indexing.getitem(x, (slice(None),) * axis_of(dim, x.ndim) + (index,))


def _along(x: Tensor, dim: int, rows: Tensor) -> Any:
    """`x.at[...]` of rows along a dim."""
    return x.at[(slice(None),) * axis_of(dim, x.ndim) + (rows,)]


@aten("index_copy")
def index_copy(x: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    return _along(x, dim, index).set(source)


@aten("index_fill")
def index_fill(x: Tensor, dim: int, index: Tensor, value: Operand) -> Tensor:
    return _along(x, dim, index).set(value)


@aten("index_add")
def index_add(x: Tensor, dim: int, index: Tensor, source: Tensor, alpha: complex = 1) -> Tensor:
    return _along(x, dim, index).add(source if alpha == 1 else source * alpha)


def _block(x: Tensor, dim: int, sizes: Sequence[int]) -> Tensor:
    """The first rows of the dims beside `dim`, as many as an index has."""
    for d, size in enumerate(sizes):
        x = x if d == dim else slice_(x, d, 0, size)
    return x


@aten("gather")
def gather(x: Tensor, dim: int, index: Tensor, sparse_grad: bool = False) -> Tensor:
    if not x.ndim:
        return broadcast(x, index.shape)
    dim = axis_of(dim, x.ndim)
    return indexing.take_along_axis(_block(x, dim, index.shape), index, dim)


@aten("take_along_dim")
def take_along_dim(x: Tensor, index: Tensor, dim: int | None = None) -> Tensor:
    return indexing.take_along_axis(x, index, dim)


def _scattered_along(
    x: Tensor, dim: int, index: Tensor, values: Operand, combine: Callable[[Tensor, Tensor], Any]
) -> Tensor:
    """x with elements along a dim combined with values, at numbers that are given per element; the other dims are those of the index."""
    if not x.ndim:
        return combine(x, reshape(tensor(values, x.type.dtype), ()))
    dim = axis_of(dim, x.ndim)
    part, others = _block(x, dim, index.shape), tuple(d for d in range(x.ndim) if d != dim)
    values = tensor(values, x.type.dtype)
    values = broadcast(values, index.shape) if not values.ndim else _block(slice_(values, dim, 0, index.shape[dim]), dim, index.shape)  # fmt: skip
    attrs = {
        "update_window_dims": (), "inserted_window_dims": (dim,), "input_batching_dims": others,
        "scatter_indices_batching_dims": others, "scatter_dims_to_operand_dims": (dim,), "index_vector_dim": x.ndim,
        "indices_are_sorted": False, "unique_indices": False,
    }  # fmt: skip
    element = TensorType((), x.type.dtype)
    operands = [part, expand_dims(index, x.ndim), values]
    found = emit_regions("scatter", operands, [part.type], [body(combine, element, element)], attrs)[0]
    return found if part.shape == x.shape else indexing.dynamic_update_slice(x, found, [0] * x.ndim)


_COMBINED: dict[str, Callable[[Tensor, Tensor], Any]] = {
    "": lambda old, new: new, "add": lambda old, new: old + new, "sum": lambda old, new: old + new,
    "multiply": elementwise.multiply, "prod": elementwise.multiply, "amax": elementwise.maximum, "amin": elementwise.minimum,
}  # fmt: skip


@aten("scatter")
def scatter(x: Tensor, dim: int, index: Tensor, src: Operand, *, reduce: str = "") -> Tensor:
    return _scattered_along(x, dim, index, src, _COMBINED[reduce])


@aten("scatter_add")
def scatter_add(x: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
    return _scattered_along(x, dim, index, src, _COMBINED["add"])


@aten("scatter_reduce.two")
def scatter_reduce(x: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, include_self: bool = True) -> Tensor:
    if reduce not in _COMBINED or not include_self:
        refuse(f"scatter_reduce with reduce='{reduce}', include_self={include_self} is not supported", "", "MG0103")
    return _scattered_along(x, dim, index, src, _COMBINED[reduce])


@aten("select_scatter")
def select_scatter(x: Tensor, src: Tensor, dim: int, index: int) -> Tensor:
    return x.at[(slice(None),) * axis_of(dim, x.ndim) + (index,)].set(src)


@aten("slice_scatter")
def slice_scatter(x: Tensor, src: Tensor, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1) -> Tensor:  # fmt: skip
    return x.at[(slice(None),) * axis_of(dim, x.ndim) + (slice(start, end, step),)].set(src)


@aten("bucketize.Tensor")
def bucketize(values: Tensor, table: Tensor, *, out_int32: bool = False, right: bool = False) -> Tensor:
    return convert(searching.searchsorted(table, values, "right" if right else "left"), "i32" if out_int32 else "i64")


def _of_data(name: str, hint: str) -> None:
    """Refuse an operation that gives as many elements as its operand's elements say."""

    def refused(*_: Any, **__: Any) -> Any:
        refuse(f"the size of {name}'s result is data", hint, "MG0103")

    enter([name], refused)


for _name in ("nonzero", "nonzero_numpy", "argwhere", "masked_select"):
    _of_data(_name, "keep all elements and choose with torch.where, or sum them under the mask")
for _name in ("_unique", "_unique2", "unique_dim", "unique_consecutive"):
    _of_data(_name, "sort the elements and compare neighbours")
_of_data("bincount", "sum torch.nn.functional.one_hot over its rows")


@aten("histc")
def histc(x: Tensor, bins: int = 100, min: float = 0, max: float = 0) -> Tensor:
    if min == max:
        refuse("histc without bounds counts between the smallest and largest element", "give min and max", "MG0103")
    place = elementwise.clip((x - min) * (bins / (max - min)), 0, bins - 1)
    counted = convert(place, "i32")
    inside = (x >= min) & (x <= max)
    hits = (expand_dims(counted, x.ndim) == iota((*x.shape, bins), x.ndim)) & expand_dims(inside, x.ndim)
    return convert(hits, x.type.dtype).sum(tuple(range(x.ndim)), dtype=x.type.dtype)


@aten("embedding_dense_backward")
def embedding_dense_backward(grad: Tensor, indices: Tensor, num_weights: int, padding_idx: int, scale: bool) -> Tensor:
    """Rows of the gradient added at their places; those of the padding are left out."""
    width = grad.shape[-1]
    rows, values = reshape(indices, -1), reshape(grad, (-1, width))
    if padding_idx >= 0:
        values = where(expand_dims(rows != padding_idx, 1), values, 0)
    if scale:
        refuse("the gradient of an embedding with scale_grad_by_freq is not supported", "", "MG0103")
    zeros = tensor(np.zeros((), np.float32), grad.type.dtype)
    return broadcast(zeros, (num_weights, width)).at[rows].add(values)


@aten("diagonal_scatter")
def diagonal_scatter(x: Tensor, src: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    matrices = moveaxis(x, (dim1, dim2), (-2, -1))
    along = np.arange(src.shape[-1], dtype=np.int32)
    found = matrices.at[(..., along + max(0, -offset), along + max(0, offset))].set(src)
    return moveaxis(found, (-2, -1), (dim1, dim2))


@aten("_embedding_bag", "_embedding_bag_forward_only", "embedding_bag", "embedding_bag.padding_idx")
def embedding_bag(weight: Tensor, indices: Tensor, offsets: Tensor, scale_grad_by_freq: bool = False, mode: int = 0, sparse: bool = False, per_sample_weights: Tensor | None = None,
                  include_last_offset: bool = False, padding_idx: int | None = -1) -> tuple[Tensor, None, Tensor, None]:  # fmt: skip
    """Sums (mode 0), means (1) or maxima (2) of the rows of each bag: `offsets` are where bags begin among the indices.

    Beside these how many rows each bag has; what gradients read, the bag of each index and the places of maxima, is left out.
    """
    del scale_grad_by_freq, sparse
    count = offsets.shape[0] - include_last_offset
    offsets = offsets[:count]
    places = iota(indices.shape, 0, offsets.type.dtype)
    bags = convert(searching.searchsorted(offsets, places, "right"), "i32") - 1
    rows, dtype = wide(embedding(weight, indices))
    if per_sample_weights is not None:
        rows = rows * expand_dims(convert(per_sample_weights, rows.type.dtype), 1)
    counted = convert(indices != (-1 if padding_idx is None else padding_idx), "i32")
    sizes = zeros((count,), "i32").at[bags].add(counted)
    is_counted, has_rows = expand_dims(counted != 0, 1), expand_dims(sizes != 0, 1)
    if mode == 2:
        lowest = -math.inf
        found = full((count, weight.shape[1]), lowest, rows.type.dtype).at[bags].max(where(is_counted, rows, lowest))
        found = where(has_rows, found, 0)
    else:
        found = zeros((count, weight.shape[1]), rows.type.dtype).at[bags].add(where(is_counted, rows, 0))
        found = where(has_rows, found / expand_dims(sizes, 1), 0) if mode == 1 else found
    return convert(found, dtype), None, convert(sizes, "i64"), None


@aten("grid_sampler", "grid_sampler_2d", "grid_sampler_3d")
def grid_sampler(x: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool) -> Tensor:
    """Samples of images at places: modes are bilinear, nearest, bicubic; padding zeros, border, reflection."""
    mode, padding = ("linear", "nearest", "cubic")[interpolation_mode], ("zeros", "border", "reflection")[padding_mode]
    return grid_samples(x, grid, mode, padding, align_corners)


@aten("put")
def put(x: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor:
    """x with elements of its flat form replaced, or added to."""
    entries = reshape(x, (-1,)).at[reshape(index, (-1,))]
    values = reshape(source, (-1,))
    return reshape(entries.add(values) if accumulate else entries.set(values), x.shape)


@aten("take")
def take(x: Tensor, index: Tensor) -> Tensor:
    """Elements of the flat form; negative numbers count from its end."""
    return getitem(reshape(x, (-1,)), (where(index < 0, index + x.size, index),))
