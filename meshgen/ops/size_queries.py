"""The records of ops that query sizes or have size operands. `sizes/size_ops.py` folds them."""

from __future__ import annotations

from meshgen.ir.attributes.base import Attributes, NoAttributes
from meshgen.ir.attributes.contraction import ConvolutionDims
from meshgen.ir.attributes.movement import Dims, GatherDims, OneDim
from meshgen.ir.attributes.sharding import OverAxes
from meshgen.ir.attributes.sizes import ShapeAssertion
from meshgen.ops.op import NO_ERROR_RULE, NO_KERNEL, NO_RULE, NOT_EVALUABLE, AtLeast, Op, Trait, per_result
from meshgen.ops.types import sizes as types
from meshgen.ops.types.site import Inference
from meshgen.ops.types.structure import broadcast_in_dim, iota, reshape


def _query(name: str, operands: int | AtLeast, infer: Inference, attributes: type[Attributes] = NoAttributes, *,
           results: int | None = 1, has_regions: bool = False) -> Op:  # fmt: skip
    return Op(name=name, operands=operands, types=infer, evaluate=NOT_EVALUABLE, error=NO_ERROR_RULE, rule=NO_RULE, kernel=NO_KERNEL,
              flops=per_result, results=results, has_regions=has_regions, attributes=attributes,
              traits=frozenset((Trait.SIZE_QUERY,)))  # fmt: skip


OPS = (
    _query("axis_size", 0, types.axis_size, OverAxes),
    _query("get_dimension_size", 1, types.get_dimension_size, OneDim),
    _query("dynamic_iota", 1, types.sized(1, iota), OneDim),
    _query("dynamic_reshape", 2, types.sized(1, reshape)),
    _query("dynamic_broadcast_in_dim", 2, types.sized(1, broadcast_in_dim), Dims),
    _query("dynamic_pad", 5, types.sized(3, types.padded)),
    _query("real_dynamic_slice", 4, types.sized(3)),
    _query("dynamic_gather", 3, types.dynamic_gather, GatherDims),
    _query("dynamic_conv", 3, types.dynamic_conv, ConvolutionDims),
    _query("dynamic_reduce_window", AtLeast(7), types.dynamic_reduce_window, results=None, has_regions=True),
    _query("shape_assertion", AtLeast(1), types.shape_assertion, ShapeAssertion),
)
