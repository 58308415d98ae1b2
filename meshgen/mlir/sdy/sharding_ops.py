"""Operations of Shardy that declare meshes and state shardings."""

from __future__ import annotations

from xdsl.dialects.builtin import SymbolNameConstraint
from xdsl.ir import Attribute
from xdsl.irdl import IRDLOperation, irdl_op_definition, prop_def, result_def
from xdsl.parser import Parser
from xdsl.printer import Printer

from meshgen.mlir.sdy.attributes import MeshAttr, ShardingAttr, parse_attribute
from meshgen.mlir.sdy.one_value import OfOneValue


@irdl_op_definition
class MeshOp(IRDLOperation):
    """`sdy.mesh @mesh = <["x"=2, "y"=4]>`"""

    name = "sdy.mesh"
    sym_name = prop_def(SymbolNameConstraint())
    mesh = prop_def(MeshAttr)

    @classmethod
    def parse(cls, parser: Parser) -> MeshOp:
        symbol = parser.parse_symbol_name()
        parser.parse_punctuation("=")
        mesh = parse_attribute(parser, MeshAttr)
        attributes = parser.parse_optional_attr_dict()
        return cls.create(properties={"sym_name": symbol, "mesh": mesh}, attributes=attributes)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_symbol_name(self.sym_name.data)
        printer.print_string(f" = <{self.mesh.data}>")
        printer.print_op_attributes(self.attributes)


class Constrained(OfOneValue):
    """`sdy.sharding_constraint %x <@mesh, [{"x"}, {}]> : tensor<8x8xf32>`"""

    sharding = prop_def(ShardingAttr)
    result = result_def()

    @classmethod
    def parse_said(cls, parser: Parser) -> dict[str, Attribute]:
        return {"sharding": parse_attribute(parser, ShardingAttr)}

    @property
    def said(self) -> str:
        return f"<{self.sharding.data}>"


@irdl_op_definition
class ShardingConstraintOp(Constrained):
    name = "sdy.sharding_constraint"


@irdl_op_definition
class ReshardOp(Constrained):
    name = "sdy.reshard"
