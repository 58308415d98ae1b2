"""The records of reductions, dots, convolutions, and windowed ops."""

from __future__ import annotations

import math

from meshgen.ir.attributes.contraction import Convolution, Dot, Ragged, Reduce, SelectWindow, Window
from meshgen.ir.attributes.movement import Dims
from meshgen.ir.graph import Node
from meshgen.ops.dot_dims import DotDims, ragged_groups
from meshgen.ops.evaluate import contraction as means
from meshgen.ops.evaluate import window as folds
from meshgen.ops.op import (
    CONVOLUTION,
    DOT,
    NEST,
    RAGGED,
    REDUCTION,
    AtLeast,
    Op,
    Trait,
    TypeOf,
    per_operand,
    per_result,
)
from meshgen.ops.parts import contraction as parts
from meshgen.ops.parts import folds as fold_parts
from meshgen.ops.rules import contraction as rules
from meshgen.ops.rules import updates, windowed
from meshgen.ops.tolerance import region_reductions as fold_errors
from meshgen.ops.tolerance import sums as errors
from meshgen.ops.types import contraction as types


def _dot_flops(node: Node, type_of: TypeOf) -> float:
    return 2.0 * type_of(node.result).size * DotDims.of(node).depth(type_of(node.operands[0]))


def _ragged_flops(node: Node, type_of: TypeOf) -> float:
    """Return 2 m k n operations (each row belongs to one group), times the fraction of the groups that this device has."""
    lhs, rhs, starts = (type_of(value) for value in node.operands[:3])
    return 2.0 * lhs.size * rhs.sizes[-1] * starts.size / max(ragged_groups(node), 1)


def _convolution_flops(node: Node, type_of: TypeOf) -> float:
    kernel = type_of(node.operands[1]).sizes
    features = kernel[node.attrs.kernel_output_feature]
    return 2.0 * type_of(node.result).size * math.prod(kernel) / max(features, 1)


def _window_flops(node: Node, type_of: TypeOf) -> float:
    """Return the operations of a windowed reduction: one per element of each window.

    A window that is as long as its dim is a cumulative reduction, which takes log2(length) steps per element.
    """
    sizes = type_of(node.operands[0]).sizes
    windows = zip(node.attrs.window_dimensions, sizes, strict=True)
    steps = math.prod(math.log2(width) if 1 < size <= width else width for width, size in windows)
    return float(per_result(node, type_of) * steps)


def _select_flops(node: Node, type_of: TypeOf) -> float:
    """Return the comparisons: one per element of each window. The number of windows is the number of elements of the
    source.
    """
    return float(type_of(node.operands[1]).size * math.prod(node.attrs.window_dimensions))


OPS = (
    Op(name="reduce", operands=2, types=types.reduce, evaluate=means.reduce, error=errors.reduce, rule=rules.reduce,
       kernel=REDUCTION, flops=per_operand, attributes=Reduce, parts=fold_parts.reduce),
    Op(name="reduce_region", operands=AtLeast(2), types=types.reduce_region, evaluate=folds.reduce_region,
       error=fold_errors.reduce_region, rule=updates.reduce_region, kernel=NEST, flops=per_operand,
       attributes=Dims, has_regions=True, parts=fold_parts.reduce_region),
    Op(name="dot_general", operands=2, types=types.dot_general, evaluate=means.dot_general, error=errors.bilinear,
       rule=rules.dot_general, kernel=DOT, flops=_dot_flops, attributes=Dot,
       traits=frozenset((Trait.CONTRACTS,)), parts=parts.dot_general),
    Op(name="ragged_dot", operands=4, types=types.ragged_dot, evaluate=means.ragged_dot, error=errors.bilinear,
       rule=rules.ragged_dot, kernel=RAGGED, flops=_ragged_flops, attributes=Ragged, traits=frozenset((Trait.CONTRACTS,))),
    Op(name="convolution", operands=2, types=types.convolution, evaluate=means.convolution, error=errors.bilinear,
       rule=windowed.convolution, kernel=CONVOLUTION, flops=_convolution_flops,
       attributes=Convolution, traits=frozenset((Trait.CONTRACTS,)), parts=parts.convolution),
    Op(name="reduce_window", operands=AtLeast(2), types=types.reduce_window, evaluate=folds.reduce_window,
       error=fold_errors.reduce_window, rule=windowed.reduce_window, kernel=NEST, flops=_window_flops,
       attributes=Window, has_regions=True, parts=fold_parts.cumulative),
    Op(name="select_and_scatter", operands=3, types=types.select_and_scatter, evaluate=folds.select_and_scatter,
       error=fold_errors.select_and_scatter, rule=windowed.select_and_scatter, kernel=NEST, flops=_select_flops,
       attributes=SelectWindow, has_regions=True),
)  # fmt: skip
