"""PyTorch's im2col and col2im: windows of images as columns, and sums of columns as images.

im2col    x[n, c, h, w] -> [n, c * kh * kw, windows]
col2im    [n, c * kh * kw, windows] -> x[n, c, h, w], where elements of overlapping windows are added
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from meshgen.frontend.torch.ops.padding import pad
from meshgen.frontend.torch.ops.shapes import slice_
from meshgen.frontend.torch.ops.table import aten
from meshgen.frontend.tracer.creation import zeros
from meshgen.frontend.tracer.joining import stack
from meshgen.frontend.tracer.shapes import reshape
from meshgen.frontend.tracer.tensor import Tensor

Pair = Sequence[int]


def _counts(sizes: Pair, kernel: Pair, dilation: Pair, padding: Pair, stride: Pair) -> tuple[int, int]:
    """Return the number of windows along each dim of an image."""
    first, second = ((sizes[d] + 2 * padding[d] - dilation[d] * (kernel[d] - 1) - 1) // stride[d] + 1 for d in (0, 1))
    return first, second


def _rows_of_taps(counts: Pair, kernel: Pair, dilation: Pair, stride: Pair) -> Iterator[tuple[slice, slice]]:
    """Return, for each element of a window, the rows and columns that it has in the windows of the padded image."""
    for i in range(kernel[0]):
        for j in range(kernel[1]):
            begin, ends = (i * dilation[0], j * dilation[1]), [(n - 1) * step + 1 for n, step in zip(counts, stride, strict=True)]  # fmt: skip
            yield slice(begin[0], begin[0] + ends[0], stride[0]), slice(begin[1], begin[1] + ends[1], stride[1])


@aten("im2col")
def im2col(x: Tensor, kernel: Pair, dilation: Pair, padding: Pair, stride: Pair) -> Tensor:
    if x.ndim == 3:
        return reshape(
            columns := im2col(reshape(x, (1, *x.shape)), kernel, dilation, padding, stride), columns.shape[1:]
        )
    counts = _counts(x.shape[2:], kernel, dilation, padding, stride)
    x = pad(x, [padding[1], padding[1], padding[0], padding[0]])
    taps = [
        slice_(slice_(x, 2, rows.start, rows.stop, rows.step), 3, columns.start, columns.stop, columns.step)
        for rows, columns in _rows_of_taps(counts, kernel, dilation, stride)
    ]
    return reshape(stack(taps, 2), (x.shape[0], x.shape[1] * len(taps), counts[0] * counts[1]))


@aten("col2im")
def col2im(x: Tensor, output_size: Pair, kernel: Pair, dilation: Pair, padding: Pair, stride: Pair) -> Tensor:
    if x.ndim == 2:
        return reshape(
            image := col2im(reshape(x, (1, *x.shape)), output_size, kernel, dilation, padding, stride), image.shape[1:]
        )
    counts = _counts(output_size, kernel, dilation, padding, stride)
    features, taps = x.shape[1] // (kernel[0] * kernel[1]), kernel[0] * kernel[1]
    parts = reshape(x, (x.shape[0], features, taps, *counts))
    sizes = [size + 2 * by for size, by in zip(output_size, padding, strict=True)]
    image = zeros((x.shape[0], features, *sizes), x.type.dtype)
    for number, (rows, columns) in enumerate(_rows_of_taps(counts, kernel, dilation, stride)):
        image = image.at[:, :, rows, columns].add(parts[:, :, number])
    return pad(image, [-padding[1], -padding[1], -padding[0], -padding[0]])
