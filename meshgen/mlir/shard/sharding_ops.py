"""Operations of the `shard` dialect for grids, shardings, annotations and queries, in upstream MLIR's syntax (LLVM 22).

Extensions of upstream: `shard.grid` accepts `axis_names`, `shard.sharding` accepts `partial = sum[0]` and (for
sub-axes) the attribute `axes`, and `shard.shard` accepts `required = false` and `open_dims`. Operations that xDSL
defines as upstream does are used from xDSL. xDSL's verifier stops at the first fault and knows no source lines, so
`mlir/module.py` performs the other checks, for the whole module at once.
"""

from __future__ import annotations

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    I64,
    DenseArrayBase,
    FlatSymbolRefAttr,
    IndexType,
    MemRefType,
    SymbolRefAttr,
    TensorType,
    i16,
    i64,
)
from xdsl.dialects.shard import GridOp, ShardAxesArrayAttr, ShardAxesAttr, ShardingType, ShardOp
from xdsl.dialects.utils import DynamicIndexList
from xdsl.dialects.utils.dynamic_index_list import parse_dynamic_index_list_without_types
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import Parser
from xdsl.traits import Pure

from meshgen.mlir.shard.attributes import PartialAttr, parse_list

_NO_SIZES = DenseArrayBase.from_list(i64, [])
_NO_AXES = DenseArrayBase.from_list(i16, [])


def parse_sizes(parser: Parser, name: str) -> tuple[list[SSAValue], DenseArrayBase[I64]]:
    """Parse an optional list `NAME = [1, %n]`.

    Returns the SSA values in it, and its integers, with `DYNAMIC_INDEX` in place of each value.
    """
    if parser.parse_optional_keyword(name) is None:
        return [], _NO_SIZES
    parser.parse_punctuation("=")
    unresolved, sizes = parse_dynamic_index_list_without_types(parser, DYNAMIC_INDEX)
    return [parser.resolve_operand(value, i64) for value in unresolved], DenseArrayBase.from_list(i64, sizes)


@irdl_op_definition
class UpdateHaloOp(IRDLOperation):
    """An exchange that fills the halo of each tile with elements of the neighbors' tiles along `split_axes`.

    Upstream writes one type, which includes the halo. If the operand's encoding differs from the result's, both types
    are written: `: type -> type`.
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


@irdl_op_definition
class ShardingOp(IRDLOperation):
    """The definition of a sharding, as an SSA value.

    Halo sizes and offsets are flat lists with entries for each split dim in order. The type may be omitted in the text.
    """

    name = "shard.sharding"
    grid = prop_def(FlatSymbolRefAttr)
    split_axes = prop_def(ShardAxesArrayAttr)
    partial = opt_prop_def(PartialAttr)
    static_sharded_dims_offsets = prop_def(DenseArrayBase[I64], default_value=_NO_SIZES)
    dynamic_sharded_dims_offsets = var_operand_def(I64)
    static_halo_sizes = prop_def(DenseArrayBase[I64], default_value=_NO_SIZES)
    dynamic_halo_sizes = var_operand_def(I64)
    result = result_def(ShardingType)
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    traits = traits_def(Pure())

    @classmethod
    def parse(cls, parser: Parser) -> ShardingOp:
        grid = SymbolRefAttr(parser.parse_symbol_name())
        parser.parse_keyword("split_axes")
        parser.parse_punctuation("=")
        properties: dict[str, Attribute] = {"grid": grid}
        properties["split_axes"] = ShardAxesArrayAttr.new(ShardAxesArrayAttr.parse_parameters(parser))
        if parser.parse_optional_keyword("partial") is not None:
            parser.parse_punctuation("=")
            properties["partial"] = PartialAttr.new(PartialAttr.parse_parameter(parser))
        halo, static_halo = parse_sizes(parser, "halo_sizes")
        offsets, static_offsets = parse_sizes(parser, "sharded_dims_offsets")
        properties |= {"static_halo_sizes": static_halo, "static_sharded_dims_offsets": static_offsets}
        attributes = parser.parse_optional_attr_dict()
        if parser.parse_optional_punctuation(":") is not None:
            parser.parse_type()
        return cls(
            operands=[offsets, halo], result_types=[ShardingType()], properties=properties, attributes=attributes
        )


@irdl_op_definition
class GetShardingOp(IRDLOperation):
    """A query for the sharding of a tensor, as an SSA value."""

    name = "shard.get_sharding"
    source = operand_def(TensorType)
    result = result_def(ShardingType)
    traits = traits_def(Pure())
    assembly_format = "$source attr-dict `:` type($source) `->` type($result)"


@irdl_op_definition
class ShardShapeOp(IRDLOperation):
    """A query for the shape of the local tile of a tensor of shape `dims`, on the device with the coordinates `device`."""

    name = "shard.shard_shape"
    dims = prop_def(DenseArrayBase[I64])
    dims_dynamic = var_operand_def(IndexType)
    sharding = operand_def(ShardingType)
    device = prop_def(DenseArrayBase[I64])
    device_dynamic = var_operand_def(IndexType)
    result = var_result_def(IndexType)
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    traits = traits_def(Pure())
    assembly_format = (
        "`dims` `=` custom<DynamicIndexList>($dims_dynamic, $dims) `sharding` `=` $sharding "
        "`device` `=` custom<DynamicIndexList>($device_dynamic, $device) attr-dict `:` type($result)"
    )
    custom_directives = (DynamicIndexList,)


@irdl_op_definition
class GridShapeOp(IRDLOperation):
    """A query for the sizes of the grid's axes: the listed ones, or all."""

    name = "shard.grid_shape"
    grid = prop_def(FlatSymbolRefAttr)
    axes = prop_def(ShardAxesAttr, default_value=_NO_AXES)
    result = var_result_def(IndexType)
    traits = traits_def(Pure())
    assembly_format = "$grid (`axes` `=` $axes^)? attr-dict `:` type($result)"


@irdl_op_definition
class ProcessMultiIndexOp(IRDLOperation):
    """A query for the device's coordinates along the listed axes of the grid, or along all."""

    name = "shard.process_multi_index"
    grid = prop_def(FlatSymbolRefAttr)
    axes = prop_def(ShardAxesAttr, default_value=_NO_AXES)
    result = var_result_def(IndexType)
    traits = traits_def(Pure())
    assembly_format = "`on` $grid (`axes` `=` $axes^)? attr-dict `:` type($result)"


@irdl_op_definition
class ProcessLinearIndexOp(IRDLOperation):
    """A query for the device's linear index in the grid, in row-major order."""

    name = "shard.process_linear_index"
    grid = prop_def(FlatSymbolRefAttr)
    result = result_def(IndexType)
    traits = traits_def(Pure())
    assembly_format = "`on` $grid attr-dict `:` type($result)"


@irdl_op_definition
class NeighborsLinearIndicesOp(IRDLOperation):
    """A query for the linear indices of the devices before and after `device` in its group over `split_axes`.

    At the ends of the group, where a neighbor is missing, its index is -1. As in upstream's documentation, the text may
    have one type and one name (`%idx#0`, `%idx#1`) for both results.
    """

    name = "shard.neighbors_linear_indices"
    grid = prop_def(FlatSymbolRefAttr)
    device = var_operand_def(IndexType)
    split_axes = prop_def(ShardAxesAttr)
    neighbor_down = result_def(IndexType)
    neighbor_up = result_def(IndexType)
    traits = traits_def(Pure())

    @classmethod
    def parse(cls, parser: Parser) -> NeighborsLinearIndicesOp:
        parser.parse_keyword("on")
        grid = SymbolRefAttr(parser.parse_symbol_name())
        device = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, parser.parse_unresolved_operand)
        parser.parse_keyword("split_axes")
        parser.parse_punctuation("=")
        axes = DenseArrayBase.from_list(i16, parse_list(parser, parser.parse_integer))
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        types = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_type)
        return cls(
            operands=[[parser.resolve_operand(value, IndexType()) for value in device]],
            result_types=types * 2 if len(types) == 1 else types,
            properties={"grid": grid, "split_axes": axes},
            attributes=attributes,
        )


LAYOUT_OPS = (
    GridOp, ShardingOp, ShardOp, GetShardingOp, ShardShapeOp, GridShapeOp, ProcessMultiIndexOp, ProcessLinearIndexOp,
    NeighborsLinearIndicesOp, UpdateHaloOp,
)  # fmt: skip
