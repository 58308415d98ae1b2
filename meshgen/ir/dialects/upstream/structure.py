"""Upstream's dialects tensor and scf as far as meshgen reads them; most of their operations are xDSL's."""

from __future__ import annotations

from xdsl.dialects import scf, tensor
from xdsl.dialects.builtin import IndexType
from xdsl.ir import Dialect
from xdsl.irdl import AnyAttr, IRDLOperation, irdl_op_definition, region_def, result_def, var_operand_def
from xdsl.parser import Parser

from meshgen.ir.parser import TextParser


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


TENSOR = Dialect(
    "tensor",
    [
        tensor.CastOp, tensor.CollapseShapeOp, tensor.ConcatOp, tensor.DimOp, tensor.EmptyOp, tensor.ExpandShapeOp,
        tensor.ExtractOp, tensor.ExtractSliceOp, tensor.FromElementsOp, tensor.InsertOp, tensor.InsertSliceOp,
        tensor.PadOp, tensor.ReshapeOp, tensor.SplatOp, GenerateOp, tensor.YieldOp,
    ],
)  # fmt: skip
SCF = Dialect(
    "scf", [scf.ForOp, scf.IfOp, scf.WhileOp, scf.ConditionOp, scf.IndexSwitchOp, scf.ExecuteRegionOp, scf.YieldOp]
)
