"""Attributes of reductions, dots, convolutions, and windowed ops."""

from __future__ import annotations

from meshgen.ir.attributes.base import Attributes, Ints, Names, Precisions


class Reduce(Attributes):
    """The reduced dims and the reduction kind: `add`, `maximum`, ..."""

    dims: Ints
    kind: str


class Dot(Attributes):
    """The batch and contracting dims of both operands. `precision`: StableHLO's, per operand."""

    lhs_batch: Ints
    rhs_batch: Ints
    lhs_contract: Ints
    rhs_contract: Ints
    precision: Precisions = ()


class Ragged(Attributes):
    """Attributes of a matmul of groups of rows with one matrix per group.

    Fields:
        contracts: the rows are contracted, so each group produces a matrix. Otherwise each row is multiplied by
            the matrix of its group.
        disjoint: no row belongs to two groups.
        total_groups: the number of groups on all devices, which costs depend on; 0: this device has all groups.
        group_axes: the mesh axes that shard the groups.
    """

    contracts: bool
    precision: Precisions = ()
    disjoint: bool = False
    total_groups: int = 0
    group_axes: Names = ()


class ConvolutionDims(Attributes):
    """The dims of image (`input`), kernel and result, and strides and dilations of the windows, as in StableHLO."""

    window_strides: Ints
    lhs_dilation: Ints
    rhs_dilation: Ints
    window_reversal: Ints
    input_batch: int
    input_feature: int
    input_spatial: Ints
    kernel_input_feature: int
    kernel_output_feature: int
    kernel_spatial: Ints
    output_batch: int
    output_feature: int
    output_spatial: Ints
    feature_group_count: int
    batch_group_count: int
    precision: Precisions = ()


class Convolution(ConvolutionDims):
    """Attributes of a convolution with padding of the spatial dims, which may be negative."""

    low: Ints
    high: Ints


class SelectWindow(Attributes):
    """The windows of `select_and_scatter`: size, stride and padding of each dim."""

    window_dimensions: Ints
    window_strides: Ints
    low: Ints
    high: Ints


class Window(SelectWindow):
    """Attributes of `reduce_window`: the windows, and the dilations of the operand and of the windows."""

    base_dilations: Ints
    window_dilations: Ints
