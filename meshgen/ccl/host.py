"""A rank's buffers of a collective as bytes in host memory, and the execution of local steps on them with NumPy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from meshgen.ccl.simulated import reduce_arrays
from meshgen.ccl.steps import Box, BufferRef, Copy, Fill, Group, Reduce
from meshgen.ir.graph import DTYPES
from meshgen.ops.evaluate.common import Array

Bytes = np.ndarray[Any, np.dtype[np.uint8]]  # one-dimensional and contiguous


class HostBuffers:
    """The operands, results and scratch of one collective on one rank.

    NumPy raises an error for accesses outside of a buffer.
    """

    def __init__(self, buffers: Mapping[BufferRef, Bytes]) -> None:
        self._buffers = buffers

    def array(self, box: Box) -> Array:
        """Return a NumPy view of the elements of `box`."""
        strides = tuple(stride * box.itemsize for stride in box.strides)
        return np.ndarray(box.shape, DTYPES[box.dtype], self._buffers[box.buffer], box.byte_offset, strides)

    def bytes_of(self, box: Box) -> Bytes:
        """Return a NumPy view of the bytes of `box`, which must be contiguous."""
        assert box.is_contiguous, "transports move contiguous memory only"
        return np.ndarray((box.nbytes,), np.uint8, self._buffers[box.buffer], box.byte_offset)

    def copy(self, step: Copy) -> None:
        self.array(step.target)[...] = self.array(step.source)

    def fill(self, step: Fill) -> None:
        array = self.array(step.target)
        array[...] = np.full(array.itemsize, step.value, np.uint8).view(array.dtype)[0]

    def reduce(self, step: Reduce) -> None:
        arrays = [self.array(source) for source in step.sources]
        self.array(step.target)[...] = reduce_arrays(arrays, step.kind, step.target.dtype)


def reduced_bytes(parts: Sequence[Bytes], step: Group) -> Bytes:
    """Return the element-wise reduction of the operands of all group members, in group order, as bytes."""
    total = reduce_arrays([part.view(DTYPES[step.dtype]) for part in parts], step.reduction, step.dtype)
    return total.view(np.uint8)
