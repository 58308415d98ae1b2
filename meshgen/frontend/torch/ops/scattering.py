"""PyTorch scatters, which combine elements with values at data-dependent positions, and segment reductions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from meshgen.frontend.torch.ops.shapes import along, slice_
from meshgen.frontend.torch.ops.table import aten, enter_rows
from meshgen.frontend.torch.promotion import on_rows
from meshgen.frontend.tracer import elementwise, indexing, rounding
from meshgen.frontend.tracer.creation import full, iota, ones
from meshgen.frontend.tracer.logic import where
from meshgen.frontend.tracer.operands import axis_of, broadcast, convert, tensor
from meshgen.frontend.tracer.recording import refuse
from meshgen.frontend.tracer.reduce import extreme
from meshgen.frontend.tracer.scans import cumsum
from meshgen.frontend.tracer.shapes import expand_dims
from meshgen.frontend.tracer.tensor import Operand, Tensor
from meshgen.frontend.tracer.trace_regions import body, emit_regions
from meshgen.ir.graph import TensorType, is_inexact


def block(x: Tensor, dim: int, sizes: Sequence[int]) -> Tensor:
    """Return the leading rows of `x` in each dim, as many as `sizes` says. The dim `dim` is not sliced."""
    for d, size in enumerate(sizes):
        x = x if d == dim else slice_(x, d, 0, size)
    return x


def scatter_along(
    x: Tensor, dim: int, index: Tensor, values: Operand, combine: Callable[[Tensor, Tensor], Any]
) -> Tensor:
    """Return `x` with `combine(element, value)` at the row `index` of dim `dim`, for each value.

    In all other dims, the coordinates of a value are those of its entry in `index`.
    """
    if not x.ndim:
        return combine(x, tensor(values, x.type.dtype).reshape(()))
    dim = axis_of(dim, x.ndim)
    target, batch_dims = block(x, dim, index.shape), tuple(d for d in range(x.ndim) if d != dim)
    values = tensor(values, x.type.dtype)
    values = broadcast(values, index.shape) if not values.ndim else block(slice_(values, dim, 0, index.shape[dim]), dim, index.shape)  # fmt: skip
    attrs = {
        "update_window_dims": (), "inserted_window_dims": (dim,), "input_batching_dims": batch_dims,
        "scatter_indices_batching_dims": batch_dims, "scatter_dims_to_operand_dims": (dim,), "index_vector_dim": x.ndim,
        "indices_are_sorted": False, "unique_indices": False,
    }  # fmt: skip
    element = TensorType((), x.type.dtype)
    operands = [target, expand_dims(index, x.ndim), values]
    scattered = emit_regions("scatter", operands, [target.type], [body(combine, element, element)], attrs)[0]
    return scattered if target.shape == x.shape else indexing.dynamic_update_slice(x, scattered, [0] * x.ndim)


_COMBINED: dict[str, Callable[[Tensor, Tensor], Any]] = {
    "": lambda old, new: new, "add": lambda old, new: old + new, "sum": lambda old, new: old + new,
    "multiply": elementwise.multiply, "prod": elementwise.multiply, "mean": lambda old, new: old + new, "amax": elementwise.maximum, "amin": elementwise.minimum,
}  # fmt: skip


def scatter(x: Tensor, dim: int, index: Tensor, src: Operand, *, reduce: str = "") -> Tensor:
    return scatter_along(x, dim, index, src, _COMBINED[reduce])


enter_rows({"scatter": scatter, "scatter_add": lambda x, dim, index, src: scatter(x, dim, index, src, reduce="add")})

# Combines values into fixed positions of a tensor: (tensor, values, name of a reduction) -> tensor.
_Put = Callable[[Tensor, Operand, str], Tensor]


def _neutral_element(kind: str, dtype: str) -> float:
    if kind in ("amax", "max", "amin", "min"):
        return extreme("maximum" if "max" in kind else "minimum", dtype)
    return 1 if kind == "prod" else 0


def _mean(total: Tensor, counts: Tensor) -> Tensor:
    if not is_inexact(total.type.dtype):
        return rounding.floor_divide(total, convert(counts, total.type.dtype))
    return total / convert(counts, total.type.dtype)


def _group_reduced(x: Tensor, values: Tensor, kind: str, include_self: bool, put: _Put) -> Tensor:
    """Reduce each element of `x` together with the values that `put` scatters to it.

    Without `include_self`, the old value of an element that receives values does not count.
    """
    combined = put(
        x if include_self else full(x.shape, _neutral_element(kind, x.type.dtype), x.type.dtype), values, kind
    )
    if include_self and kind != "mean":
        return combined
    counts = put(full(x.shape, int(include_self), "i32"), ones(values.shape, "i32"), "sum")
    if kind == "mean":
        combined = _mean(combined, elementwise.maximum(counts, 1))
    return combined if include_self else where(counts > 0, combined, x)


@aten("scatter_reduce.two")
@on_rows
def scatter_reduce(x: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, include_self: bool = True) -> Tensor:
    put: _Put = lambda base, values, kind: scatter_along(base, dim, index, values, _COMBINED[kind])  # noqa: E731
    return _group_reduced(x, src, reduce, include_self, put)


@aten("index_reduce")
@on_rows
def index_reduce(x: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str, *, include_self: bool = True) -> Tensor:  # fmt: skip
    index_tuple = along(x, dim, index)
    methods = {"sum": "add", "mean": "add", "prod": "multiply", "amax": "max", "amin": "min"}
    put: _Put = lambda base, values, kind: getattr(base.at[index_tuple], methods[kind])(values)  # noqa: E731
    return _group_reduced(x, source, reduce, include_self, put)


def _segments(x: Tensor, lengths: Tensor | None, offsets: Tensor | None, axis: int) -> tuple[Tensor, Tensor]:
    """Return the segment of each row along `axis`, in the shape of `x`, and the length of each segment."""
    if lengths is None:
        assert offsets is not None
        leading = (slice(None),) * (offsets.ndim - 1)
        starts, ends = offsets[(*leading, slice(-1))], offsets[(*leading, slice(1, None))]
        lengths = ends - starts
    else:
        ends = cumsum(lengths, -1)
    rows = iota((*lengths.shape[:-1], x.shape[axis], lengths.shape[-1]), axis, ends.type.dtype)
    segments = (rows >= ends[..., None, :]).sum(-1)
    segments = segments.reshape(*segments.shape, *[1] * (x.ndim - axis - 1))
    return broadcast(segments, x.shape), lengths.reshape(*lengths.shape, *[1] * (x.ndim - axis - 1))


@aten("segment_reduce")
def segment_reduce(x: Tensor, reduce: str, *, lengths: Tensor | None = None, indices: Tensor | None = None, offsets: Tensor | None = None,
                   axis: int = 0, unsafe: bool = False, initial: float | None = None) -> Tensor:  # fmt: skip
    """Reduce segments of consecutive rows along `axis`.

    An empty segment has the value `initial` if set, else NaN for a mean, and the neutral element for other reductions.
    """
    del unsafe
    if indices is not None:
        refuse("segment_reduce of indices is not supported", "give lengths or offsets", "MG0103")
    segments, counts = _segments(x, lengths, offsets, axis)
    kind = {"max": "amax", "min": "amin"}.get(reduce, reduce)
    start = _neutral_element(kind, x.type.dtype) if initial is None else initial
    base = full((*x.shape[:axis], counts.shape[axis], *x.shape[axis + 1 :]), start, x.type.dtype)
    combined = scatter_along(base, axis, segments, x, _COMBINED[kind])
    if kind != "mean":
        return combined
    empty = math.nan if initial is None else initial
    return where(counts > 0, combined / convert(elementwise.maximum(counts, 1), x.type.dtype), empty)


@aten("_segment_reduce_backward")
def segment_reduce_backward(grad: Tensor, out: Tensor, x: Tensor, reduce: str, *, lengths: Tensor | None = None, offsets: Tensor | None = None,
                            axis: int = 0, initial: float | None = None) -> Tensor:  # fmt: skip
    """Return the gradient of `segment_reduce`. Several equal maxima or minima of a segment share its gradient equally."""
    del initial
    segments, counts = _segments(x, lengths, offsets, axis)
    is_counted = segments < counts.shape[axis]
    segments = where(is_counted, segments, 0)
    per_row: Callable[[Tensor], Tensor] = lambda per_segment: indexing.take_along_axis(per_segment, segments, axis)  # noqa: E731
    share = per_row(grad)
    if reduce == "mean":
        share = share / per_row(broadcast(convert(elementwise.maximum(counts, 1), grad.type.dtype), grad.shape))
    elif reduce == "prod":
        share = share * per_row(out) / x
    elif reduce in ("max", "min"):
        is_extreme = x == per_row(out)
        ties = scatter_along(full(out.shape, 0, grad.type.dtype), axis, segments, convert(is_extreme, grad.type.dtype), _COMBINED["add"])  # fmt: skip
        share = where(is_extreme, share / elementwise.maximum(per_row(ties), 1), 0)
    return where(is_counted, share, 0)


@aten("masked_scatter_backward")
def masked_scatter_backward(grad: Tensor, mask: Tensor, sizes: list[int]) -> Tensor:
    """Return the gradient of the source of `masked_scatter`.

    The gradients of the elements that the mask selects come first, in order, followed by zeros.
    """
    flags, count = broadcast(mask, grad.shape).reshape(-1), math.prod(sizes)
    position = where(flags, cumsum(flags, 0, "i32") - 1, count)
    return full((count,), 0, grad.type.dtype).at[position].set(grad.reshape(-1)).reshape(sizes)
