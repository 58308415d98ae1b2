"""Shardy's directives of propagation: groups of values with one sharding, barriers, and named computations."""

from __future__ import annotations

from xdsl.dialects.builtin import IntegerAttr, StringAttr, i64
from xdsl.ir import Attribute, Data, OpaqueSyntaxAttribute
from xdsl.irdl import (
    IRDLOperation,
    irdl_attr_definition,
    irdl_op_definition,
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import AttrParser, Parser
from xdsl.printer import Printer

from meshgen.mlir.parser import TextParser
from meshgen.mlir.sdy.attributes import ShardingAttr, ShardingPerValueAttr, parse_attribute, parse_shardings
from meshgen.mlir.sdy.one_value import OfOneValue

DIRECTIONS = ("NONE", "FORWARD", "BACKWARD")


@irdl_attr_definition
class DirectionAttr(OpaqueSyntaxAttribute, Data[str]):
    """`#sdy<propagation_direction FORWARD>`"""

    name = "sdy.propagation_direction"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> str:
        is_quoted = parser.parse_optional_punctuation("<") is not None
        found = parser.parse_identifier()
        if found not in DIRECTIONS:
            parser.raise_error(f"expected one of the directions {', '.join(DIRECTIONS)}, got '{found}'")
        if is_quoted:
            parser.parse_punctuation(">")
        return found

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(f" {self.data}")


@irdl_op_definition
class ShardingGroupOp(OfOneValue):
    """`sdy.sharding_group %x group_id=0 : tensor<8xf32>`"""

    name = "sdy.sharding_group"
    group_id = prop_def(IntegerAttr)

    @classmethod
    def parse_said(cls, parser: Parser) -> dict[str, Attribute]:
        parser.parse_keyword("group_id")
        parser.parse_punctuation("=")
        return {"group_id": IntegerAttr(parser.parse_integer(allow_boolean=False), i64)}


@irdl_op_definition
class PropagationBarrierOp(OfOneValue):
    """`sdy.propagation_barrier %x allowed_direction=FORWARD : tensor<8xf32>`"""

    name = "sdy.propagation_barrier"
    allowed_direction = prop_def(DirectionAttr)
    result = result_def()

    @classmethod
    def parse_said(cls, parser: Parser) -> dict[str, Attribute]:
        parser.parse_keyword("allowed_direction")
        parser.parse_punctuation("=")
        return {"allowed_direction": DirectionAttr(DirectionAttr.parse_parameter(parser))}


class Edge(OfOneValue):
    """`sdy.data_flow_edge %x sharding=<@mesh, [{"x"}]> : tensor<8xf32>`: what Shardy found of a value, as its passes note it."""

    sharding = opt_prop_def(ShardingAttr)
    result = result_def()

    @classmethod
    def parse_said(cls, parser: Parser) -> dict[str, Attribute]:
        if parser.parse_optional_keyword("sharding") is None:
            return {}
        parser.parse_punctuation("=")
        return {"sharding": parse_attribute(parser, ShardingAttr)}


@irdl_op_definition
class DataFlowEdgeOp(Edge):
    """An edge through an operation with regions."""

    name = "sdy.data_flow_edge"


@irdl_op_definition
class FuncDataFlowEdgeOp(Edge):
    """An edge through a call of a function."""

    name = "sdy.func_data_flow_edge"


@irdl_op_definition
class NamedComputationOp(IRDLOperation):
    """`sdy.named_computation<"foo">(%a) in_shardings=[<@mesh, [{"x"}]>] (%b: tensor<8xf32>) {...} : (tensor<8xf32>) -> tensor<8xf32>`"""

    name = "sdy.named_computation"
    arguments = var_operand_def()
    computation = prop_def(StringAttr, prop_name="name")
    in_shardings = opt_prop_def(ShardingPerValueAttr)
    out_shardings = opt_prop_def(ShardingPerValueAttr)
    body = region_def()
    outputs = var_result_def()

    @classmethod
    def parse(cls, parser: Parser) -> NamedComputationOp:
        assert isinstance(parser, TextParser)
        parser.parse_punctuation("<")
        properties: dict[str, Attribute] = {"name": StringAttr(parser.parse_str_literal())}
        parser.parse_punctuation(">")
        operands = parser.parse_comma_separated_list(parser.Delimiter.PAREN, parser.parse_unresolved_operand)
        for name in ("in_shardings", "out_shardings"):
            if parser.parse_optional_keyword(name) is not None:
                properties[name] = parse_shardings(parser)
        body = parser.parse_region(
            parser.parse_comma_separated_list(parser.Delimiter.PAREN, parser.parse_region_argument)
        )
        attributes = parser.parse_optional_attr_dict()
        values, results = parser.parse_signature(operands)
        return cls.create(
            operands=values, result_types=results, properties=properties, attributes=attributes, regions=[body]
        )


OPERATIONS = [ShardingGroupOp, PropagationBarrierOp, DataFlowEdgeOp, FuncDataFlowEdgeOp, NamedComputationOp]
