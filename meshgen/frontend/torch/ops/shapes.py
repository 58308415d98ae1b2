"""PyTorch shape operations: views, permutations, slices, concatenations and conversions.

Views are values here; `values.py` propagates writes to them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from itertools import accumulate
from typing import Any

from meshgen.frontend.torch.ops.table import aten, enter_rows, enter_traced
from meshgen.frontend.torch.promotion import result_type
from meshgen.frontend.tracer import creation, indexing, joining, shapes
from meshgen.frontend.tracer.operands import axis_of, broadcast, convert, tensor
from meshgen.frontend.tracer.recording import refuse
from meshgen.frontend.tracer.tensor import Operand, Tensor


@aten("view", "reshape", "_unsafe_view", "view_copy", "_reshape_copy")
def reshape(x: Tensor, shape: Sequence[int]) -> Tensor:
    if isinstance(shape, str):
        refuse(f"view as {shape} reads the bits of {x.type} as another type", "convert it with .to(dtype)", "MG0103")
    return x.reshape(shape)


@aten("flatten")
def flatten(x: Tensor, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    if not x.ndim:
        return x.reshape(1)
    first, last = axis_of(start_dim, x.ndim), axis_of(end_dim, x.ndim)
    return x.reshape(*x.shape[:first], math.prod(x.shape[first : last + 1]), *x.shape[last + 1 :])


@aten("unflatten.int")
def unflatten(x: Tensor, dim: int, sizes: Sequence[int]) -> Tensor:
    dim = axis_of(dim, x.ndim)
    known_size = math.prod(size for size in sizes if size != -1)
    return x.reshape(*x.shape[:dim], *(x.shape[dim] // known_size if s == -1 else s for s in sizes), *x.shape[dim + 1 :])  # fmt: skip


@aten("adjoint", "mH", "H", "matrix_H")
def adjoint(x: Tensor) -> Tensor:
    return x.mT.conj() if x.ndim else x.conj()


@aten("squeeze", "squeeze_copy")
def squeeze(x: Tensor, dim: int | Sequence[int] | None = None) -> Tensor:
    dims = range(x.ndim) if dim is None else [dim] if isinstance(dim, int) else dim
    ones = {axis_of(axis, x.ndim) for axis in dims if x.ndim}
    return x.reshape([size for d, size in enumerate(x.shape) if d not in ones or size != 1])


@aten("expand", "expand_copy", "broadcast_to")
def expand(x: Tensor, sizes: Sequence[int], implicit: bool = False) -> Tensor:
    padded_shape = (1,) * (len(sizes) - x.ndim) + x.shape
    return broadcast(x, [old_size if size == -1 else size for old_size, size in zip(padded_shape, sizes, strict=True)])


@aten("to", "_to_copy", "type_as", "to.prim_Device")
def to(x: Tensor, *args: Any, dtype: str | None = None, **_: Any) -> Tensor:
    """Convert `x` to a dtype: the keyword `dtype`, a positional dtype, or the dtype of another tensor.

    Devices are ignored.
    """
    dtypes = [
        argument.type.dtype if isinstance(argument, Tensor) else argument
        for argument in args
        if isinstance(argument, (str, Tensor))
    ]
    return convert(x, dtype or (dtypes[0] if dtypes else x.type.dtype))


@aten("cat", "concat", "concatenate")
def cat(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    dtype = result_type(*tensors)
    # Torch allows an empty vector in a concatenation of tensors of any rank.
    nonempty = [convert(operand, dtype) for operand in tensors if operand.shape != (0,)]
    return joining.concatenate(nonempty, dim) if nonempty else convert(tensors[0], dtype)


@aten("stack")
def stack(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    return joining.concatenate(
        [shapes.expand_dims(convert(operand, result_type(*tensors)), dim) for operand in tensors], dim
    )


def _sections(x: Tensor, sizes: Sequence[int], dim: int = 0) -> list[Tensor]:
    return [slice_(x, dim, end - size, end) for size, end in zip(sizes, accumulate(sizes), strict=True)]


@aten("split.Tensor", "split_copy.Tensor", "split.default")
def split(x: Tensor, size: int | Sequence[int], dim: int = 0) -> list[Tensor]:
    dim_size = x.shape[axis_of(dim, x.ndim)]
    sizes = [min(size, dim_size - start) for start in range(0, dim_size, size)] if isinstance(size, int) else size
    return _sections(x, sizes, dim)


@aten("tensor_split.sections", "tensor_split.indices")
def tensor_split(x: Tensor, at: int | Sequence[int], dim: int = 0) -> list[Tensor]:
    """Split a dim into `at` slices whose sizes differ by at most one. If `at` is a list, split before each row in `at`."""
    if isinstance(at, int):
        size, remainder = divmod(x.shape[axis_of(dim, x.ndim)], at)
        at = [i * size + min(i, remainder) for i in range(1, at)]
    return [slice_(x, dim, start, end) for start, end in zip([0, *at], [*at, None], strict=True)]


def along(x: Tensor, dim: int, entry: Any) -> tuple[Any, ...]:
    """Return an index that selects `entry` in the dim `dim` of `x`: `x[along(x, 1, 3)]` is `x[:, 3]`."""
    return (slice(None),) * axis_of(dim, x.ndim) + (entry,)


@aten("slice", "slice_copy")
def slice_(x: Tensor, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1) -> Tensor:
    rows, all_rows = slice(start, end, step), range(x.shape[axis_of(dim, x.ndim)])
    return x if all_rows[rows] == all_rows else x[along(x, dim, rows)]


@aten("narrow")
def narrow(x: Tensor, dim: int, start: int, length: int) -> Tensor:
    start = start + x.shape[axis_of(dim, x.ndim)] if start < 0 else start
    return slice_(x, dim, start, start + length)


@aten("unfold", "unfold_copy")
def unfold(x: Tensor, dim: int, size: int, step: int) -> Tensor:
    """Return sliding windows of length `size` along a dim. The elements of a window form a new last dim."""
    if not x.ndim:
        return slice_(x.reshape(1), 0, 0, size)
    dim = axis_of(dim, x.ndim)
    count = (x.shape[dim] - size) // step + 1
    if not size:
        return creation.zeros((*x.shape[:dim], count, *x.shape[dim + 1 :], 0), x.type.dtype)
    slices = [slice_(x, dim, i, i + (count - 1) * step + 1, step) for i in range(size)]
    return shapes.moveaxis(stack(slices, 0), 0, -1)


@aten("pixel_shuffle")
def pixel_shuffle(x: Tensor, factor: int) -> Tensor:
    *leading, c, h, w = x.shape
    n = len(leading)
    grouped = x.reshape(*leading, c // factor**2, factor, factor, h, w)
    order = [*range(n), n, n + 3, n + 1, n + 4, n + 2]
    return grouped.transpose(order).reshape(*leading, c // factor**2, h * factor, w * factor)


@aten("pixel_unshuffle")
def pixel_unshuffle(x: Tensor, factor: int) -> Tensor:
    *leading, c, h, w = x.shape
    n = len(leading)
    grouped = x.reshape(*leading, c, h // factor, factor, w // factor, factor)
    order = [*range(n), n, n + 2, n + 4, n + 1, n + 3]
    return grouped.transpose(order).reshape(*leading, c * factor**2, h // factor, w // factor)


@aten("atleast_1d")
def atleast_1d(x: Operand | Sequence[Tensor]) -> Tensor | list[Tensor]:
    return (
        [shapes.atleast_1d(operand) for operand in x] if isinstance(x, list | tuple) else shapes.atleast_1d(tensor(x))
    )


@aten("resize")
def resize(x: Tensor, size: Sequence[int], **_: Any) -> Tensor:
    """Return the first elements of the flattened `x` in another shape.

    Missing elements are zeros; torch leaves them uninitialized.
    """
    flat, count = x.reshape(-1), math.prod(size)
    flat = joining.pad(flat, (0, count - x.size)) if count > x.size else slice_(flat, 0, 0, count)
    return flat.reshape(size)


_TYPES = {"float": "f32", "half": "f16", "bfloat16": "bf16", "double": "f64", "long": "i64", "int": "i32", "bool": "i1"}


enter_rows({
    "view_as reshape_as": lambda x, like: x.reshape(like.shape),
    "permute permute_copy": lambda x, dims: x.transpose(dims) if x.ndim else x,
    "transpose transpose_copy swapaxes swapdims": lambda x, first, second: x.swapaxes(first, second) if x.ndim else x,
    "t t_copy numpy_T": lambda x: x.transpose(),
    "contiguous detach alias clone resolve_conj resolve_neg lift_fresh lift_fresh_copy lift requires_grad pin_memory alias_copy "
    "detach_copy prims.copy_strided": lambda x, *_, **__: x,
    "expand_as": lambda x, like: broadcast(x, like.shape),
    "broadcast_tensors": lambda tensors: shapes.broadcast_arrays(*tensors),
    "repeat tile": lambda x, repeats: joining.tile(x, list(repeats)) if repeats else x,
    "repeat_interleave.self_int": lambda x, repeats, dim=None, output_size=None: joining.repeat(x, repeats, dim),
    "hstack": lambda tensors: cat(tensors, int(tensors[0].ndim > 1)),
    "vstack": lambda tensors: cat([shapes.atleast_2d(each) for each in tensors]),
    "split_with_sizes split_with_sizes_copy split.sizes": _sections,
    "chunk": lambda x, chunks, dim=0: split(x, max(1, -(-x.shape[axis_of(dim, x.ndim)] // chunks)), dim),
    "hsplit": lambda x, at: tensor_split(x, at, int(x.ndim > 1)),
    "vsplit": tensor_split,
    "dsplit": lambda x, at: tensor_split(x, at, 2),
    "unbind unbind_copy": lambda x, dim=0: list(joining.unstack(x, axis=dim)),
    "select.int select_copy.int": lambda x, dim, index: x[along(x, dim, index)],
    "roll": lambda x, shifts, dims=(): joining.roll(x, list(shifts), list(dims)) if dims else joining.roll(x, shifts[0]),
    "flip": lambda x, dims: joining.flip(x, list(dims)),
    "diagonal diagonal_copy": indexing.diagonal,
    "channel_shuffle": lambda x, groups: unflatten(x, 1, (groups, -1)).swapaxes(1, 2).reshape(x.shape),
    "meshgrid": lambda tensors, indexing="ij": creation.meshgrid(*tensors, indexing=indexing),
    "resize_as": lambda x, like, **_: resize(x, like.shape),
    **{name: partial(to, dtype=dtype) for name, dtype in _TYPES.items()},
})  # fmt: skip
enter_traced("ravel mT=matrix_transpose matrix_transpose linalg_matrix_transpose=matrix_transpose movedim=moveaxis moveaxis tril triu diag unsqueeze=expand_dims unsqueeze_copy=expand_dims rot90")  # fmt: skip
