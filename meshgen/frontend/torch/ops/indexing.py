"""PyTorch operations that read and write elements by index."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from meshgen.frontend.torch.ops.scattering import block
from meshgen.frontend.torch.ops.shapes import along
from meshgen.frontend.torch.ops.table import aten, enter_rows
from meshgen.frontend.torch.promotion import on_rows
from meshgen.frontend.tracer import elementwise, indexing
from meshgen.frontend.tracer.creation import iota, zeros
from meshgen.frontend.tracer.logic import where
from meshgen.frontend.tracer.operands import axis_of, broadcast, convert
from meshgen.frontend.tracer.recording import refuse
from meshgen.frontend.tracer.scans import cumsum
from meshgen.frontend.tracer.shapes import broadcast_arrays, moveaxis
from meshgen.frontend.tracer.tensor import Tensor


def embedding(weight: Tensor, indices: Tensor, *_: Any) -> Tensor:
    return indexing.gathered(weight, {0: indices}, 0)


def _entries(x: Tensor, indices: Sequence[Tensor | None]) -> tuple[Any, ...]:
    """Convert torch's list of indices to a NumPy index, in which None becomes a full slice.

    Raises ProgramError for boolean masks, because the size of the result would depend on data.
    """
    for index in indices:
        if index is not None and index.type.dtype == "i1":
            text = "indexing with a boolean mask selects a data-dependent number of elements"
            refuse(text, "keep all elements and choose with torch.where, or sum them under the mask", "MG0103")
    return tuple(slice(None) if index is None else index for index in indices)


@aten("index_put", "_unsafe_index_put")
def index_put(x: Tensor, indices: Sequence[Tensor | None], values: Tensor, accumulate: bool = False) -> Tensor:
    tensor_indices = [index for index in indices if index is not None]
    if len(tensor_indices) == 1 and tensor_indices[0].type.dtype == "i1":
        mask_dim = next(dim for dim, index in enumerate(indices) if index is not None)
        return _put_where(x, mask_dim, tensor_indices[0], values, accumulate)
    entries = x.at[_entries(x, indices)]
    return entries.add(values) if accumulate else entries.set(values)


def _put_where(x: Tensor, at: int, mask: Tensor, values: Tensor, accumulate: bool) -> Tensor:
    """Return `x` after x[.., mask, ..] = values, for a mask over dims from `at` on.

    With `accumulate`, values are added.

    `values` has either one row for all selected positions, or one row for each selected position, in order.
    """
    leading, trailing = x.shape[:at], x.shape[at + mask.ndim :]
    values = values.reshape((1,) * (len(leading) + 1 + len(trailing) - values.ndim) + values.shape)
    shape = values.shape
    if shape[at] == 1:
        rows = values.reshape(shape[:at] + (1,) * mask.ndim + shape[at + 1 :])
    else:
        value_index = elementwise.clip(cumsum(mask.reshape(-1)) - 1, 0, shape[at] - 1)
        rows = indexing.gathered(values, {at: value_index}, at).reshape(shape[:at] + mask.shape + shape[at + 1 :])
    mask = mask.reshape((1,) * at + mask.shape + (1,) * len(trailing))
    rows = convert(rows, x.type.dtype)
    return where(mask, x + rows if accumulate else rows, x)


@aten("masked_scatter")
def masked_scatter(x: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    x, mask = broadcast_arrays(x, mask)
    return _put_where(x, 0, mask, source.reshape(-1), False)


def select_scatter(x: Tensor, src: Tensor, dim: int, index: int) -> Tensor:
    return x.at[along(x, dim, index)].set(src)


def slice_scatter(x: Tensor, src: Tensor, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1) -> Tensor:  # fmt: skip
    return x.at[along(x, dim, slice(start, end, step))].set(src)


def _in_rows(x: Tensor, dim: int, rows: Tensor) -> Any:
    return x.at[along(x, dim, rows.reshape(-1))]


enter_rows({
    "embedding": embedding,
    "index.Tensor _unsafe_index.Tensor": lambda x, indices: x[_entries(x, indices)],
    "take_along_dim": lambda x, index, dim=None: indexing.take_along_axis(x, index, dim),
    "take": lambda x, index: x.reshape(-1)[where(index < 0, index + x.size, index)],
    "select_scatter": select_scatter,
    "slice_scatter": slice_scatter,
})  # fmt: skip
enter_rows({
    "index_select": lambda x, dim, index: x[along(x, dim, index.reshape(-1))],
    "index_copy index_fill": lambda x, dim, index, source: _in_rows(x, dim, index).set(source),
    "index_add": lambda x, dim, index, source, alpha=1: _in_rows(x, dim, index).add(source if alpha == 1 else source * alpha),
}, on_rows)  # fmt: skip


@aten("gather")
def gather(x: Tensor, dim: int, index: Tensor, sparse_grad: bool = False) -> Tensor:
    if not x.ndim:
        return broadcast(x, index.shape)
    dim = axis_of(dim, x.ndim)
    return indexing.take_along_axis(block(x, dim, index.shape), index, dim)


def _size_is_data(name: str, hint: str, *_: Any, **__: Any) -> Any:
    refuse(f"the size of {name}'s result is data", hint, "MG0103")


# Operations whose result size depends on the elements of their operand, with a suggested replacement.
_SIZED_BY_DATA = {
    "nonzero nonzero_numpy argwhere masked_select": "keep all elements and choose with torch.where, or sum them under the mask",
    "_unique _unique2 unique_dim unique_consecutive": "sort the elements and compare neighbors",
    "bincount": "sum torch.nn.functional.one_hot over its rows",
}  # fmt: skip
enter_rows({name: partial(_size_is_data, name, hint) for names, hint in _SIZED_BY_DATA.items() for name in names.split()})  # fmt: skip


@aten("embedding_dense_backward")
def embedding_dense_backward(grad: Tensor, indices: Tensor, num_weights: int, padding_idx: int, scale: bool) -> Tensor:
    """Return the gradient of an embedding table: each row is the sum of the rows of `grad` for its index.

    The row of the padding index is 0.
    """
    width = grad.shape[-1]
    rows, values = indices.reshape(-1), grad.reshape(-1, width)
    if padding_idx >= 0:
        values = where((rows != padding_idx)[:, None], values, 0)
    if scale:
        counts = zeros((num_weights,), "i32").at[rows].add(1)
        values = values / convert(indexing.gathered(counts, {0: rows}, 0)[:, None], values.type.dtype)
    return zeros((num_weights, width), grad.type.dtype).at[rows].add(values)


@aten("diagonal_scatter")
def diagonal_scatter(x: Tensor, src: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    matrices = moveaxis(x, (dim1, dim2), (-2, -1))
    diagonal = np.arange(src.shape[-1], dtype=np.int32)
    updated = matrices.at[..., diagonal + max(0, -offset), diagonal + max(0, offset)].set(src)
    return moveaxis(updated, (-2, -1), (dim1, dim2))


@aten("put")
def put(x: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor:
    """Return `x` with `source` written at `index` in the flattened tensor, or added there if `accumulate` is set."""
    entries = x.reshape(-1).at[index.reshape(-1)]
    values = source.reshape(-1)
    return (entries.add(values) if accumulate else entries.set(values)).reshape(x.shape)


@aten("repeat_interleave.Tensor")
def repeat_interleave(repeats: Tensor, *, output_size: int | None = None) -> Tensor:
    """Return each index i of `repeats`, `repeats[i]` times: [1, 3] -> [0, 1, 1, 1]. `output_size` fixes the size."""
    if output_size is None:
        refuse("the size of repeat_interleave's result is data", "give output_size, the sum of the repeats", "MG0103")
    ends = cumsum(repeats, 0)
    row = iota((output_size, ends.shape[0]), 0, ends.type.dtype)
    return convert((row >= ends).sum(-1), repeats.type.dtype)
