"""The collectives of the `shard` dialect: upstream's, in its syntax, and some of our own.

Types are local shapes, or global ones with a `#shard.split` encoding on both sides (stages `materialize` and
`optimize`); `checks.py` says which shapes and encodings each op allows. A group over parts of axes is
given by the further attribute `axes = ["x:(1)2"]`, which then stands for `grid_axes`.

Ours: `to_partial` (a replicated value as a sum with one non-neutral term), `permute_pairs`, `grouped` (from stage `fuse` on), and
what `moves.py` has.
"""

from __future__ import annotations

from abc import ABC

from xdsl.dialects.builtin import (
    I64,
    DenseArrayBase,
    IndexType,
    IndexTypeConstr,
    IntegerAttr,
    MemRefType,
    StringAttr,
    TensorType,
    UnitAttr,
    i64,
)
from xdsl.dialects.shard import (
    BroadcastOp,
    CollectiveCommunicationOp,
    GatherOp,
    RecvOp,
    ReductionKind,
    ScatterOp,
    SendOp,
    ShardAxesArrayAttr,
)
from xdsl.dialects.utils import DynamicIndexList
from xdsl.irdl import (
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.traits import Pure

from meshgen.mlir.formats import op_definition
from meshgen.mlir.shard.attributes import ReductionKindAttr

GROUP = "$input `on` $grid (`grid_axes` `=` $grid_axes^)? "
KIND = "(`reduction` `=` $reduction^)? "
TYPES = "attr-dict `:` type($input) `->` type($result)"
SUM = ReductionKindAttr(ReductionKind.SUM)
NO_SIZES = DenseArrayBase.from_list(i64, [])


class GroupOp(CollectiveCommunicationOp, ABC):
    """A collective over groups: the operand and the result of each device."""

    input = operand_def(TensorType)
    result = result_def(TensorType)
    traits = traits_def(Pure())


@op_definition
class AllGatherOp(GroupOp):
    """Concatenate the group's tensors along `gather_axis`, on every device of the group."""

    name = "shard.all_gather"
    gather_axis = prop_def(IntegerAttr.constr(IndexTypeConstr))
    assembly_format = GROUP + "`gather_axis` `=` $gather_axis " + TYPES


@op_definition
class AllReduceOp(CollectiveCommunicationOp):
    """Reduce element-wise over the group, in the result's element type, on every device of the group."""

    name = "shard.all_reduce"
    input = operand_def(TensorType.constr() | MemRefType.constr())
    reduction = prop_def(ReductionKindAttr, default_value=SUM)
    result = result_def(TensorType.constr() | MemRefType.constr())
    traits = traits_def(Pure())
    assembly_format = GROUP + KIND + TYPES


@op_definition
class ReduceOp(GroupOp):
    """Reduce element-wise over the group, on its `root`; undefined on the other devices."""

    name = "shard.reduce"
    input = operand_def(TensorType)  # inherited operands would follow its own
    reduction = prop_def(ReductionKindAttr, default_value=SUM)
    root = prop_def(DenseArrayBase[I64])
    root_dynamic = var_operand_def(IndexType)
    assembly_format = (
        GROUP + KIND + "`root` `=` custom<DynamicIndexList>($root_dynamic, $root) "
        "attr-dict `:` functional-type(operands, results)"
    )
    custom_directives = (DynamicIndexList,)


@op_definition
class AllSliceOp(GroupOp):
    """Keep the part of the own tensor along `slice_axis` that belongs to the device's place in its group."""

    name = "shard.all_slice"
    slice_axis = prop_def(IntegerAttr.constr(IndexTypeConstr))
    assembly_format = GROUP + "`slice_axis` `=` $slice_axis " + TYPES


@op_definition
class AllToAllOp(GroupOp):
    """Split along `split_axis`, send part i to device i of the group, concatenate along `concat_axis`."""

    name = "shard.all_to_all"
    split_axis = prop_def(IntegerAttr.constr(IndexTypeConstr))
    concat_axis = prop_def(IntegerAttr.constr(IndexTypeConstr))
    assembly_format = GROUP + "`split_axis` `=` $split_axis `concat_axis` `=` $concat_axis " + TYPES


@op_definition
class ReduceScatterOp(GroupOp):
    """Reduce over the group; the device at place i keeps part i along `scatter_axis`."""

    name = "shard.reduce_scatter"
    reduction = prop_def(ReductionKindAttr, default_value=SUM)
    scatter_axis = prop_def(IntegerAttr.constr(IndexTypeConstr))
    assembly_format = GROUP + KIND + "`scatter_axis` `=` $scatter_axis " + TYPES


@op_definition
class ShiftOp(GroupOp):
    """The device at coordinate c + offset of `shift_axis` receives the tensor of the one at c.

    Upstream's example (`offset = 2 rotate` on four devices) leaves the direction open. Without `rotate` the
    result is undefined on devices without a source.
    """

    name = "shard.shift"
    shift_axis = prop_def(IntegerAttr.constr(IndexTypeConstr))
    offset = prop_def(IntegerAttr[I64])
    rotate = opt_prop_def(UnitAttr)
    assembly_format = GROUP + "`shift_axis` `=` $shift_axis `offset` `=` $offset (`rotate` $rotate^)? " + TYPES


@op_definition
class PermutePairsOp(GroupOp):
    """For each [source, target] of `pairs`, devices by number, the target receives the source's tensor.

    Devices that are not a target have zeros. `grid_axes` are the axes along which pairs move.
    """

    name = "shard.permute_pairs"
    pairs = prop_def(ShardAxesArrayAttr)
    assembly_format = GROUP + "`pairs` `=` $pairs " + TYPES


@op_definition
class ToPartialOp(GroupOp):
    """A replicated value as a reduction: the first device of each group keeps it, the others hold the neutral element."""

    name = "shard.to_partial"
    reduction = prop_def(ReductionKindAttr, default_value=SUM)
    assembly_format = GROUP + KIND + TYPES


@op_definition
class GroupedOp(CollectiveCommunicationOp):
    """One launch of a collective on several operands, each of which gives its own result.

    `collective` is `all_reduce`, `all_gather` or `reduce_scatter`; `axis` the tensor axis of the latter two.
    """

    name = "shard.grouped"
    inputs = var_operand_def(TensorType)
    collective = prop_def(StringAttr)
    axis = opt_prop_def(IntegerAttr.constr(IndexTypeConstr))
    reduction = opt_prop_def(ReductionKindAttr)
    outputs = var_result_def(TensorType)
    traits = traits_def(Pure())
    assembly_format = (
        "$collective $inputs `on` $grid (`grid_axes` `=` $grid_axes^)? (`axis` `=` $axis^)? (`reduction` `=` $reduction^)? "
        "attr-dict `:` functional-type($inputs, $outputs)"
    )


COLLECTIVES = (
    AllGatherOp, AllReduceOp, AllSliceOp, AllToAllOp, BroadcastOp, GatherOp, RecvOp, ReduceOp, ReduceScatterOp,
    ScatterOp, SendOp, ShiftOp, ToPartialOp, PermutePairsOp, GroupedOp,
)  # fmt: skip
