"""Shardy's collectives between shardings, as its passes write them over global tensors.

The value is unchanged, and `out_sharding` is its sharding afterwards: each is read as a required annotation. The
collectives between two shardings are planned again, for the whole program.
"""

from __future__ import annotations

from typing import ClassVar

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Attribute, Data, OpaqueSyntaxAttribute, Operation
from xdsl.irdl import (
    IRDLOperation,
    irdl_attr_definition,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
)
from xdsl.parser import AttrParser, Parser
from xdsl.printer import Printer

from meshgen.mlir.parser import TextParser
from meshgen.mlir.sdy.attributes import ShardingAttr, parse_attribute
from meshgen.mlir.sdy.spelling import spell_axes
from meshgen.mlir.stablehlo.mesh_axes import AxisRef, parse_part
from meshgen.spec import PARTIAL_KINDS


class ListedAxes(OpaqueSyntaxAttribute, Data[str]):
    """Axes, as they are written."""

    brackets: ClassVar[str] = "[]"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> str:
        assert isinstance(parser, TextParser)
        return parser.parse_bracketed(cls.brackets[0]).join(cls.brackets)

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(self.data)


@irdl_attr_definition
class AxisRefListAttr(ListedAxes):
    """`#sdy<axis_ref_list{"x"}>`"""

    name = "sdy.axis_ref_list"
    brackets = "{}"


@irdl_attr_definition
class ListOfAxisRefListsAttr(ListedAxes):
    """`#sdy<list_of_axis_ref_lists[{"x"}, {}]>`: one per dim."""

    name = "sdy.list_of_axis_ref_lists"


@irdl_attr_definition
class AllToAllParamListAttr(ListedAxes):
    """`#sdy<all_to_all_param_list[{"x"}: 0->1]>`"""

    name = "sdy.all_to_all_param_list"


@irdl_attr_definition
class AxisRefAttr(OpaqueSyntaxAttribute, AxisRef):
    """`#sdy<axis_ref"x":(1)2>`, as replica groups may have it."""

    name = "sdy.axis_ref"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> str:
        name = parser.parse_str_literal()
        return name + parse_part(parser) if parser.parse_optional_punctuation(":") is not None else name

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(spell_axes([self.data]))


# The property of each that lists axes, which follow from the shardings.
_LISTS: dict[str, tuple[str, type[ListedAxes]] | None] = {
    "sharded_to_unreduced": ("axes", ListOfAxisRefListsAttr),
    "replicated_to_unreduced": ("axes", AxisRefListAttr),
    "all_gather": ("gathering_axes", ListOfAxisRefListsAttr),
    "all_slice": ("slicing_axes", ListOfAxisRefListsAttr),
    "all_to_all": ("params", AllToAllParamListAttr),
    "all_reduce": ("reduction_axes", AxisRefListAttr),
    "reduce_scatter": ("reduce_scatter_axes", ListOfAxisRefListsAttr),
    "collective_permute": None,
}
_REDUCING = ("all_reduce", "reduce_scatter")  # by a kind that is a sum where it is not said


class _Collective(IRDLOperation):
    """`sdy.all_reduce max {"x"} %a out_sharding=<@mesh, [{}, {}]> : tensor<8x8xf32>`"""

    tensor = operand_def()
    out_sharding = prop_def(ShardingAttr)
    result = result_def()

    @classmethod
    def parse(cls, parser: Parser) -> IRDLOperation:
        assert isinstance(parser, TextParser)
        name = cls.name.removeprefix("sdy.")
        properties: dict[str, Attribute] = {}
        if name in _REDUCING and (kind := _parse_kind(parser)):
            properties["reduction"] = StringAttr(kind)
        if (listed := _LISTS[name]) is not None:
            properties[listed[0]] = parse_attribute(parser, listed[1])
        operand = parser.parse_unresolved_operand()
        parser.parse_keyword("out_sharding")
        parser.parse_punctuation("=")
        properties["out_sharding"] = parse_attribute(parser, ShardingAttr)
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        type = parser.parse_type()
        value = parser.resolve_operand(operand, type)
        return cls.create(operands=[value], result_types=[type], properties=properties, attributes=attributes)

    def print(self, printer: Printer) -> None:
        if isinstance(kind := self.properties.get("reduction"), StringAttr):
            printer.print_string(f" {kind.data}")
        for axes in self.properties.values():
            if isinstance(axes, ListedAxes):
                printer.print_string(" ")
                axes.print_parameter(printer)
        printer.print_string(" ")
        printer.print_operand(self.tensor)
        printer.print_string(f" out_sharding=<{self.out_sharding.data}>")
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.result.type)


def _parse_kind(parser: TextParser) -> str | None:
    return next((kind for kind in PARTIAL_KINDS if parser.parse_optional_keyword(kind) is not None), None)


def _definition(op: str) -> type[IRDLOperation]:
    listed = _LISTS[op]
    axes = {listed[0]: prop_def(listed[1])} if listed else {}
    kind = {"reduction": opt_prop_def(StringAttr)} if op in _REDUCING else {}
    return irdl_op_definition(type(f"Sdy{op.title()}Op", (_Collective,), {"name": f"sdy.{op}", **axes, **kind}))


COLLECTIVES: list[type[Operation]] = [_definition(op) for op in _LISTS]
LISTED = [AxisRefAttr, AxisRefListAttr, ListOfAxisRefListsAttr, AllToAllParamListAttr]
