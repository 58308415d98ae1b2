"""PyTorch im2col and col2im: windows of images as columns, and sums of columns as images.

im2col  x[n, c, h, w] -> [n, c * kh * kw, windows]
col2im  [n, c * kh * kw, windows] -> x[n, c, h, w]; elements of overlapping windows are added
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from meshgen.frontend.torch.ops.padding import pad
from meshgen.frontend.torch.ops.table import aten
from meshgen.frontend.tracer.creation import zeros
from meshgen.frontend.tracer.joining import stack
from meshgen.frontend.tracer.tensor import Tensor

Pair = Sequence[int]


def _taps(sizes: Pair, kernel: Pair, dilation: Pair, padding: Pair, stride: Pair) -> tuple[list[int], list[tuple[slice, slice]]]:  # fmt: skip
    """Return the number of windows along each dim, and the slices of each window element.

    The (row slice, column slice) of an element reads it from all windows of the padded image.
    """
    geometry = [*zip(sizes, kernel, dilation, padding, stride, strict=True)]
    counts = [(size + 2 * pad - spread * (n - 1) - 1) // step + 1 for size, n, spread, pad, step in geometry]
    row_slices, column_slices = (
        [slice(i * spread, i * spread + (count - 1) * step + 1, step) for i in range(n)]
        for count, (_, n, spread, _, step) in zip(counts, geometry, strict=True)
    )
    return counts, [*product(row_slices, column_slices)]


@aten("im2col")
def im2col(x: Tensor, kernel: Pair, dilation: Pair, padding: Pair, stride: Pair) -> Tensor:
    if x.ndim == 3:
        batched = im2col(x.reshape(1, *x.shape), kernel, dilation, padding, stride)
        return batched.reshape(batched.shape[1:])
    counts, taps = _taps(x.shape[2:], kernel, dilation, padding, stride)
    x = pad(x, [padding[1], padding[1], padding[0], padding[0]])
    windows = [x[:, :, rows, columns] for rows, columns in taps]
    return stack(windows, 2).reshape(x.shape[0], x.shape[1] * len(taps), counts[0] * counts[1])


@aten("col2im")
def col2im(x: Tensor, output_size: Pair, kernel: Pair, dilation: Pair, padding: Pair, stride: Pair) -> Tensor:
    if x.ndim == 2:
        batched = col2im(x.reshape(1, *x.shape), output_size, kernel, dilation, padding, stride)
        return batched.reshape(batched.shape[1:])
    counts, taps = _taps(output_size, kernel, dilation, padding, stride)
    features = x.shape[1] // len(taps)
    windows = x.reshape(x.shape[0], features, len(taps), *counts)
    sizes = [size + 2 * pad_size for size, pad_size in zip(output_size, padding, strict=True)]
    image = zeros((x.shape[0], features, *sizes), x.type.dtype)
    for index, (rows, columns) in enumerate(taps):
        image = image.at[:, :, rows, columns].add(windows[:, :, index])
    return pad(image, [-padding[1], -padding[1], -padding[0], -padding[0]])
