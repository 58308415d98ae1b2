"""Attributes of ops that make, move and look up elements."""

from __future__ import annotations

from typing import Any

from meshgen.ir.attributes.base import Attributes, Ints


class Constant(Attributes):
    """A NumPy array or scalar, which may be spread over the whole tensor."""

    value: Any


class OneDim(Attributes):
    """The dim along which an iota counts, or operands are concatenated; the dim whose size is asked for."""

    dim: int


class Sort(Attributes):
    """The dim that is sorted, and whether equal elements keep their order."""

    dim: int
    is_stable: bool = False


class Dims(Attributes):
    """Dims of the operand that are reversed or reduced, or the dims of the result to which those of the operand are broadcast."""

    dims: Ints


class Transpose(Attributes):
    """Per dim of the result, that of the operand."""

    perm: Ints


class Slice(Attributes):
    """Per dim the first element, the end, and the step."""

    start: Ints
    limit: Ints
    stride: Ints


class Pad(Attributes):
    """Per dim how much is added before, behind and between elements; before and behind may be negative."""

    low: Ints
    high: Ints
    interior: Ints


class Windows(Attributes):
    """The dims that windows go along, and for each how many elements a window has there, by how many windows and elements are apart."""

    dims: Ints
    sizes: Ints
    strides: Ints
    dilations: Ints


class SliceSizes(Attributes):
    """The shape of a slice whose place is data."""

    slice_sizes: Ints


class GatherDims(Attributes):
    """How indices and slices are dims of the operand, as StableHLO's `gather` has it.

    Fields:
        offset_dims: dims of the result along the slices.
        collapsed_slice_dims, operand_batching_dims: dims of the operand that the result has not as such.
        start_indices_batching_dims: the dims of the indices that go with `operand_batching_dims`.
        start_index_map: per entry of an index vector the dim of the operand; `index_vector_dim` is the dim along them.
    """

    offset_dims: Ints
    collapsed_slice_dims: Ints
    operand_batching_dims: Ints
    start_indices_batching_dims: Ints
    start_index_map: Ints
    index_vector_dim: int
    indices_are_sorted: bool = False


class Gather(GatherDims):
    """With the sizes of the slices."""

    slice_sizes: Ints


class Scatter(Attributes):
    """How indices and updates are dims of the inputs, as StableHLO's `scatter` has it: the reverse of `GatherDims`."""

    update_window_dims: Ints
    inserted_window_dims: Ints
    input_batching_dims: Ints
    scatter_indices_batching_dims: Ints
    scatter_dims_to_operand_dims: Ints
    index_vector_dim: int
    indices_are_sorted: bool = False
    unique_indices: bool = False
