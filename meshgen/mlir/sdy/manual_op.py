"""`sdy.manual_computation`: a part of the program that is written per device, with collectives (JAX's shard_map)."""

from __future__ import annotations

from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    prop_def,
    region_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import Parser

from meshgen.mlir.parser import TextParser
from meshgen.mlir.sdy.attributes import ManualAxesAttr, ShardingPerValueAttr, parse_attribute, parse_shardings
from meshgen.mlir.stablehlo.base import Return
from meshgen.mlir.text_operation import define


@irdl_op_definition
class ManualComputationOp(IRDLOperation):
    """`sdy.manual_computation(%a) in_shardings=[<@mesh, [{"x"}]>] out_shardings=[<@mesh, [{}]>] manual_axes={"x"}
    (%b: tensor<2xf32>) {...} : (tensor<8xf32>) -> tensor<2xf32>`: the body works on the tiles of each device."""

    name = "sdy.manual_computation"
    arguments = var_operand_def()
    in_shardings = prop_def(ShardingPerValueAttr)
    out_shardings = prop_def(ShardingPerValueAttr)
    manual_axes = prop_def(ManualAxesAttr)
    body = region_def()
    outputs = var_result_def()

    @classmethod
    def parse(cls, parser: Parser) -> ManualComputationOp:
        assert isinstance(parser, TextParser)
        operands = parser.parse_comma_separated_list(parser.Delimiter.PAREN, parser.parse_unresolved_operand)
        parser.parse_keyword("in_shardings")
        ins = parse_shardings(parser)
        parser.parse_keyword("out_shardings")
        outs = parse_shardings(parser)
        parser.parse_keyword("manual_axes")
        parser.parse_punctuation("=")
        axes = parse_attribute(parser, ManualAxesAttr)
        body = parser.parse_region(
            parser.parse_comma_separated_list(parser.Delimiter.PAREN, parser.parse_region_argument)
        )
        attributes = parser.parse_optional_attr_dict()
        values, results = parser.parse_signature(operands)
        properties = {"in_shardings": ins, "out_shardings": outs, "manual_axes": axes}
        return cls.create(
            operands=values, result_types=results, properties=properties, attributes=attributes, regions=[body]
        )


(RETURN,) = define(Return, "sdy", {"_ -> 0": "return"})  # `sdy.return %a : tensor<2xf32>`
