"""PyTorch embedding bags, their gradients, and embedding renormalization.

An embedding bag is the sum, mean or maximum of several rows of a table.
"""

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
    """Reduce the table rows of each bag: sum (mode 0), mean (1) or maximum (2).

    Bag i consists of the rows `indices[offsets[i]]` to `indices[offsets[i + 1] - 1]` of the table `weight`.

    Returns:
        The reduced rows; the bag of each index (empty in cases where torch does not compute it); the size of each bag;
        and
        the table row of each maximum.
    """
    del scale_grad_by_freq, sparse
    num_bags = offsets.shape[0] - include_last_offset
    offsets = offsets[:num_bags]
    index_bags = _bag_of_index(indices, offsets)
    rows, dtype = wide(embedding(weight, indices))
    if per_sample_weights is not None:
        rows = rows * convert(per_sample_weights, rows.type.dtype)[:, None]
    counts = convert(indices != (-1 if padding_idx is None else padding_idx), "i32")
    sizes = zeros((num_bags,), "i32").at[index_bags].add(counts)
    is_counted, has_rows = (counts != 0)[:, None], (sizes != 0)[:, None]
    max_rows = convert(sizes, "i64")
    if mode == 2:
        lowest = -math.inf
        reduced = (
            full((num_bags, weight.shape[1]), lowest, rows.type.dtype)
            .at[index_bags]
            .max(where(is_counted, rows, lowest))
        )
        is_max = is_counted & (rows == gathered(reduced, {0: index_bags}, 0))
        num_indices = indices.shape[0]
        position = iota(rows.shape, 0, "i32")  # Of equal elements, torch selects the first one in the bag.
        first_max = full(reduced.shape, num_indices, "i32").at[index_bags].min(where(is_max, position, num_indices))
        max_rows = (
            indices[elementwise.minimum(first_max, num_indices - 1)] if num_indices else zeros(reduced.shape, "i64")
        )
        max_rows = where(has_rows, convert(max_rows, "i64"), -1)
        reduced = where(has_rows, reduced, 0)
    else:
        reduced = zeros((num_bags, weight.shape[1]), rows.type.dtype).at[index_bags].add(where(is_counted, rows, 0))
        reduced = where(has_rows, reduced / sizes[:, None], 0) if mode == 1 else reduced
    omits_bags = mode == 0 and padding_idx in (None, -1) and dtype in ("f32", "f16")
    bag_of_each = zeros((0,), "i64") if omits_bags else convert(index_bags, "i64")
    return convert(reduced, dtype), bag_of_each, convert(sizes, "i64"), max_rows


def _bag_of_index(indices: Tensor, offsets: Tensor) -> Tensor:
    positions = iota(indices.shape, 0, offsets.type.dtype)
    return convert(searching.searchsorted(offsets, positions, "right"), "i32") - 1


@aten("_embedding_bag_backward")
def embedding_bag_backward(grad: Tensor, indices: Tensor, offsets: Tensor, bags: Tensor, sizes: Tensor, max_rows: Tensor,
                           num_weights: int, scale_grad_by_freq: bool, mode: int, sparse: bool, per_sample_weights: Tensor | None,
                           padding_idx: int = -1) -> Tensor:  # fmt: skip
    """Return the gradient of the table.

    A table row receives the gradient of each bag that contains it: unchanged for sums, divided by the bag size for
    means. For maxima, the row receives the gradient only of those elements that were the maximum.
    """
    del bags, sparse
    table = zeros((num_weights, grad.shape[1]), grad.type.dtype)
    if mode == 2:
        columns = broadcast(iota(max_rows.shape, 1, max_rows.type.dtype), max_rows.shape)
        return table.at[(where(max_rows < 0, num_weights, max_rows), columns)].add(grad)
    share = grad / convert(elementwise.maximum(sizes, 1)[:, None], grad.type.dtype) if mode == 1 else grad
    rows = gathered(share, {0: _bag_of_index(indices, offsets[: sizes.shape[0]])}, 0)
    if per_sample_weights is not None:
        rows = rows * per_sample_weights[:, None]
    if scale_grad_by_freq:
        counts = zeros((num_weights,), "i32").at[indices].add(1)
        rows = rows / convert(gathered(counts, {0: indices}, 0)[:, None], grad.type.dtype)
    return table.at[where(indices == padding_idx, num_weights, indices)].add(rows)


@aten("_embedding_bag_per_sample_weights_backward")
def embedding_bag_weights_backward(grad: Tensor, weight: Tensor, indices: Tensor, offsets: Tensor, bags: Tensor, mode: int,
                                   padding_idx: int = -1) -> Tensor:  # fmt: skip
    """Return the gradient of `per_sample_weights`, the factors of the rows in the sums of `embedding_bag`."""
    del bags, mode
    bag_of_each = _bag_of_index(indices, offsets[: grad.shape[0]])
    products = (gathered(grad, {0: bag_of_each}, 0) * embedding(weight, indices)).sum(-1)
    return where(indices == padding_idx, 0, products)


@aten("embedding_renorm")
def embedding_renorm(weight: Tensor, indices: Tensor, max_norm: float, norm_type: float) -> Tensor:
    """Return the table in which the rows at `indices` whose norm exceeds `max_norm` are scaled down to this norm."""
    norms = vector_norm(weight, norm_type, -1, True)
    is_read = zeros((weight.shape[0],), "i1").at[indices.reshape(-1)].set(True)
    is_large = is_read[:, None] & (norms > max_norm)
    return where(is_large, weight * (max_norm / (norms + 1e-7)), weight)
