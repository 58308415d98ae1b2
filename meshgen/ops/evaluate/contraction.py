"""Evaluation of reductions, dots and convolutions.

Narrow floats accumulate in f32, integers in at least 32 bits.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from meshgen.ir.graph import Node, is_complex, is_float
from meshgen.ops.dot_dims import DotDims
from meshgen.ops.evaluate.common import Array, RunRegion, bits, narrow, ufunc_of, widen
from meshgen.ops.evaluate.structure import pad

_EXACT = 1 << 53  # Integers below this bound are exact in f64, so a BLAS GEMM in f64 is exact too.


def reduce(node: Node, args: list[Array], run: RunRegion) -> list[Array]:
    dtype, ufunc = node.operands[0].type.dtype, ufunc_of(node.attrs.kind)
    x, init = widen(args[0], dtype), widen(args[1], dtype)
    dims = tuple(node.attrs.dims)
    folded = ufunc.reduce(x, axis=dims, dtype=x.dtype, initial=init.item() if x.size == 0 else None)
    return [narrow(folded if x.size == 0 else ufunc(folded, init), dtype)]


def _product(left: Array, right: Array, sources: Sequence[str], result: str) -> Array:
    """Return the batched matmul [.., m, k] x [.., k, n], accumulated in f32, f64 or integers."""
    if is_float(result):
        wide = np.float64 if result == "f64" else np.float32
        return np.matmul(left.astype(wide, copy=False), right.astype(wide, copy=False))
    if is_complex(result):
        return np.matmul(left, right)
    if "i1" in sources:
        return np.matmul(left.astype(np.float64), right.astype(np.float64)) > 0
    if left.shape[-1] << sum(bits(dtype) for dtype in sources) < _EXACT:
        return np.matmul(left.astype(np.float64), right.astype(np.float64)).astype(np.int64)
    wide_int = np.int64 if bits(result) == 64 else np.int32
    return np.matmul(left.astype(wide_int), right.astype(wide_int))


def dot_general(node: Node, args: list[Array], run: RunRegion) -> list[Array]:
    (left, right), dims, result = args, DotDims.of(node), node.result.type
    batch = [left.shape[d] for d in dims.batch[0]]
    depth = math.prod(left.shape[d] for d in dims.contract[0])
    rows, columns = (math.prod(arg.shape[d] for d in free) for arg, free in zip(args, dims.free, strict=True))
    a = left.transpose([*dims.batch[0], *dims.free[0], *dims.contract[0]])
    b = right.transpose([*dims.batch[1], *dims.contract[1], *dims.free[1]])
    product = _product(a.reshape([*batch, rows, depth]), b.reshape([*batch, depth, columns]),
                       [value.type.dtype for value in node.operands], result.dtype)  # fmt: skip
    return [narrow(product.reshape(result.sizes), result.dtype)]


def ragged_dot(node: Node, args: list[Array], run: RunRegion) -> list[Array]:
    """Evaluate one matmul per group of rows. A row that belongs to several groups is multiplied by the matrix of each
    group.
    """
    left, right, starts, ends = args
    kinds, result = [value.type.dtype for value in node.operands[:2]], node.result.type
    total = np.zeros(result.sizes, _product(left[:0, :0], left[:0, :0].T, kinds, result.dtype).dtype)
    for group, (start, end) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True)):
        rows = slice(max(start, 0), max(end, 0))
        if node.attrs.contracts:
            total[group] = _product(left[rows].T, right[rows], kinds, result.dtype)
        else:
            total[rows] += _product(left[rows], right[group], kinds, result.dtype)
    return [narrow(total, result.dtype)]


def convolution(node: Node, args: list[Array], run: RunRegion) -> list[Array]:
    """Evaluate a convolution as one matmul over the input features per kernel position.

    `meshgen/ops/types/contraction.py` describes the attributes.
    """
    attrs, result = node.attrs, node.result.type
    image = _padded_image(node, args[0])
    kernel = args[1].transpose([attrs.kernel_output_feature, attrs.kernel_input_feature, *attrs.kernel_spatial])
    kernel = np.flip(kernel, tuple(2 + d for d, is_reversed in enumerate(attrs.window_reversal) if is_reversed))
    kernel = kernel.astype(image.dtype)
    spatial = [result.sizes[d] for d in attrs.output_spatial]
    groups, batches = attrs.feature_group_count, attrs.batch_group_count
    outputs = kernel.shape[0]
    total: Any = np.zeros((), image.dtype)
    for kernel_position in np.ndindex(*kernel.shape[2:]):
        taps = image[(..., *_taps(kernel_position, spatial, attrs.window_strides, attrs.rhs_dilation))]
        weights = kernel[(slice(None), slice(None), *kernel_position)]
        total = total + _grouped(taps, weights, groups, batches)
    rows = args[0].shape[attrs.input_batch] // batches
    shape = (batches, rows, groups, outputs // groups // batches, int(np.prod(spatial, dtype=np.int64)))
    shaped = np.broadcast_to(total, shape).transpose(1, 0, 2, 3, 4).reshape(rows, outputs, *spatial)
    order = np.argsort([attrs.output_batch, attrs.output_feature, *attrs.output_spatial])
    return [narrow(shaped.transpose(order), result.dtype)]


def _padded_image(node: Node, image: Array) -> Array:
    """Return the image as [batch, feature, spatial...] in the accumulator's type, dilated and padded."""
    attrs, dtype = node.attrs, node.result.type.dtype
    wide = np.complex128 if is_complex(dtype) else np.int64
    if is_float(dtype):
        wide = np.float64 if dtype == "f64" else np.float32
    x = image.transpose([attrs.input_batch, attrs.input_feature, *attrs.input_spatial]).astype(wide)
    interior = [d - 1 for d in attrs.lhs_dilation]
    return pad(x, np.zeros((), wide), (0, 0, *attrs.low), (0, 0, *attrs.high), (0, 0, *interior))


def _taps(
    kernel_position: Sequence[int], sizes: Sequence[int], strides: Sequence[int], dilation: Sequence[int]
) -> list[slice]:
    """Return slices of the padded image that select, for one kernel position, the input element of every output
    position.
    """
    parts = zip(kernel_position, sizes, strides, dilation, strict=True)
    return [slice(p * d, p * d + (n - 1) * s + 1 if n else p * d, s) for p, n, s, d in parts]


def _grouped(taps: Array, weights: Array, groups: int, batches: int) -> Array:
    """Multiply the input elements of one kernel position by the kernel's weights at this position.

    Returns [batch groups, rows, feature groups, outputs per group, output positions].
    """
    rows, features = taps.shape[0] // batches, taps.shape[1] // groups
    positions = int(np.prod(taps.shape[2:], dtype=np.int64))
    image = taps.reshape(batches, rows, groups, features, positions)
    per_group = weights.shape[0] // groups // batches
    # `groups` or `batches` is 1, so one reshape splits the output features for both kinds of groups.
    return np.matmul(weights.reshape(batches, 1, groups, per_group, features), image)
