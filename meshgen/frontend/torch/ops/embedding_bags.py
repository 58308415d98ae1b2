"""PyTorch's bags of embeddings: sums, means and maxima of rows of a table, and their gradients; and rows of a limited norm."""

from __future__ import annotations

import math

from meshgen.frontend.torch.ops.indexing import embedding
from meshgen.frontend.torch.ops.reductions import vector_norm
from meshgen.frontend.torch.ops.table import aten
from meshgen.frontend.torch.promotion import wide
from meshgen.frontend.tracer import elementwise, searching
from meshgen.frontend.tracer.creation import full, iota, zeros
from meshgen.frontend.tracer.indexing import gathered
from meshgen.frontend.tracer.logic import where
from meshgen.frontend.tracer.operands import broadcast, convert
from meshgen.frontend.tracer.tensor import Tensor


@aten("_embedding_bag", "_embedding_bag_forward_only", "embedding_bag", "embedding_bag.padding_idx")
def embedding_bag(weight: Tensor, indices: Tensor, offsets: Tensor, scale_grad_by_freq: bool = False, mode: int = 0, sparse: bool = False, per_sample_weights: Tensor | None = None,
                  include_last_offset: bool = False, padding_idx: int | None = -1) -> tuple[Tensor, ...]:  # fmt: skip
    """Return sums (mode 0), means (1) or maxima (2) of the rows of each bag: `offsets` are where bags begin among the indices.

    Beside these are the bag of each index (empty where torch sums without it), how many rows each bag has, and the row of each maximum.
    """
    del scale_grad_by_freq, sparse
    count = offsets.shape[0] - include_last_offset
    offsets = offsets[:count]
    bags = _bag_of_each(indices, offsets)
    rows, dtype = wide(embedding(weight, indices))
    if per_sample_weights is not None:
        rows = rows * convert(per_sample_weights, rows.type.dtype)[:, None]
    counted = convert(indices != (-1 if padding_idx is None else padding_idx), "i32")
    sizes = zeros((count,), "i32").at[bags].add(counted)
    is_counted, has_rows = (counted != 0)[:, None], (sizes != 0)[:, None]
    largest = convert(sizes, "i64")
    if mode == 2:
        lowest = -math.inf
        found = full((count, weight.shape[1]), lowest, rows.type.dtype).at[bags].max(where(is_counted, rows, lowest))
        is_largest = is_counted & (rows == gathered(found, {0: bags}, 0))
        count_of_rows = indices.shape[0]
        place = iota(rows.shape, 0, "i32")  # of equal elements torch takes the first of the bag
        first = full(found.shape, count_of_rows, "i32").at[bags].min(where(is_largest, place, count_of_rows))
        largest = indices[elementwise.minimum(first, count_of_rows - 1)] if count_of_rows else zeros(found.shape, "i64")
        largest = where(has_rows, convert(largest, "i64"), -1)
        found = where(has_rows, found, 0)
    else:
        found = zeros((count, weight.shape[1]), rows.type.dtype).at[bags].add(where(is_counted, rows, 0))
        found = where(has_rows, found / sizes[:, None], 0) if mode == 1 else found
    has_no_bags = mode == 0 and padding_idx in (None, -1) and dtype in ("f32", "f16")
    bag_of_each = zeros((0,), "i64") if has_no_bags else convert(bags, "i64")
    return convert(found, dtype), bag_of_each, convert(sizes, "i64"), largest


def _bag_of_each(indices: Tensor, offsets: Tensor) -> Tensor:
    places = iota(indices.shape, 0, offsets.type.dtype)
    return convert(searching.searchsorted(offsets, places, "right"), "i32") - 1


@aten("_embedding_bag_backward")
def embedding_bag_backward(grad: Tensor, indices: Tensor, offsets: Tensor, bags: Tensor, sizes: Tensor, largest: Tensor,
                           num_weights: int, scale_grad_by_freq: bool, mode: int, sparse: bool, per_sample_weights: Tensor | None,
                           padding_idx: int = -1) -> Tensor:  # fmt: skip
    """Return the gradient of the table: each row gets the gradient of its bag, its share of a mean, or that of its maxima."""
    del bags, sparse
    table = zeros((num_weights, grad.shape[1]), grad.type.dtype)
    if mode == 2:
        column = broadcast(iota(largest.shape, 1, largest.type.dtype), largest.shape)
        return table.at[(where(largest < 0, num_weights, largest), column)].add(grad)
    share = grad / convert(elementwise.maximum(sizes, 1)[:, None], grad.type.dtype) if mode == 1 else grad
    rows = gathered(share, {0: _bag_of_each(indices, offsets[: sizes.shape[0]])}, 0)
    if per_sample_weights is not None:
        rows = rows * per_sample_weights[:, None]
    if scale_grad_by_freq:
        counts = zeros((num_weights,), "i32").at[indices].add(1)
        rows = rows / convert(gathered(counts, {0: indices}, 0)[:, None], grad.type.dtype)
    return table.at[where(indices == padding_idx, num_weights, indices)].add(rows)


@aten("_embedding_bag_per_sample_weights_backward")
def embedding_bag_weights_backward(grad: Tensor, weight: Tensor, indices: Tensor, offsets: Tensor, bags: Tensor, mode: int,
                                   padding_idx: int = -1) -> Tensor:  # fmt: skip
    """Return the gradient of the factor of each row of a sum."""
    del bags, mode
    bag_of_each = _bag_of_each(indices, offsets[: grad.shape[0]])
    products = (gathered(grad, {0: bag_of_each}, 0) * embedding(weight, indices)).sum(-1)
    return where(indices == padding_idx, 0, products)


@aten("embedding_renorm")
def embedding_renorm(weight: Tensor, indices: Tensor, max_norm: float, norm_type: float) -> Tensor:
    """Return the table with the rows that are looked up scaled to at most a norm."""
    size = vector_norm(weight, norm_type, -1, True)
    is_read = zeros((weight.shape[0],), "i1").at[indices.reshape(-1)].set(True)
    is_large = is_read[:, None] & (size > max_norm)
    return where(is_large, weight * (max_norm / (size + 1e-7)), weight)
