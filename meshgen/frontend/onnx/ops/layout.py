"""Data movement operators: reshapes, slices, concatenations, padding."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from meshgen.frontend.onnx.ops.table import Array, Call, dim_of, dims_of, enter_rows, op, require_small_array
from meshgen.frontend.tracer import joining, shapes
from meshgen.frontend.tracer.creation import full, iota, tril, triu
from meshgen.frontend.tracer.joining import concatenate
from meshgen.frontend.tracer.logic import where
from meshgen.frontend.tracer.recording import refuse
from meshgen.frontend.tracer.tensor import Tensor


@op("Reshape", known=(1,))
def reshape(call: Call, x: Tensor, shape: Array) -> Tensor:
    """Reshape `x`. A size of 0 copies the old size unless `allowzero` is set; -1 is inferred."""
    keeps_zeros = bool(call["allowzero"])
    return x.reshape([size if size or keeps_zeros else x.shape[n] for n, size in enumerate(shape.tolist())])


@op("Flatten")
def flatten(call: Call, x: Tensor) -> Tensor:
    axis = call["axis"] + x.ndim if call["axis"] < 0 else call["axis"]
    return x.reshape([math.prod(x.shape[:axis]), math.prod(x.shape[axis:])])


@op("Split", known=(1,))
def split(call: Call, x: Tensor, sizes: Array | None = None) -> list[Tensor]:
    """Split `x` into slices of the sizes `sizes`, or of one size, except that the last slice may be smaller."""
    axis = dim_of(call["axis"], x.ndim)
    dim_size, count = x.shape[axis], call["num_outputs"] or call.results
    require_small_array("Split", count)
    slice_size = -(-dim_size // count)
    slice_sizes = (
        [max(0, min(slice_size, dim_size - n * slice_size)) for n in range(count)] if sizes is None else sizes.tolist()
    )
    if sum(slice_sizes) != dim_size:
        refuse(f"sizes {slice_sizes} do not add up to size {dim_size} of dim {axis}")
    return joining.split(x, list(accumulate(slice_sizes))[:-1], axis)


@op("Slice", known=(1, 2, 3, 4))
def slice_(call: Call, x: Tensor, starts: Array, ends: Array, axes: Array | None = None, steps: Array | None = None) -> Tensor:  # fmt: skip
    dims = range(starts.size) if axes is None or not axes.size else dims_of(axes, x.ndim)
    step = np.ones(starts.size, np.int64) if steps is None else steps
    index = [slice(None)] * x.ndim
    for dim, a, b, stride in zip(dims, starts.tolist(), ends.tolist(), step.tolist(), strict=True):
        index[dim] = slice(*_bounds(a, b, stride, x.shape[dim]))
    return x[tuple(index)]


def _bounds(start: int, stop: int, step: int, size: int) -> tuple[int, int | None, int]:
    """Return the bounds of a slice as Python needs them: negative bounds count from the end, and bounds are clamped.

    With a negative step, the stop is None if the slice extends to row 0.
    """
    start, stop = (bound + size if bound < 0 else bound for bound in (start, stop))
    return max(start, 0), (None if stop < 0 else stop) if step < 0 else max(stop, 0), step


@op("Pad", known=(1, 3), plain=(2,))
def pad(call: Call, x: Tensor, pads: Any = None, value: Any = None, axes: Any = None) -> Tensor:
    """Import `Pad`. Negative pad sizes crop."""
    widths = call["paddings"] if pads is None else pads
    dims = range(x.ndim) if axes is None else dims_of(axes, x.ndim)
    pairs = [(0, 0)] * x.ndim
    for n, dim in enumerate(dims):
        pairs[dim] = (int(widths[n]), int(widths[n + len(dims)]))
    return padded(x, pairs, call["mode"] or "constant", call["value"] if value is None else value)


def padded(x: Tensor, pairs: Sequence[tuple[int, int]], mode: str = "constant", value: Any = None) -> Tensor:
    """Pad each dim of `x` by (rows before, rows after) in `pairs`. Negative sizes crop."""
    cuts = [slice(max(0, -a), size - max(0, -b)) for (a, b), size in zip(pairs, x.shape, strict=True)]
    added = [(max(0, a), max(0, b)) for a, b in pairs]
    x = x[tuple(cuts)]
    if mode != "constant":
        require_small_array("Pad", max((size + a + b for size, (a, b) in zip(x.shape, added, strict=True)), default=0))
        return joining.pad(x, added, mode)
    if not isinstance(value, Tensor):
        fill: Any = 0 if value is None else np.asarray(value).reshape(())[()]
        return joining.pad(x, added, constant_values=fill)
    inside = joining.pad(full(x.shape, True, "i1"), added, constant_values=False)
    return where(inside, joining.pad(x, added), value.reshape(()))


@op("DepthToSpace")
def depth_to_space(call: Call, x: Tensor) -> Tensor:
    n, c, h, w = x.shape
    b = call["blocksize"]
    if (call["mode"] or "DCR") == "DCR":
        blocks = x.reshape(n, b, b, c // b**2, h, w).transpose(0, 3, 4, 1, 5, 2)
    else:
        blocks = x.reshape(n, c // b**2, b, b, h, w).transpose(0, 1, 4, 2, 5, 3)
    return blocks.reshape(n, c // b**2, h * b, w * b)


@op("SpaceToDepth")
def space_to_depth(call: Call, x: Tensor) -> Tensor:
    n, c, h, w = x.shape
    b = call["blocksize"]
    order = (0, 1, 3, 5, 2, 4) if call["mode"] == "CRD" else (0, 3, 5, 1, 2, 4)
    blocks = x.reshape(n, c, h // b, b, w // b, b).transpose(order)
    return blocks.reshape(n, c * b**2, h // b, w // b)


@op("Trilu", plain=(1,))
def trilu(call: Call, x: Tensor, k: Array | Tensor | None = None) -> Tensor:
    """Return `x` with zeros above diagonal `k`, or below it if the attribute `upper` is set. `k` may be a tensor."""
    diagonal: Any = 0 if k is None else k.reshape(()) if isinstance(k, Tensor) else int(k.reshape(()))
    return triu(x, diagonal) if call["upper"] else tril(x, diagonal)


@op("ReverseSequence")
def reverse_sequence(call: Call, x: Tensor, lengths: Tensor) -> Tensor:
    """Reverse the first `lengths[b]` rows of each batch b."""
    time, batch = (dim_of(call[name], x.ndim) for name in ("time_axis", "batch_axis"))
    if {time, batch} != {0, 1}:
        refuse(f"time_axis {time} and batch_axis {batch} must be 0 and 1")
    x = shapes.moveaxis(x, batch, 0)
    sizes = x.shape[:2]
    length, row = lengths.astype("i64").reshape(-1, 1), iota(sizes, 1, "i64")
    order = where(row < length, length - 1 - row, row)
    return shapes.moveaxis(x[iota(sizes, 0, "i64"), order], 0, batch)


enter_rows({
    "Transpose": lambda call, x: x.transpose(call["perm"]),
    "Concat": lambda call, *operands: concatenate(operands, dim_of(call["axis"], operands[0].ndim)),
})  # fmt: skip
enter_rows({
    "Expand": lambda call, x, shape: shapes.broadcast_to(x, np.broadcast_shapes(x.shape, tuple(shape.tolist()))),
    "Squeeze": lambda call, x, axes=None: shapes.squeeze(x, None if axes is None else tuple(dims_of(axes, x.ndim))),
    "Unsqueeze": lambda call, x, axes: shapes.expand_dims(x, tuple(dims_of(axes, x.ndim + axes.size))),
    "Tile": lambda call, x, repeats: joining.tile(x, repeats.tolist()),
}, known=(1,))  # fmt: skip
