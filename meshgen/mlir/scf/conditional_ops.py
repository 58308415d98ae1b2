"""Conditionals of upstream's scf as xDSL has them, with result types as upstream writes them: in parentheses or, of one, without. Assertions of cf."""

from __future__ import annotations

from typing import Self

from xdsl.dialects import scf
from xdsl.dialects.builtin import DenseArrayBase, IndexType, StringAttr, i1, i64
from xdsl.ir import Attribute, Region
from xdsl.irdl import IRDLOperation, irdl_op_definition, operand_def, prop_def
from xdsl.parser import Parser


def result_types(parser: Parser) -> list[Attribute]:
    """`-> type`, `-> (type, type)`, or nothing."""
    if parser.parse_optional_punctuation("->") is None:
        return []
    found = parser.parse_optional_comma_separated_list(parser.Delimiter.PAREN, parser.parse_type)
    return [parser.parse_type()] if found is None else list(found)


class IfOp(scf.IfOp):
    """`scf.if %c -> type {...} else {...}`"""

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        condition, types = parser.parse_operand(i1), result_types(parser)
        first = cls.parse_region_with_yield(parser)
        second = cls.parse_region_with_yield(parser) if parser.parse_optional_keyword("else") else Region()
        return cls(condition, types, first, second, parser.parse_optional_attr_dict())


class IndexSwitchOp(scf.IndexSwitchOp):
    """`scf.index_switch %i -> type case 0 {...} default {...}`"""

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        index, attributes = parser.parse_operand(IndexType()), parser.parse_optional_attr_dict()
        types = result_types(parser)
        numbers, regions = list[int](), list[Region]()
        while parser.parse_optional_keyword("case"):
            numbers.append(parser.parse_integer())
            regions.append(parser.parse_region())
        parser.parse_keyword("default")
        cases = DenseArrayBase.from_list(i64, numbers)
        return cls(index, cases, parser.parse_region(), regions, types, attributes)


@irdl_op_definition
class AssertOp(IRDLOperation):
    """`cf.assert %c, "message"`"""

    name = "cf.assert"
    arg = operand_def(i1)
    msg = prop_def(StringAttr)
    assembly_format = "$arg `,` $msg attr-dict"
