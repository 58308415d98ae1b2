"""PyTorch's scatters: elements that are combined with values at places that are data, and reductions of such groups."""

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
from meshgen.frontend.tracer.regions import body, emit_regions
from meshgen.frontend.tracer.scans import cumsum
from meshgen.frontend.tracer.shapes import expand_dims
from meshgen.frontend.tracer.tensor import Operand, Tensor
from meshgen.ir.graph import TensorType, is_inexact


def block(x: Tensor, dim: int, sizes: Sequence[int]) -> Tensor:
    """Return the first rows of the dims beside `dim`, as many as an index has."""
    for d, size in enumerate(sizes):
        x = x if d == dim else slice_(x, d, 0, size)
    return x


def scattered_along(
    x: Tensor, dim: int, index: Tensor, values: Operand, combine: Callable[[Tensor, Tensor], Any]
) -> Tensor:
    """Combine elements along a dim of x with values, at the row numbers that `index` has for each; other dims are those of the index."""
    if not x.ndim:
        return combine(x, tensor(values, x.type.dtype).reshape(()))
    dim = axis_of(dim, x.ndim)
    part, others = block(x, dim, index.shape), tuple(d for d in range(x.ndim) if d != dim)
    values = tensor(values, x.type.dtype)
    values = broadcast(values, index.shape) if not values.ndim else block(slice_(values, dim, 0, index.shape[dim]), dim, index.shape)  # fmt: skip
    attrs = {
        "update_window_dims": (), "inserted_window_dims": (dim,), "input_batching_dims": others,
        "scatter_indices_batching_dims": others, "scatter_dims_to_operand_dims": (dim,), "index_vector_dim": x.ndim,
        "indices_are_sorted": False, "unique_indices": False,
    }  # fmt: skip
    element = TensorType((), x.type.dtype)
    operands = [part, expand_dims(index, x.ndim), values]
    found = emit_regions("scatter", operands, [part.type], [body(combine, element, element)], attrs)[0]
    return found if part.shape == x.shape else indexing.dynamic_update_slice(x, found, [0] * x.ndim)


_COMBINED: dict[str, Callable[[Tensor, Tensor], Any]] = {
    "": lambda old, new: new, "add": lambda old, new: old + new, "sum": lambda old, new: old + new,
    "multiply": elementwise.multiply, "prod": elementwise.multiply, "mean": lambda old, new: old + new, "amax": elementwise.maximum, "amin": elementwise.minimum,
}  # fmt: skip


def scatter(x: Tensor, dim: int, index: Tensor, src: Operand, *, reduce: str = "") -> Tensor:
    return scattered_along(x, dim, index, src, _COMBINED[reduce])


enter_rows({"scatter": scatter, "scatter_add": lambda x, dim, index, src: scatter(x, dim, index, src, reduce="add")})

_Put = Callable[[Tensor, Operand, str], Tensor]  # a tensor with values of a kind combined at fixed places


def _neutral(kind: str, dtype: str) -> float:
    if kind in ("amax", "max", "amin", "min"):
        return extreme("maximum" if "max" in kind else "minimum", dtype)
    return 1 if kind == "prod" else 0


def _mean(total: Tensor, counts: Tensor) -> Tensor:
    if not is_inexact(total.type.dtype):
        return rounding.floor_divide(total, convert(counts, total.type.dtype))
    return total / convert(counts, total.type.dtype)


def _group_reduced(x: Tensor, values: Tensor, kind: str, include_self: bool, put: _Put) -> Tensor:
    """Reduce each element of x with its values; without `include_self` the element counts only where it has none."""
    combined = put(x if include_self else full(x.shape, _neutral(kind, x.type.dtype), x.type.dtype), values, kind)
    if include_self and kind != "mean":
        return combined
    counts = put(full(x.shape, int(include_self), "i32"), ones(values.shape, "i32"), "sum")
    if kind == "mean":
        combined = _mean(combined, elementwise.maximum(counts, 1))
    return combined if include_self else where(counts > 0, combined, x)


@aten("scatter_reduce.two")
@on_rows
def scatter_reduce(x: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, include_self: bool = True) -> Tensor:
    put: _Put = lambda base, values, kind: scattered_along(base, dim, index, values, _COMBINED[kind])  # noqa: E731
    return _group_reduced(x, src, reduce, include_self, put)


@aten("index_reduce")
@on_rows
def index_reduce(x: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str, *, include_self: bool = True) -> Tensor:  # fmt: skip
    place = along(x, dim, index)
    methods = {"sum": "add", "mean": "add", "prod": "multiply", "amax": "max", "amin": "min"}
    put: _Put = lambda base, values, kind: getattr(base.at[place], methods[kind])(values)  # noqa: E731
    return _group_reduced(x, source, reduce, include_self, put)


def _segments(x: Tensor, lengths: Tensor | None, offsets: Tensor | None, axis: int) -> tuple[Tensor, Tensor]:
    """Return the segment of each row along `axis`, in the shape of x, and how many rows each segment has."""
    if lengths is None:
        assert offsets is not None
        whole = (slice(None),) * (offsets.ndim - 1)
        starts, ends = offsets[(*whole, slice(-1))], offsets[(*whole, slice(1, None))]
        lengths = ends - starts
    else:
        ends = cumsum(lengths, -1)
    rows = iota((*lengths.shape[:-1], x.shape[axis], lengths.shape[-1]), axis, ends.type.dtype)
    numbers = (rows >= ends[..., None, :]).sum(-1)
    numbers = numbers.reshape(*numbers.shape, *[1] * (x.ndim - axis - 1))
    return broadcast(numbers, x.shape), lengths.reshape(*lengths.shape, *[1] * (x.ndim - axis - 1))


@aten("segment_reduce")
def segment_reduce(x: Tensor, reduce: str, *, lengths: Tensor | None = None, indices: Tensor | None = None, offsets: Tensor | None = None,
                   axis: int = 0, unsafe: bool = False, initial: float | None = None) -> Tensor:  # fmt: skip
    """Reduce consecutive rows along `axis`; an empty segment has the initial value, else the neutral one, or NaN as its mean."""
    del unsafe
    if indices is not None:
        refuse("segment_reduce of indices is not supported", "give lengths or offsets", "MG0103")
    numbers, counts = _segments(x, lengths, offsets, axis)
    kind = {"max": "amax", "min": "amin"}.get(reduce, reduce)
    start = _neutral(kind, x.type.dtype) if initial is None else initial
    base = full((*x.shape[:axis], counts.shape[axis], *x.shape[axis + 1 :]), start, x.type.dtype)
    combined = scattered_along(base, axis, numbers, x, _COMBINED[kind])
    if kind != "mean":
        return combined
    empty = math.nan if initial is None else initial
    return where(counts > 0, combined / convert(elementwise.maximum(counts, 1), x.type.dtype), empty)


@aten("_segment_reduce_backward")
def segment_reduce_backward(grad: Tensor, out: Tensor, x: Tensor, reduce: str, *, lengths: Tensor | None = None, offsets: Tensor | None = None,
                            axis: int = 0, initial: float | None = None) -> Tensor:  # fmt: skip
    """Return the gradient of the rows; equal extremes share it."""
    del initial
    numbers, counts = _segments(x, lengths, offsets, axis)
    is_counted = numbers < counts.shape[axis]
    numbers = where(is_counted, numbers, 0)
    of_rows: Callable[[Tensor], Tensor] = lambda each: indexing.take_along_axis(each, numbers, axis)  # noqa: E731
    share = of_rows(grad)
    if reduce == "mean":
        share = share / of_rows(broadcast(convert(elementwise.maximum(counts, 1), grad.type.dtype), grad.shape))
    elif reduce == "prod":
        share = share * of_rows(out) / x
    elif reduce in ("max", "min"):
        is_extreme = x == of_rows(out)
        ties = scattered_along(full(out.shape, 0, grad.type.dtype), axis, numbers, convert(is_extreme, grad.type.dtype), _COMBINED["add"])  # fmt: skip
        share = where(is_extreme, share / elementwise.maximum(of_rows(ties), 1), 0)
    return where(is_counted, share, 0)


@aten("masked_scatter_backward")
def masked_scatter_backward(grad: Tensor, mask: Tensor, sizes: list[int]) -> Tensor:
    """Return the gradients at the elements that a mask chose, in their order, and zeros for those that were not used."""
    flags, count = broadcast(mask, grad.shape).reshape(-1), math.prod(sizes)
    place = where(flags, cumsum(flags, 0, "i32") - 1, count)
    return full((count,), 0, grad.type.dtype).at[place].set(grad.reshape(-1)).reshape(sizes)
