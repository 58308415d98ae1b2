"""PyTorch's pools of images [..., features, rows, ...], and their gradients. The leading dims may be a batch and features, or features only."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial, reduce
from typing import Any

import numpy as np

from meshgen.frontend.torch.ops.conv import Sizes, per_spatial_dim
from meshgen.frontend.torch.ops.resizing import mixed_by_tables
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
    sizes, pads, apart = (per_spatial_dim(each, count) for each in (size, padding, dilation))
    steps = per_spatial_dim(stride, count) if stride else sizes
    given = zip(x.shape[x.ndim - count :], sizes, steps, pads, pads, apart, strict=True)
    return [Windows(*each, is_ceil=ceil_mode) for each in given]


def _outer(vectors: Sequence[Array], combine: Callable[[Array, Array], Array] = np.multiply) -> Array:
    """Combine a vector for each dim to a tensor over all of them."""
    return reduce(lambda left, right: combine(left[..., None], right), vectors)


# Maxima --------------------------------------------------------------------------------------------------------------


def _largest_of(x: Tensor, places: Sequence[Array]) -> tuple[Tensor, Tensor]:
    """Return the largest element of each window, and its place in the flat image; of equal elements the first.

    `places` has for each spatial dim the row of each element of each window, [windows, size]; rows outside of the image are not read.
    """
    count, sizes = len(places), [each.shape[1] for each in places]
    lead, old = x.shape[: x.ndim - count], x.shape[x.ndim - count :]
    shape = [*(each.shape[0] for each in places), *sizes]
    flat, is_inside = np.zeros(shape, np.int64), np.ones(shape, bool)
    for d, (rows, size) in enumerate(zip(places, old, strict=True)):
        own = rows.reshape([rows.shape[i // count] if i % count == d else 1 for i in range(2 * count)])
        flat, is_inside = flat * size + own, is_inside & (own >= 0) & (own < size)
    merged = (*shape[:count], math.prod(sizes))
    flat, is_inside = np.where(is_inside, flat, 0).reshape(merged).astype(np.int32), is_inside.reshape(merged)
    seen = x.reshape(*lead, math.prod(old))[..., tensor(flat)]
    seen = seen if is_inside.all() else where(tensor(is_inside), seen, extreme("maximum", x.type.dtype))
    number = searching.argmax(seen, -1)
    at = tensor(np.zeros((), np.int32))
    for d, (rows, size) in enumerate(zip(places, old, strict=True)):
        begins = rows[:, :1].reshape([-1 if i == d else 1 for i in range(count)]).astype(np.int32)
        # of a window with two rows inside
        apart = int((rows[:, 1] - rows[:, 0]).min()) if rows.size and rows.shape[1] > 1 else 1
        own = number // math.prod(sizes[d + 1 :]) % sizes[d]
        at = at * size + (own * apart + tensor(begins))
    return seen.max(-1), convert(broadcast(at, number.shape), "i64")


def _max_pool(count: int, x: Tensor, size: Sizes, stride: Sizes = (), padding: Sizes = 0, dilation: Sizes = 1, ceil_mode: bool = False) -> Tensor:  # fmt: skip
    return over_windows("maximum", x, _windows(x, count, size, stride, padding, dilation, ceil_mode))


def _max_pool_with_indices(count: int, x: Tensor, size: Sizes, stride: Sizes = (), padding: Sizes = 0, dilation: Sizes = 1, ceil_mode: bool = False) -> tuple[Tensor, Tensor]:  # fmt: skip
    dims = _windows(x, count, size, stride, padding, dilation, ceil_mode)
    return over_windows("maximum", x, dims), _largest_of(x, [each.places() for each in dims])[1]


def _adaptive_places(rows: int, count: int) -> Array:
    """Return the rows of each window of an adaptive pool, [windows, size]; windows that have fewer end outside of the image."""
    begins, ends = np.arange(count) * rows // count, -(-(np.arange(count) + 1) * rows // count)
    own = begins[:, None] + np.arange((ends - begins).max(initial=1))
    return np.where(own < ends[:, None], own, rows + own)


def _adaptive_max_pool(count: int, x: Tensor, size: Sizes) -> tuple[Tensor, Tensor]:
    rows = zip(x.shape[x.ndim - count :], per_spatial_dim(size, count), strict=True)
    return _largest_of(x, [_adaptive_places(old, new) for old, new in rows])


def _scattered_maxima(count: int, grad: Tensor, x: Tensor, *how: Any, **named: Any) -> Tensor:
    """Add the gradient of each window at the place of its largest element, which is the last argument."""
    indices = named["indices"] if "indices" in named else how[-1]
    lead = x.shape[: x.ndim - count]
    flat = zeros((*lead, math.prod(x.shape[len(lead) :])), grad.type.dtype)
    return scatter(flat, -1, indices.reshape(*lead, -1), grad.reshape(*lead, -1), reduce="add").reshape(x.shape)


# Means ---------------------------------------------------------------------------------------------------------------


def _divisor(dims: Sequence[Windows], counts_padding: bool, override: int | None) -> Array:
    """Return how many elements each window counts, or one number where all windows count as many."""
    found = np.asarray(override) if override else _outer([each.divisors(counts_padding) for each in dims])
    return found.flat[:1].reshape(()) if found.size and (found == found.flat[0]).all() else found


def _divided(total: Tensor, divisor: Array, dtype: str) -> Tensor:
    if not is_inexact(total.type.dtype):  # integers are cut off towards zero
        return elementwise.binary("divide", total, tensor(divisor.astype(np.int64), total.type.dtype))
    return convert(total / tensor(divisor.astype(np.float32), total.type.dtype), dtype)


def _avg_pool(count: int, x: Tensor, size: Sizes, stride: Sizes = (), padding: Sizes = 0, ceil_mode: bool = False, count_include_pad: bool = True,
              divisor_override: int | None = None) -> Tensor:  # fmt: skip
    dims = _windows(x, count, size, stride, padding, 1, ceil_mode)
    widened, dtype = wide(x) if is_inexact(x.type.dtype) else (x, x.type.dtype)
    return _divided(over_windows("add", widened, dims), _divisor(dims, count_include_pad, divisor_override), dtype)


def _avg_pool_backward(count: int, grad: Tensor, x: Tensor, size: Sizes, stride: Sizes, padding: Sizes, ceil_mode: bool, count_include_pad: bool,
                       divisor_override: int | None) -> Tensor:  # fmt: skip
    """Sum the shares of the windows that have an element: windows of as many rows over the shares, which are the steps apart."""
    dims = _windows(x, count, size, stride, padding, 1, ceil_mode)
    lead = x.ndim - count
    ones, none = [1] * lead, [0] * lead
    widened, dtype = wide(grad)
    share = _divided(widened, _divisor(dims, count_include_pad, divisor_override), widened.type.dtype)
    after = [each.rows + each.before - ((each.count - 1) * each.step + 1) for each in dims]
    total = windows(elementwise.add, share, 0, ones + [d.size for d in dims], ones + [1] * count,
                    none + [d.size - 1 - d.before for d in dims], none + after, None, ones + [d.step for d in dims])  # fmt: skip
    return convert(total, dtype)


def _bins(old: int, new: int) -> Array:
    """Return the share of each row in each window of an adaptive pool, [new, old]."""
    rows = np.arange(old)
    begins, ends = np.arange(new) * old // new, -(-(np.arange(new) + 1) * old // new)
    is_member = (begins[:, None] <= rows) & (rows < ends[:, None])
    return is_member / is_member.sum(1, keepdims=True)


def _adaptive_avg_pool(count: int, x: Tensor, size: Sizes) -> Tensor:
    old = x.shape[x.ndim - count :]
    new = per_spatial_dim(size, count)
    if all(each == 1 for each in new):
        return x.mean(list(range(-count, 0)), True)
    if all(s and n % s == 0 for s, n in zip(new, old, strict=True)):
        return _avg_pool(count, x, [n // s for s, n in zip(new, old, strict=True)])
    return mixed_by_tables(x, [*map(_bins, old, new)])


def _adaptive_avg_pool_backward(count: int, grad: Tensor, x: Tensor) -> Tensor:
    old, new = x.shape[x.ndim - count :], grad.shape[x.ndim - count :]
    if all(s and n % s == 0 for s, n in zip(new, old, strict=True)):
        sizes = [n // s for s, n in zip(new, old, strict=True)]
        return _avg_pool_backward(count, grad, x, sizes, sizes, 0, False, True, None)
    return mixed_by_tables(grad, [_bins(n, s).T for n, s in zip(old, new, strict=True)])


def _unpooled(count: int, x: Tensor, indices: Tensor, output_size: Sequence[int], *_: Any) -> Tensor:
    """Set the elements at their places in images of zeros."""
    lead = x.shape[: x.ndim - count]
    number = np.arange(math.prod(lead), dtype=np.int32).reshape(*lead, *[1] * count)
    image = math.prod(output_size)
    flat = zeros((math.prod(lead) * image,), x.type.dtype)
    places = (convert(indices, "i32") + tensor(number * image)).reshape(-1)
    return flat.at[places].set(x.reshape(-1)).reshape(*lead, *output_size)


for _count in (1, 2, 3):
    enter_rows({
        f"max_pool{_count}d": _max_pool,
        f"max_pool{_count}d_with_indices": _max_pool_with_indices,
        f"adaptive_max_pool{_count}d": _adaptive_max_pool,
        f"max_pool{_count}d_with_indices_backward adaptive_max_pool{_count}d_backward": _scattered_maxima,
        f"avg_pool{_count}d": _avg_pool,
        f"avg_pool{_count}d_backward": _avg_pool_backward,
        f"adaptive_avg_pool{_count}d _adaptive_avg_pool{_count}d": _adaptive_avg_pool,
        f"_adaptive_avg_pool{_count}d_backward": _adaptive_avg_pool_backward,
    }, lambda function, count=_count: partial(function, count))  # fmt: skip
enter_rows({f"max_unpool{count}d": partial(_unpooled, count) for count in (2, 3)})
