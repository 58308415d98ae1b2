"""Attributes of ops that create, move and gather elements."""

from __future__ import annotations

from typing import Any

from meshgen.ir.attributes.base import Attributes, Ints


class Constant(Attributes):
    """Attributes of `constant`: the value as a NumPy array or scalar. An array may be a broadcast view (see
    `ir/splats.py`).
    """

    value: Any


class OneDim(Attributes):
    """Attributes of ops with one dim: along it an `iota` counts, `concatenate` joins, or a size query reads the size."""

    dim: int


class Sort(Attributes):
    """Attributes of `sort`: the dim to sort along, and whether equal elements keep their order."""

    dim: int
    is_stable: bool = False


class Dims(Attributes):
    """Attributes of ops with several dims: the dims to reverse or reduce, or a broadcast's result dim of each operand
    dim.
    """

    dims: Ints


class Transpose(Attributes):
    """Attributes of `transpose`: dim d of the result is dim `perm[d]` of the operand."""

    perm: Ints


class Slice(Attributes):
    """Attributes of `slice`: the start index, end index (exclusive) and stride of each dim."""

    start: Ints
    limit: Ints
    stride: Ints


class Pad(Attributes):
    """Attributes of `pad`: the padding of each dim before, after and between elements. `low` and `high` may be
    negative.
    """

    low: Ints
    high: Ints
    interior: Ints


class Windows(Attributes):
    """Attributes of ops with sliding windows: the dims that windows slide along, with window size, stride and dilation."""

    dims: Ints
    sizes: Ints
    strides: Ints
    dilations: Ints


class SliceSizes(Attributes):
    """Attributes of `dynamic_slice`: the shape of the slice. Its start index is an operand."""

    slice_sizes: Ints


class GatherDims(Attributes):
    """Attributes that all gathers share: the correspondence of dims of operand, indices and result, as in StableHLO.

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
    """Attributes of `scatter`: the correspondence of dims of inputs, indices and updates, as in StableHLO."""

    update_window_dims: Ints
    inserted_window_dims: Ints
    input_batching_dims: Ints
    scatter_indices_batching_dims: Ints
    scatter_dims_to_operand_dims: Ints
    index_vector_dim: int
    indices_are_sorted: bool = False
    unique_indices: bool = False
