"""Attributes of ops that create, move and gather elements."""

from __future__ import annotations

from typing import Any

from meshgen.ir.attributes.base import Attributes, Ints


class Constant(Attributes):
    """A NumPy array or scalar; it may be a broadcast view of the tensor's shape."""

    value: Any


class OneDim(Attributes):
    """The dim along which an iota counts or operands are concatenated, or whose size an op queries."""

    dim: int


class Sort(Attributes):
    """The dim to sort along, and whether equal elements keep their order."""

    dim: int
    is_stable: bool = False


class Dims(Attributes):
    """The operand dims to reverse or reduce, or the result dim of each operand dim of a broadcast."""

    dims: Ints


class Transpose(Attributes):
    """The operand dim of each result dim."""

    perm: Ints


class Slice(Attributes):
    """The start index, end index and stride of each dim."""

    start: Ints
    limit: Ints
    stride: Ints


class Pad(Attributes):
    """The padding of each dim before, after and between elements; the first two may be negative."""

    low: Ints
    high: Ints
    interior: Ints


class Windows(Attributes):
    """The dims that windows slide along, and for each the window size, the stride and the dilation."""

    dims: Ints
    sizes: Ints
    strides: Ints
    dilations: Ints


class SliceSizes(Attributes):
    """The shape of a slice whose start index is an operand."""

    slice_sizes: Ints


class GatherDims(Attributes):
    """The correspondence of dims of the operand, indices and result, as in StableHLO's `gather`.

    Fields:
        offset_dims: the result dims along a slice.
        collapsed_slice_dims, operand_batching_dims: the operand dims that are not among the offset dims.
        start_indices_batching_dims: the dims of the indices that correspond to `operand_batching_dims`.
        start_index_map: the operand dim for each component of an index vector.
        index_vector_dim: the dim of the indices that holds the components.
    """

    offset_dims: Ints
    collapsed_slice_dims: Ints
    operand_batching_dims: Ints
    start_indices_batching_dims: Ints
    start_index_map: Ints
    index_vector_dim: int
    indices_are_sorted: bool = False


class Gather(GatherDims):
    """Attributes of a gather with static slice sizes."""

    slice_sizes: Ints


class Scatter(Attributes):
    """The correspondence of dims of inputs, indices and updates, as in StableHLO's `scatter`."""

    update_window_dims: Ints
    inserted_window_dims: Ints
    input_batching_dims: Ints
    scatter_indices_batching_dims: Ints
    scatter_dims_to_operand_dims: Ints
    index_vector_dim: int
    indices_are_sorted: bool = False
    unique_indices: bool = False
