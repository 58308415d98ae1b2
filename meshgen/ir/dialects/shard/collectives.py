"""The collectives of the `shard` dialect: upstream's, in its syntax, and some of our own.

Types are local shapes, or global ones with a `#shard.split` encoding on both sides (stages `materialize` and
`optimize`); `checks.py` says which shapes and encodings each op allows. A group over parts of axes is
given by the further attribute `axes = ["x:(1)2"]`, which then stands for `grid_axes`.

Ours: `permute` and `retile` (between two shardings), `to_partial` (a replicated value as a sum with one
non-neutral term), `mask_padding`, `process_index`, `fetch_rows`, `permute_pairs`, and between the grids of a program
`transfer_send` and `transfer_recv`.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    I64,
    DenseArrayBase,
    FlatSymbolRefAttr,
    FloatAttr,
    IndexType,
    IndexTypeConstr,
    IntegerAttr,
    MemRefType,
    SymbolRefAttr,
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
from xdsl.dialects.utils.dynamic_index_list import parse_dynamic_index_list_without_types, print_dynamic_index_list
from xdsl.ir import SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure

from meshgen.ir.dialects.shard.attributes import ReductionKindAttr

_GROUP = "$input `on` $grid (`grid_axes` `=` $grid_axes^)? "
_KIND = "(`reduction` `=` $reduction^)? "
_TYPES = "attr-dict `:` type($input) `->` type($result)"
_SUM = ReductionKindAttr(ReductionKind.SUM)
_NO_SIZES = DenseArrayBase.from_list(i64, [])


@irdl_op_definition
class AllGatherOp(CollectiveCommunicationOp):
    """Concatenate the group's tensors along `gather_axis`, on every device of the group."""

    name = "shard.all_gather"
    input = operand_def(TensorType)
    gather_axis = prop_def(IntegerAttr.constr(IndexTypeConstr))
    result = result_def(TensorType)
    traits = traits_def(Pure())
    assembly_format = _GROUP + "`gather_axis` `=` $gather_axis " + _TYPES


@irdl_op_definition
class AllReduceOp(CollectiveCommunicationOp):
    """Reduce element-wise over the group, in the result's element type, on every device of the group."""

    name = "shard.all_reduce"
    input = operand_def(TensorType.constr() | MemRefType.constr())
    reduction = prop_def(ReductionKindAttr, default_value=_SUM)
    result = result_def(TensorType.constr() | MemRefType.constr())
    traits = traits_def(Pure())
    assembly_format = _GROUP + _KIND + _TYPES


@irdl_op_definition
class ReduceOp(CollectiveCommunicationOp):
    """Reduce element-wise over the group, on its `root`; undefined on the other devices."""

    name = "shard.reduce"
    input = operand_def(TensorType)
    reduction = prop_def(ReductionKindAttr, default_value=_SUM)
    root = prop_def(DenseArrayBase[I64])
    root_dynamic = var_operand_def(IndexType)
    result = result_def(TensorType)
    traits = traits_def(Pure())
    assembly_format = (
        _GROUP + _KIND + "`root` `=` custom<DynamicIndexList>($root_dynamic, $root) "
        "attr-dict `:` functional-type(operands, results)"
    )
    custom_directives = (DynamicIndexList,)


@irdl_op_definition
class AllSliceOp(CollectiveCommunicationOp):
    """Keep the part of the own tensor along `slice_axis` that belongs to the device's place in its group."""

    name = "shard.all_slice"
    input = operand_def(TensorType)
    slice_axis = prop_def(IntegerAttr.constr(IndexTypeConstr))
    result = result_def(TensorType)
    traits = traits_def(Pure())
    assembly_format = _GROUP + "`slice_axis` `=` $slice_axis " + _TYPES


@irdl_op_definition
class AllToAllOp(CollectiveCommunicationOp):
    """Split along `split_axis`, send part i to device i of the group, concatenate along `concat_axis`."""

    name = "shard.all_to_all"
    input = operand_def(TensorType)
    split_axis = prop_def(IntegerAttr.constr(IndexTypeConstr))
    concat_axis = prop_def(IntegerAttr.constr(IndexTypeConstr))
    result = result_def(TensorType)
    traits = traits_def(Pure())
    assembly_format = _GROUP + "`split_axis` `=` $split_axis `concat_axis` `=` $concat_axis " + _TYPES


@irdl_op_definition
class ReduceScatterOp(CollectiveCommunicationOp):
    """Reduce over the group; the device at place i keeps part i along `scatter_axis`."""

    name = "shard.reduce_scatter"
    input = operand_def(TensorType)
    reduction = prop_def(ReductionKindAttr, default_value=_SUM)
    scatter_axis = prop_def(IntegerAttr.constr(IndexTypeConstr))
    result = result_def(TensorType)
    traits = traits_def(Pure())
    assembly_format = _GROUP + _KIND + "`scatter_axis` `=` $scatter_axis " + _TYPES


@irdl_op_definition
class ShiftOp(CollectiveCommunicationOp):
    """The device at coordinate c + offset of `shift_axis` receives the tensor of the one at c.

    Upstream's example (`offset = 2 rotate` on four devices) leaves the direction open. Without `rotate` the
    result is undefined where there is no such device.
    """

    name = "shard.shift"
    input = operand_def(TensorType)
    shift_axis = prop_def(IntegerAttr.constr(IndexTypeConstr))
    offset = prop_def(IntegerAttr[I64])
    rotate = opt_prop_def(UnitAttr)
    result = result_def(TensorType)
    traits = traits_def(Pure())
    assembly_format = _GROUP + "`shift_axis` `=` $shift_axis `offset` `=` $offset (`rotate` $rotate^)? " + _TYPES


@irdl_op_definition
class PermutePairsOp(CollectiveCommunicationOp):
    """For each [source, target] of `pairs`, devices by number, the target receives the source's tensor.

    Who is no target has zeros. `grid_axes` are the axes along which pairs move.
    """

    name = "shard.permute_pairs"
    input = operand_def(TensorType)
    pairs = prop_def(ShardAxesArrayAttr)
    result = result_def(TensorType)
    traits = traits_def(Pure())
    assembly_format = _GROUP + "`pairs` `=` $pairs " + _TYPES


@irdl_op_definition
class ToPartialOp(CollectiveCommunicationOp):
    """A replicated value as a reduction: the first device of each group keeps it, the others hold the neutral element."""

    name = "shard.to_partial"
    input = operand_def(TensorType)
    reduction = prop_def(ReductionKindAttr, default_value=_SUM)
    result = result_def(TensorType)
    traits = traits_def(Pure())
    assembly_format = _GROUP + _KIND + _TYPES


@irdl_op_definition
class PermuteOp(IRDLOperation):
    """The same tiles on other devices. Without encodings: attributes `source`, `target` and `shape` (global)."""

    name = "shard.permute"
    input = operand_def(TensorType)
    grid = prop_def(FlatSymbolRefAttr)
    result = result_def(TensorType)
    traits = traits_def(Pure())
    assembly_format = "$input `on` $grid " + _TYPES


@irdl_op_definition
class RetileOp(IRDLOperation):
    """Straight to another sharding: each device fetches what it misses from the nearest device that holds it."""

    name = "shard.retile"
    input = operand_def(TensorType)
    grid = prop_def(FlatSymbolRefAttr)
    result = result_def(TensorType)
    traits = traits_def(Pure())
    assembly_format = "$input `on` $grid " + _TYPES


@irdl_op_definition
class TransferSendOp(IRDLOperation):
    """Hand the tensor to the devices of another grid: `source` says how it lies here and `target` how it will there.

    The result, and the operand behind `after`, is the turn of the next transfer: they run in the order that they have.
    """

    name = "shard.transfer_send"
    input = operand_def(TensorType)
    turn = opt_operand_def(TensorType)
    grid = prop_def(FlatSymbolRefAttr)
    channel = prop_def(IntegerAttr[I64])
    result = result_def(TensorType)
    assembly_format = (
        "$input (`after` $turn^)? `to` $grid `channel` `=` $channel attr-dict `:` type($input) (`,` type($turn)^)? "
        "`->` type($result)"
    )


@irdl_op_definition
class TransferRecvOp(IRDLOperation):
    """Take the tensor that the `shard.transfer_send` with the same channel hands over; and the turn of the next transfer."""

    name = "shard.transfer_recv"
    turn = opt_operand_def(TensorType)
    grid = prop_def(FlatSymbolRefAttr)
    channel = prop_def(IntegerAttr[I64])
    result = result_def(TensorType)
    left = result_def(TensorType)
    assembly_format = "(`after` $turn^ `:` type($turn))? `from` $grid `channel` `=` $channel attr-dict `->` type($result) `,` type($left)"


@irdl_op_definition
class ProcessIndexOp(IRDLOperation):
    """The device's number in its group over `grid_axes`, mixed radix, as a 0-d tensor."""

    name = "shard.process_index"
    grid = prop_def(FlatSymbolRefAttr)
    grid_axes = CollectiveCommunicationOp.grid_axes
    result = result_def(TensorType)
    traits = traits_def(Pure())
    assembly_format = "`on` $grid (`grid_axes` `=` $grid_axes^)? attr-dict `:` type($result)"


@irdl_op_definition
class MaskPaddingOp(CollectiveCommunicationOp):
    """Rows of `dim` whose global index is `size` or more become `fill`: row i is number index * local size + i."""

    name = "shard.mask_padding"
    input = operand_def(TensorType)
    dim = prop_def(IntegerAttr.constr(IndexTypeConstr))
    size = prop_def(IntegerAttr.constr(IndexTypeConstr))
    fill = prop_def(FloatAttr.constr() | IntegerAttr.constr())
    result = result_def(TensorType)
    traits = traits_def(Pure())
    assembly_format = _GROUP + "`dim` `=` $dim `size` `=` $size `fill` `=` $fill " + _TYPES


@irdl_op_definition
class FetchRowsOp(CollectiveCommunicationOp):
    """Rows [(index * step + base) / divisor, ...) of the group's tiles joined along `dim`, as many as the result has.

    The joined tensor has `limit` rows; with `wrap` rows are counted modulo `limit`, without it those outside are
    undefined. The quotient is rounded up; the divisor is 1 where none is written. `parts` are several fetches in one
    message, each start, tile, base, step, rows, limit: of the rows [start, start + tile) of the input; the result has
    their rows one after the other.
    """

    name = "shard.fetch_rows"
    input = operand_def(TensorType)
    dim = prop_def(IntegerAttr.constr(IndexTypeConstr))
    base = prop_def(IntegerAttr[I64])
    step = prop_def(IntegerAttr[I64])
    limit = prop_def(IntegerAttr[I64])
    divisor = opt_prop_def(IntegerAttr[I64])
    wrap = opt_prop_def(UnitAttr)
    parts = opt_prop_def(DenseArrayBase[I64])
    result = result_def(TensorType)
    traits = traits_def(Pure())
    assembly_format = (
        _GROUP + "`dim` `=` $dim `base` `=` $base `step` `=` $step (`divisor` `=` $divisor^)? `limit` `=` $limit "
        "(`wrap` $wrap^)? (`parts` `=` $parts^)? " + _TYPES
    )


def parse_sizes(parser: Parser, name: str) -> tuple[list[SSAValue], DenseArrayBase[I64]]:
    """`name = [1, %n]`, if it is there: the values, and the numbers with a mark where a value stands."""
    if parser.parse_optional_keyword(name) is None:
        return [], _NO_SIZES
    parser.parse_punctuation("=")
    unresolved, sizes = parse_dynamic_index_list_without_types(parser, DYNAMIC_INDEX)
    return [parser.resolve_operand(value, i64) for value in unresolved], DenseArrayBase.from_list(i64, sizes)


def print_sizes(printer: Printer, name: str, sizes: DenseArrayBase[I64], values: Sequence[SSAValue]) -> None:
    """What `parse_sizes` reads."""
    if len(sizes):
        printer.print_string(f" {name} = ")
        print_dynamic_index_list(printer, DYNAMIC_INDEX, values, sizes.get_values())


@irdl_op_definition
class UpdateHaloOp(IRDLOperation):
    """Fetch the halo rows from the neighbours along `split_axes`.

    Upstream has one type, which includes the halo. Where encodings differ, ` -> type` names the result's.
    """

    name = "shard.update_halo"
    destination = operand_def(TensorType.constr() | MemRefType.constr())
    grid = prop_def(FlatSymbolRefAttr)
    split_axes = prop_def(ShardAxesArrayAttr)
    static_halo_sizes = prop_def(DenseArrayBase[I64], default_value=_NO_SIZES)
    halo_sizes = var_operand_def(I64)
    result = result_def(TensorType.constr() | MemRefType.constr())
    traits = traits_def(Pure())

    @classmethod
    def parse(cls, parser: Parser) -> UpdateHaloOp:
        source = parser.parse_unresolved_operand()
        parser.parse_keyword("on")
        grid = SymbolRefAttr(parser.parse_symbol_name())
        parser.parse_keyword("split_axes")
        parser.parse_punctuation("=")
        axes = ShardAxesArrayAttr.new(ShardAxesArrayAttr.parse_parameters(parser))
        dynamic, sizes = parse_sizes(parser, "halo_sizes")
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        source_type = parser.parse_type()
        result_type = parser.parse_type() if parser.parse_optional_punctuation("->") is not None else source_type
        return cls(
            operands=[parser.resolve_operand(source, source_type), dynamic],
            result_types=[result_type],
            properties={"grid": grid, "split_axes": axes, "static_halo_sizes": sizes},
            attributes=attributes,
        )

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_operand(self.destination)
        printer.print_string(" on ")
        printer.print_symbol_name(self.grid.string_value())
        printer.print_string(" split_axes = ")
        self.split_axes.print_parameters(printer)
        print_sizes(printer, "halo_sizes", self.static_halo_sizes, self.halo_sizes)
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.destination.type)
        if self.result.type != self.destination.type:
            printer.print_string(" -> ")
            printer.print_attribute(self.result.type)


GROUP_COLLECTIVES = (
    AllGatherOp, AllReduceOp, AllSliceOp, AllToAllOp, BroadcastOp, GatherOp, RecvOp, ReduceOp, ReduceScatterOp,
    ScatterOp, SendOp, ShiftOp, ToPartialOp, MaskPaddingOp,
    FetchRowsOp, PermutePairsOp,
)  # fmt: skip
COLLECTIVE_OPS = (*GROUP_COLLECTIVES, PermuteOp, RetileOp, TransferSendOp, TransferRecvOp, UpdateHaloOp, ProcessIndexOp)
