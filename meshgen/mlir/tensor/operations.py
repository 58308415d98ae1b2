"""Upstream's dialect tensor as far as meshgen reads it; most of its operations are xDSL's. With globals of ml_program."""

from __future__ import annotations

from xdsl.dialects import tensor
from xdsl.dialects.builtin import DenseArrayBase, IndexType, StringAttr, TensorType, UnitAttr, i64
from xdsl.ir import Attribute, Operation
from xdsl.irdl import (
    AnyAttr,
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import Parser
from xdsl.traits import Pure

from meshgen.mlir.parser import TextParser
from meshgen.mlir.plain_ops import Cast, define
from meshgen.mlir.scf.parallel_ops import ParallelInsertSliceOp
from meshgen.mlir.tensor.signatures import SIGNATURES


@irdl_op_definition
class GenerateOp(IRDLOperation):
    """`tensor.generate %n {^bb0(%i: index): ... tensor.yield %x : f32} : tensor<?xf32>`"""

    name = "tensor.generate"
    sizes = var_operand_def(AnyAttr())
    body = region_def("single_block")
    result = result_def(AnyAttr())

    @classmethod
    def parse(cls, parser: Parser) -> GenerateOp:
        assert isinstance(parser, TextParser)
        names = parser.parse_values() if parser.at_value() else []
        sizes = parser.resolve_operands(names, [IndexType()] * len(names), parser.pos)
        body = parser.parse_region()
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        return cls.create(
            operands=list(sizes), result_types=[parser.parse_type()], regions=[body], attributes=attributes
        )


@irdl_op_definition
class GatherOp(IRDLOperation):
    """`%x[%places] gather_dims([1, 2]) unique : (types) -> type`"""

    name = "tensor.gather"
    source = operand_def(TensorType)
    indices = operand_def(TensorType)
    gather_dims = prop_def(DenseArrayBase.constr(i64))
    unique = opt_prop_def(UnitAttr)
    result = result_def(TensorType)
    traits = traits_def(Pure())
    assembly_format = (
        "$source `` `[` $indices `]` `gather_dims` `(` $gather_dims `)` (`unique` $unique^)? attr-dict "
        "`:` functional-type(operands, results)"
    )


@irdl_op_definition
class ScatterOp(IRDLOperation):
    """`%rows into %x[%places] scatter_dims([1, 2]) unique : (types) -> type`"""

    name = "tensor.scatter"
    source = operand_def(TensorType)
    dest = operand_def(TensorType)
    indices = operand_def(TensorType)
    scatter_dims = prop_def(DenseArrayBase.constr(i64))
    unique = opt_prop_def(UnitAttr)
    result = result_def(TensorType)
    traits = traits_def(Pure())
    assembly_format = (
        "$source `into` $dest `` `[` $indices `]` `scatter_dims` `(` $scatter_dims `)` (`unique` $unique^)? attr-dict "
        "`:` functional-type(operands, results)"
    )


@irdl_op_definition
class RankOp(IRDLOperation):
    """`%x : type`"""

    name = "tensor.rank"
    tensor = operand_def(TensorType)
    result = result_def(IndexType)
    traits = traits_def(Pure())

    @classmethod
    def parse(cls, parser: Parser) -> RankOp:
        name = parser.parse_unresolved_operand()
        parser.parse_punctuation(":")
        return cls(operands=[parser.resolve_operand(name, parser.parse_type())], result_types=[IndexType()])


@irdl_op_definition
class GlobalOp(IRDLOperation):
    """`ml_program.global private mutable @seed(dense<0> : tensor<i64>) : tensor<i64>`, as torch-mlir puts it before programs."""

    name = "ml_program.global"
    sym_name = prop_def(StringAttr)
    type = prop_def(AnyAttr())
    is_mutable = opt_prop_def(UnitAttr)
    value = opt_prop_def(AnyAttr())
    sym_visibility = opt_prop_def(StringAttr)

    @classmethod
    def parse(cls, parser: Parser) -> GlobalOp:
        for word in ("public", "private", "nested", "mutable"):
            parser.parse_optional_keyword(word)
        properties: dict[str, Attribute] = {"sym_name": parser.parse_symbol_name()}
        if parser.parse_optional_punctuation("(") is not None:
            properties["value"] = parser.parse_attribute()
            parser.parse_punctuation(")")
        parser.parse_punctuation(":")
        properties["type"] = parser.parse_type()
        return cls.create(properties=properties, attributes=parser.parse_optional_attr_dict())


OPERATIONS: tuple[type[Operation], ...] = (
    tensor.CastOp, tensor.CollapseShapeOp, tensor.ConcatOp, tensor.DimOp, tensor.EmptyOp, tensor.ExpandShapeOp,
    tensor.ExtractOp, tensor.ExtractSliceOp, tensor.FromElementsOp, tensor.InsertOp, tensor.InsertSliceOp,
    tensor.PadOp, tensor.ReshapeOp, tensor.SplatOp, GenerateOp, tensor.YieldOp, ParallelInsertSliceOp, GatherOp,
    ScatterOp, *define(Cast, "tensor", "bitcast", SIGNATURES), RankOp, GlobalOp,
)  # fmt: skip
