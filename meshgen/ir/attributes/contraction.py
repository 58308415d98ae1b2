"""Attributes of reductions, dots, convolutions, and windowed ops."""

from __future__ import annotations

from meshgen.ir.attributes.base import Attributes, Ints, Names, Precisions


class Reduce(Attributes):
    """Attributes of `reduce`: the reduced dims, and the reduction `kind` (`add`, `maximum`, ...)."""

    dims: Ints
    kind: str


class Dot(Attributes):
    """Attributes of `dot_general`: the batch and contracting dims of both operands, and StableHLO's `precision` per
    operand.
    """

    lhs_batch: Ints
    rhs_batch: Ints
    lhs_contract: Ints
    rhs_contract: Ints
    precision: Precisions = ()


class Ragged(Attributes):
    """Attributes of `ragged_dot`, a grouped matmul: the rows are divided into groups, with one matrix per group.

    Fields:
        contracts: if true, the rows are the contracted dim, so each group produces a matrix. Otherwise each row is
            multiplied by the matrix of its group.
        disjoint: no row belongs to two groups.
        total_groups: the number of groups on all devices, which the cost model needs; 0 if this device has all groups.
        group_axes: the mesh axes that shard the groups.
    """

    contracts: bool
    precision: Precisions = ()
    disjoint: bool = False
    total_groups: int = 0
    group_axes: Names = ()


class ConvolutionDims(Attributes):
    """Attributes that all convolutions share, as in StableHLO: dims of image (`input`), kernel and result, strides,
    dilations.
    """

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
    """Attributes of a convolution with static padding: `low` and `high` per spatial dim, which may be negative."""

    low: Ints
    high: Ints


class SelectWindow(Attributes):
    """Attributes of `select_and_scatter`: the size, stride and padding of its windows along each dim."""

    window_dimensions: Ints
    window_strides: Ints
    low: Ints
    high: Ints


class Window(SelectWindow):
    """Attributes of `reduce_window`: its windows, and the dilations of the operand (`base_dilations`) and of the
    windows.
    """

    base_dilations: Ints
    window_dilations: Ints
