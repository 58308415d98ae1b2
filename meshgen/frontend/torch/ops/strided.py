"""PyTorch's views of a tensor's memory: elements that are any number of places apart."""

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
    """How torch has a tensor in memory."""

    sizes: Sequence[int]
    strides: Sequence[int]
    offset: int


def _memory_order(x: Tensor, memory: Memory | None) -> list[int]:
    """Return the dims of x from the outermost in memory on. Raises ProgramError MG0103 for a tensor with holes or shared elements."""
    if memory is None:
        return [*range(x.ndim)]
    strides = memory.strides
    order = sorted(range(x.ndim), key=lambda d: -strides[d] if x.shape[d] > 1 else -x.size - 1)
    dense = [*accumulate([x.shape[d] for d in order[:0:-1]], mul, initial=1)][::-1]
    if any(x.shape[d] > 1 and strides[d] != own for d, own in zip(order, dense, strict=False)):
        refuse(f"as_strided of {x.type} with strides {list(strides)}, between whose elements there are others", "take .contiguous() of it first", "MG0103")  # fmt: skip
    return order


def _places(x: Tensor, size: Sequence[int], stride: Sequence[int], start: int | None, memory: Memory | None) -> Tensor:
    """Return the places of elements in the memory of x. Raises ProgramError MG0103 for memory beyond x."""
    begin = 0 if memory is None else memory.offset
    first = (begin if start is None else start) - begin
    last = first + sum((n - 1) * step for n, step in zip(size, stride, strict=True))
    if 0 not in size and (first < 0 or last >= x.size):
        refuse(f"as_strided of {x.type} reads elements {first} to {last}, beyond its memory", "take it of the tensor that has this memory", "MG0103")  # fmt: skip
    places = broadcast(tensor(first, "i32"), size)
    for d, step in enumerate(stride):
        places = places + iota(size, d, "i32") * step
    return places


@aten("as_strided", "as_strided_copy")
def as_strided(x: Tensor, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None, memory: Memory | None = None) -> Tensor:  # fmt: skip
    flat = x.transpose(_memory_order(x, memory)).reshape(-1)
    return flat[_places(x, size, stride, storage_offset, memory)]


@aten("as_strided_scatter")
def as_strided_scatter(x: Tensor, src: Tensor, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None,
                       memory: Memory | None = None) -> Tensor:  # fmt: skip
    """Return x with the elements of a view replaced."""
    order = _memory_order(x, memory)
    moved = x.transpose(order)
    flat = moved.reshape(-1).at[_places(x, size, stride, storage_offset, memory)].set(src)
    return flat.reshape(moved.shape).transpose([order.index(d) for d in range(x.ndim)])
