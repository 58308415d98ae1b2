"""PyTorch pooling of images and its gradients.

Images are [batch, features, rows, ...], or [features, rows, ...] without a batch dim.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial, reduce
from typing import Any

import numpy as np

from meshgen.frontend.torch.ops.conv import Sizes, per_spatial_dim
from meshgen.frontend.torch.ops.resizing import multiply_by_tables
from meshgen.frontend.torch.ops.scattering import scatter
from meshgen.frontend.torch.ops.table import enter_rows
from meshgen.frontend.torch.promotion import wide
from meshgen.frontend.tracer import elementwise, searching
from meshgen.frontend.tracer.creation import zeros
from meshgen.frontend.tracer.logic import where
from meshgen.frontend.tracer.operands import broadcast, convert, tensor
from meshgen.frontend.tracer.pooling import Windows, over_windows
from meshgen.frontend.tracer.reduce import extreme
from meshgen.frontend.tracer.scans import windows
from meshgen.frontend.tracer.tensor import Tensor
from meshgen.ir.graph import is_inexact

Array = np.ndarray[Any, Any]


def _windows(x: Tensor, count: int, size: Sizes, stride: Sizes | None, padding: Sizes = 0, dilation: Sizes = 1, ceil_mode: bool = False) -> list[Windows]:  # fmt: skip
    sizes, pads, dilations = (per_spatial_dim(value, count) for value in (size, padding, dilation))
    steps = per_spatial_dim(stride, count) if stride else sizes
    geometry = zip(x.shape[x.ndim - count :], sizes, steps, pads, pads, dilations, strict=True)
    return [Windows(*value, is_ceil=ceil_mode) for value in geometry]


def _outer(vectors: Sequence[Array], combine: Callable[[Array, Array], Array] = np.multiply) -> Array:
    """Combine vectors, one per dim, into an array over all dims. By default, this is the outer product."""
    return reduce(lambda left, right: combine(left[..., None], right), vectors)


# Maxima --------------------------------------------------------------------------------------------------------------


def _max_with_index(x: Tensor, window_rows: Sequence[Array]) -> tuple[Tensor, Tensor]:
    """Return the maximum of each window, and its index in the flattened image; of equal elements, the first one counts.

    `window_rows` has an array [windows, size] per spatial dim: the rows of the image in each window. Rows outside of
    the image are ignored.
    """
    count, sizes = len(window_rows), [row_table.shape[1] for row_table in window_rows]
    leading, image_sizes = x.shape[: x.ndim - count], x.shape[x.ndim - count :]
    shape = [*(row_table.shape[0] for row_table in window_rows), *sizes]
    flat, is_inside = np.zeros(shape, np.int64), np.ones(shape, bool)
    for d, (rows, size) in enumerate(zip(window_rows, image_sizes, strict=True)):
        coordinate = rows.reshape([rows.shape[i // count] if i % count == d else 1 for i in range(2 * count)])
        flat, is_inside = flat * size + coordinate, is_inside & (coordinate >= 0) & (coordinate < size)
    merged = (*shape[:count], math.prod(sizes))
    flat, is_inside = np.where(is_inside, flat, 0).reshape(merged).astype(np.int32), is_inside.reshape(merged)
    candidates = x.reshape(*leading, math.prod(image_sizes))[..., tensor(flat)]
    candidates = (
        candidates if is_inside.all() else where(tensor(is_inside), candidates, extreme("maximum", x.type.dtype))
    )
    argmax = searching.argmax(candidates, -1)
    flat_index = tensor(np.zeros((), np.int32))
    for d, (rows, size) in enumerate(zip(window_rows, image_sizes, strict=True)):
        first_rows = rows[:, :1].reshape([-1 if i == d else 1 for i in range(count)]).astype(np.int32)
        # Distance between two rows of a window. The minimum skips windows whose second row is outside of the image.
        row_distance = int((rows[:, 1] - rows[:, 0]).min()) if rows.size and rows.shape[1] > 1 else 1
        coordinate = argmax // math.prod(sizes[d + 1 :]) % sizes[d]
        flat_index = flat_index * size + (coordinate * row_distance + tensor(first_rows))
    return candidates.max(-1), convert(broadcast(flat_index, argmax.shape), "i64")


def _max_pool(count: int, x: Tensor, size: Sizes, stride: Sizes = (), padding: Sizes = 0, dilation: Sizes = 1, ceil_mode: bool = False) -> Tensor:  # fmt: skip
    return over_windows("maximum", x, _windows(x, count, size, stride, padding, dilation, ceil_mode))


def _max_pool_with_indices(count: int, x: Tensor, size: Sizes, stride: Sizes = (), padding: Sizes = 0, dilation: Sizes = 1, ceil_mode: bool = False) -> tuple[Tensor, Tensor]:  # fmt: skip
    dims = _windows(x, count, size, stride, padding, dilation, ceil_mode)
    return over_windows("maximum", x, dims), _max_with_index(x, [dim_windows.places() for dim_windows in dims])[1]


def _adaptive_rows(rows: int, count: int) -> Array:
    """Return the rows of each window of an adaptive pool, [windows, size].

    Smaller windows are filled up with row indices outside of the image.
    """
    begins, ends = np.arange(count) * rows // count, -(-(np.arange(count) + 1) * rows // count)
    window_rows = begins[:, None] + np.arange((ends - begins).max(initial=1))
    return np.where(window_rows < ends[:, None], window_rows, rows + window_rows)


def _adaptive_max_pool(count: int, x: Tensor, size: Sizes) -> tuple[Tensor, Tensor]:
    rows = zip(x.shape[x.ndim - count :], per_spatial_dim(size, count), strict=True)
    return _max_with_index(x, [_adaptive_rows(old, new) for old, new in rows])


def _scatter_to_maxima(count: int, grad: Tensor, x: Tensor, *args: Any, **options: Any) -> Tensor:
    """Return the gradient of a max pool: the gradient of each window goes to the element that was the maximum.

    The last argument contains the flat indices of the maxima.
    """
    indices = options["indices"] if "indices" in options else args[-1]
    leading = x.shape[: x.ndim - count]
    flat = zeros((*leading, math.prod(x.shape[len(leading) :])), grad.type.dtype)
    return scatter(flat, -1, indices.reshape(*leading, -1), grad.reshape(*leading, -1), reduce="add").reshape(x.shape)


# Means ---------------------------------------------------------------------------------------------------------------


def _divisor(dims: Sequence[Windows], counts_padding: bool, override: int | None) -> Array:
    """Return the number by which the sum of each window is divided, or a single number for all windows."""
    divisors = (
        np.asarray(override) if override else _outer([dim_windows.divisors(counts_padding) for dim_windows in dims])
    )
    return divisors.flat[:1].reshape(()) if divisors.size and (divisors == divisors.flat[0]).all() else divisors


def _divide(total: Tensor, divisor: Array, dtype: str) -> Tensor:
    if not is_inexact(total.type.dtype):  # Torch's average pool of integers truncates toward zero.
        return elementwise.binary("divide", total, tensor(divisor.astype(np.int64), total.type.dtype))
    return convert(total / tensor(divisor.astype(np.float32), total.type.dtype), dtype)


def _avg_pool(count: int, x: Tensor, size: Sizes, stride: Sizes = (), padding: Sizes = 0, ceil_mode: bool = False, count_include_pad: bool = True,
              divisor_override: int | None = None) -> Tensor:  # fmt: skip
    dims = _windows(x, count, size, stride, padding, 1, ceil_mode)
    widened, dtype = wide(x) if is_inexact(x.type.dtype) else (x, x.type.dtype)
    return _divide(over_windows("add", widened, dims), _divisor(dims, count_include_pad, divisor_override), dtype)


def _avg_pool_backward(count: int, grad: Tensor, x: Tensor, size: Sizes, stride: Sizes, padding: Sizes, ceil_mode: bool, count_include_pad: bool,
                       divisor_override: int | None) -> Tensor:  # fmt: skip
    """Return the gradient of an average pool: each window's gradient is divided among the elements of the window.

    It is computed as a sum over sliding windows of `grad`, dilated by the stride.
    """
    dims = _windows(x, count, size, stride, padding, 1, ceil_mode)
    num_leading = x.ndim - count
    ones, no_padding = [1] * num_leading, [0] * num_leading
    widened, dtype = wide(grad)
    share = _divide(widened, _divisor(dims, count_include_pad, divisor_override), widened.type.dtype)
    trailing = [
        dim_windows.rows + dim_windows.before - ((dim_windows.count - 1) * dim_windows.step + 1) for dim_windows in dims
    ]
    total = windows(elementwise.add, share, 0, ones + [d.size for d in dims], ones + [1] * count,
                    no_padding + [d.size - 1 - d.before for d in dims], no_padding + trailing, None, ones + [d.step for d in dims])  # fmt: skip
    return convert(total, dtype)


def _bins(old: int, new: int) -> Array:
    """Return the weight of each old row in each window of an adaptive average pool, [new, old]."""
    rows = np.arange(old)
    begins, ends = np.arange(new) * old // new, -(-(np.arange(new) + 1) * old // new)
    is_member = (begins[:, None] <= rows) & (rows < ends[:, None])
    return is_member / is_member.sum(1, keepdims=True)


def _adaptive_avg_pool(count: int, x: Tensor, size: Sizes) -> Tensor:
    old = x.shape[x.ndim - count :]
    new = per_spatial_dim(size, count)
    if all(size_ == 1 for size_ in new):
        return x.mean(list(range(-count, 0)), True)
    if all(s and n % s == 0 for s, n in zip(new, old, strict=True)):
        return _avg_pool(count, x, [n // s for s, n in zip(new, old, strict=True)])
    return multiply_by_tables(x, [*map(_bins, old, new)])


def _adaptive_avg_pool_backward(count: int, grad: Tensor, x: Tensor) -> Tensor:
    old, new = x.shape[x.ndim - count :], grad.shape[x.ndim - count :]
    if all(s and n % s == 0 for s, n in zip(new, old, strict=True)):
        sizes = [n // s for s, n in zip(new, old, strict=True)]
        return _avg_pool_backward(count, grad, x, sizes, sizes, 0, False, True, None)
    return multiply_by_tables(grad, [_bins(n, s).T for n, s in zip(old, new, strict=True)])


def _unpool(count: int, x: Tensor, indices: Tensor, output_size: Sequence[int], *_: Any) -> Tensor:
    """Write the elements of `x` into images of zeros, at the flat positions `indices`."""
    leading = x.shape[: x.ndim - count]
    image_index = np.arange(math.prod(leading), dtype=np.int32).reshape(*leading, *[1] * count)
    image_size = math.prod(output_size)
    flat = zeros((math.prod(leading) * image_size,), x.type.dtype)
    positions = (convert(indices, "i32") + tensor(image_index * image_size)).reshape(-1)
    return flat.at[positions].set(x.reshape(-1)).reshape(*leading, *output_size)


for _count in (1, 2, 3):
    enter_rows({
        f"max_pool{_count}d": _max_pool,
        f"max_pool{_count}d_with_indices": _max_pool_with_indices,
        f"adaptive_max_pool{_count}d": _adaptive_max_pool,
        f"max_pool{_count}d_with_indices_backward adaptive_max_pool{_count}d_backward": _scatter_to_maxima,
        f"avg_pool{_count}d": _avg_pool,
        f"avg_pool{_count}d_backward": _avg_pool_backward,
        f"adaptive_avg_pool{_count}d _adaptive_avg_pool{_count}d": _adaptive_avg_pool,
        f"_adaptive_avg_pool{_count}d_backward": _adaptive_avg_pool_backward,
    }, lambda function, count=_count: partial(function, count))  # fmt: skip
enter_rows({f"max_unpool{count}d": partial(_unpool, count) for count in (2, 3)})
