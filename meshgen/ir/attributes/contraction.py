"""Attributes of reductions, dots, convolutions, and ops that look through windows."""

from __future__ import annotations

from meshgen.ir.attributes.base import Attributes, Ints, Names, Precisions


class Reduce(Attributes):
    """The dims that are reduced, and how: `add`, `maximum`, ..."""

    dims: Ints
    kind: str


class Dot(Attributes):
    """Dims of both operands that go together: batch dims stay, contracted ones are summed. `precision`: StableHLO's, per operand."""

    lhs_batch: Ints
    rhs_batch: Ints
    lhs_contract: Ints
    rhs_contract: Ints
    precision: Precisions = ()


class Ragged(Attributes):
    """Whether rows are contracted, which makes a matrix per group (`contracts`), or each row is multiplied by the matrix of its group.

    Where groups are `disjoint`, no row is in two of them. Of an op on a device with a part of the groups, `group_axes` are the mesh axes
    over which they are divided, and `total_groups` is their number on all devices (0: it has all of them); costs depend on it.
    """

    contracts: bool
    precision: Precisions = ()
    disjoint: bool = False
    total_groups: int = 0
    group_axes: Names = ()


class ConvolutionDims(Attributes):
    """What the dims of image (`input`), kernel and result are, and how windows go over the spatial ones; without padding."""

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
    """With the padding of spatial dims, which may be negative."""

    low: Ints
    high: Ints


class SelectWindow(Attributes):
    """Windows of `select_and_scatter`, per dim: sizes, steps and padding."""

    window_dimensions: Ints
    window_strides: Ints
    low: Ints
    high: Ints


class Window(SelectWindow):
    """Windows of `reduce_window`: with the distance of elements of the operand, and of those in a window."""

    base_dilations: Ints
    window_dilations: Ints
