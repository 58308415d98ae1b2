"""PyTorch views with explicit sizes and strides of a tensor's memory (`as_strided`)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from operator import mul
from typing import NamedTuple

from meshgen.frontend.torch.ops.table import aten
from meshgen.frontend.tracer.creation import iota
from meshgen.frontend.tracer.operands import broadcast, tensor
from meshgen.frontend.tracer.recording import refuse
from meshgen.frontend.tracer.tensor import Tensor


class Memory(NamedTuple):
    """The memory layout of a tensor in torch: sizes, strides and offset, in elements."""

    sizes: Sequence[int]
    strides: Sequence[int]
    offset: int


def _memory_order(x: Tensor, memory: Memory | None) -> list[int]:
    """Return the dims of `x` from the one with the largest stride in torch's memory to the one with the smallest.

    Raises:
        ProgramError: MG0103, the tensor has gaps in memory, or elements that share memory.
    """
    if memory is None:
        return [*range(x.ndim)]
    strides = memory.strides
    order = sorted(range(x.ndim), key=lambda d: -strides[d] if x.shape[d] > 1 else -x.size - 1)
    dense = [*accumulate([x.shape[d] for d in order[:0:-1]], mul, initial=1)][::-1]
    if any(x.shape[d] > 1 and strides[d] != dense_stride for d, dense_stride in zip(order, dense, strict=False)):
        refuse(f"as_strided of {x.type} with strides {list(strides)}, which has gaps or overlaps in memory", "call .contiguous() on it first", "MG0103")  # fmt: skip
    return order


def _memory_positions(
    x: Tensor, size: Sequence[int], stride: Sequence[int], start: int | None, memory: Memory | None
) -> Tensor:
    """Return the position of each element of a view in the memory of `x`.

    Raises ProgramError MG0103 beyond that memory.
    """
    begin = 0 if memory is None else memory.offset
    first = (begin if start is None else start) - begin
    last = first + sum((n - 1) * step for n, step in zip(size, stride, strict=True))
    if 0 not in size and (first < 0 or last >= x.size):
        refuse(f"as_strided of {x.type} reads elements {first} to {last}, beyond its memory", "apply it to the tensor that owns this memory", "MG0103")  # fmt: skip
    positions = broadcast(tensor(first, "i32"), size)
    for d, step in enumerate(stride):
        positions = positions + iota(size, d, "i32") * step
    return positions


@aten("as_strided", "as_strided_copy")
def as_strided(x: Tensor, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None, memory: Memory | None = None) -> Tensor:  # fmt: skip
    flat = x.transpose(_memory_order(x, memory)).reshape(-1)
    return flat[_memory_positions(x, size, stride, storage_offset, memory)]


@aten("as_strided_scatter")
def as_strided_scatter(x: Tensor, src: Tensor, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None,
                       memory: Memory | None = None) -> Tensor:  # fmt: skip
    """Return `x` with the elements of a strided view of `x` replaced by `src`."""
    order = _memory_order(x, memory)
    moved = x.transpose(order)
    flat = moved.reshape(-1).at[_memory_positions(x, size, stride, storage_offset, memory)].set(src)
    return flat.reshape(moved.shape).transpose([order.index(d) for d in range(x.ndim)])
