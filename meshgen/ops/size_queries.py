"""Ops that ask for sizes or take them as operands: `sizes/size_ops.py` replaces them once sizes are given."""

from __future__ import annotations

from meshgen.ops.op import ANY_ERROR, NO_KERNEL, NO_MEANING, NO_RULE, AtLeast, Op, Trait, named, per_result
from meshgen.ops.types import sizes as types
from meshgen.ops.types.site import Inference

_GATHER = (
    "offset_dims",
    "collapsed_slice_dims",
    "operand_batching_dims",
    "start_indices_batching_dims",
    "start_index_map",
)


def _query(name: str, operands: int | AtLeast, infer: Inference, attributes: dict[str, str] | None = None, *,
           results: int | None = 1, has_regions: bool = False) -> Op:  # fmt: skip
    return Op(name=name, operands=operands, types=infer, evaluate=NO_MEANING, error=ANY_ERROR, rule=NO_RULE, kernel=NO_KERNEL,
              flops=per_result, results=results, has_regions=has_regions, attributes=attributes or {},
              traits=frozenset((Trait.SIZE_QUERY,)))  # fmt: skip


OPS = (
    _query("axis_size", 0, types.axis_size, {"axes": "names"}),
    _query("get_dimension_size", 1, types.get_dimension_size, {"dim": "int"}),
    _query("dynamic_iota", 1, types.sized(1), {"dim": "int"}),
    _query("dynamic_reshape", 2, types.sized(1)),
    _query("dynamic_broadcast_in_dim", 2, types.sized(1), {"dims": "ints"}),
    _query("dynamic_pad", 5, types.sized(3)),
    _query("real_dynamic_slice", 4, types.sized(3)),
    _query("dynamic_gather", 3, types.dynamic_gather, {**named(_GATHER, "ints"), "index_vector_dim": "int"}),
    _query("dynamic_conv", 3, types.dynamic_conv, named(("window_strides", "lhs_dilation", "rhs_dilation"), "ints")),
    _query("dynamic_reduce_window", AtLeast(7), types.dynamic_reduce_window, results=None, has_regions=True),
    _query("shape_assertion", AtLeast(1), types.shape_assertion, {"message": "str"}),
)
