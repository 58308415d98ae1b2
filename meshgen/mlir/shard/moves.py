"""Moves of the `shard` dialect, which upstream has not, and what tells devices apart or counts them.

`permute` and `retile` lead from one sharding to another, `update_halo` and `fetch_rows` to neighbours' or chosen rows,
`transfer_send` and `transfer_recv` between the grids of a program; `process_index`, `axis_size` and `mask_padding` are local.
"""

from __future__ import annotations

from abc import ABC

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    I64,
    DenseArrayBase,
    FlatSymbolRefAttr,
    FloatAttr,
    IndexTypeConstr,
    IntegerAttr,
    MemRefType,
    SymbolRefAttr,
    TensorType,
    UnitAttr,
    i64,
)
from xdsl.dialects.shard import (
    CollectiveCommunicationOp,
    ShardAxesArrayAttr,
)
from xdsl.dialects.utils.dynamic_index_list import parse_dynamic_index_list_without_types
from xdsl.ir import SSAValue
from xdsl.irdl import (
    IRDLOperation,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import Parser
from xdsl.traits import Pure

from meshgen.mlir.formats import op_definition
from meshgen.mlir.shard.collective_ops import GROUP, NO_SIZES, TYPES, GroupOp


class _TilesOp(IRDLOperation, ABC):
    """Tiles of a tensor, and other tiles of it."""

    input = operand_def(TensorType)
    grid = prop_def(FlatSymbolRefAttr)
    result = result_def(TensorType)
    traits = traits_def(Pure())
    assembly_format = "$input `on` $grid " + TYPES


@op_definition
class PermuteOp(_TilesOp):
    """The same tiles on other devices. Without encodings: attributes `source`, `target` and `shape` (global)."""

    name = "shard.permute"


@op_definition
class RetileOp(_TilesOp):
    """Directly to another sharding: each device fetches missing elements from the nearest holder."""

    name = "shard.retile"


@op_definition
class TransferSendOp(IRDLOperation):
    """Send the tensor to the devices of another grid: `source` is its sharding here, `target` its sharding there.

    The result, and the operand of `after`, is an order token: transfers run in the order of their tokens.
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


@op_definition
class TransferRecvOp(IRDLOperation):
    """Take the tensor that the `shard.transfer_send` with the same channel hands over; and the turn of the next transfer."""

    name = "shard.transfer_recv"
    turn = opt_operand_def(TensorType)
    grid = prop_def(FlatSymbolRefAttr)
    channel = prop_def(IntegerAttr[I64])
    result = result_def(TensorType)
    left = result_def(TensorType)
    assembly_format = "(`after` $turn^ `:` type($turn))? `from` $grid `channel` `=` $channel attr-dict `->` type($result) `,` type($left)"


@op_definition
class ProcessIndexOp(IRDLOperation):
    """The device's number in its group over `grid_axes`, mixed radix, as a 0-d tensor."""

    name = "shard.process_index"
    grid = prop_def(FlatSymbolRefAttr)
    grid_axes = CollectiveCommunicationOp.grid_axes
    result = result_def(TensorType)
    traits = traits_def(Pure())
    assembly_format = "`on` $grid (`grid_axes` `=` $grid_axes^)? attr-dict `:` type($result)"


@op_definition
class AxisSizeOp(IRDLOperation):
    """How many devices a group over `grid_axes` has, where the grid leaves that open, as a 0-d tensor."""

    name = "shard.axis_size"
    grid = prop_def(FlatSymbolRefAttr)
    grid_axes = CollectiveCommunicationOp.grid_axes
    result = result_def(TensorType)
    traits = traits_def(Pure())
    assembly_format = "`on` $grid (`grid_axes` `=` $grid_axes^)? attr-dict `:` type($result)"


@op_definition
class MaskPaddingOp(GroupOp):
    """Rows of `dim` whose global index is `size` or more become `fill`: row i is number index * local size + i."""

    name = "shard.mask_padding"
    dim = prop_def(IntegerAttr.constr(IndexTypeConstr))
    size = prop_def(IntegerAttr.constr(IndexTypeConstr))
    fill = prop_def(FloatAttr.constr() | IntegerAttr.constr())
    assembly_format = GROUP + "`dim` `=` $dim `size` `=` $size `fill` `=` $fill " + TYPES


@op_definition
class FetchRowsOp(GroupOp):
    """Rows [(index * step + base) / divisor, ...) of the group's tiles joined along `dim`, as many as the result has.

    The joined tensor has `limit` rows; with `wrap` rows are counted modulo `limit`, without it those outside are
    undefined. The quotient is rounded up; the divisor is 1 where none is written. `parts` are several fetches in one
    message, each start, tile, base, step, rows, limit: of the rows [start, start + tile) of the input; the result has
    their rows one after the other.
    """

    name = "shard.fetch_rows"
    dim = prop_def(IntegerAttr.constr(IndexTypeConstr))
    base = prop_def(IntegerAttr[I64])
    step = prop_def(IntegerAttr[I64])
    limit = prop_def(IntegerAttr[I64])
    divisor = opt_prop_def(IntegerAttr[I64])
    wrap = opt_prop_def(UnitAttr)
    parts = opt_prop_def(DenseArrayBase[I64])
    assembly_format = (
        GROUP + "`dim` `=` $dim `base` `=` $base `step` `=` $step (`divisor` `=` $divisor^)? `limit` `=` $limit "
        "(`wrap` $wrap^)? (`parts` `=` $parts^)? " + TYPES
    )


def parse_sizes(parser: Parser, name: str) -> tuple[list[SSAValue], DenseArrayBase[I64]]:
    """`name = [1, %n]`, if it is there: the values, and the numbers with a mark in place of each value."""
    if parser.parse_optional_keyword(name) is None:
        return [], NO_SIZES
    parser.parse_punctuation("=")
    unresolved, sizes = parse_dynamic_index_list_without_types(parser, DYNAMIC_INDEX)
    return [parser.resolve_operand(value, i64) for value in unresolved], DenseArrayBase.from_list(i64, sizes)


@op_definition
class UpdateHaloOp(IRDLOperation):
    """Fetch the halo rows from the neighbours along `split_axes`.

    Upstream has one type, which includes the halo. Where encodings differ, ` -> type` names the result's.
    """

    name = "shard.update_halo"
    destination = operand_def(TensorType.constr() | MemRefType.constr())
    grid = prop_def(FlatSymbolRefAttr)
    split_axes = prop_def(ShardAxesArrayAttr)
    static_halo_sizes = prop_def(DenseArrayBase[I64], default_value=NO_SIZES)
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


MOVES = (
    PermuteOp, RetileOp, TransferSendOp, TransferRecvOp, UpdateHaloOp, ProcessIndexOp, AxisSizeOp, MaskPaddingOp, FetchRowsOp,
)  # fmt: skip
